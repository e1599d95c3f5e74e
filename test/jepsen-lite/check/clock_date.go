package check

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// wallsStale is how long a wall clock that was moved or set right may be unknown to
	// the leader, or count on with it: it asks every second, and believes an answer for 5 s.
	wallsStale = int64(8e9)
	// dateFast and dateSlow are how far the date may be from where the wall clocks have it:
	// an entry carries them once a second, and a follower lags.
	dateFast, dateSlow = int64(1500), int64(3000)
	// leadShrinks is how much of a date's lead is gone, at least, after a second in which
	// the clock ran: half a second (SPEC §3.8) at the clock's own fastest.
	leadShrinks = 0.45
	// skewSeen is a skew that a node must see: it sees 500 ms, but a stall of the
	// machine while it compares counts as skew, too.
	skewSeen = int64(5000)
)

// checkDate holds the date against the wall clocks of the nodes, right or moved: it
// never goes back, follows the median of a majority forward at once, never runs ahead
// of it, and works off a lead at half speed (SPEC §3.8).
func checkDate(v *view) (found []Anomaly) {
	byIndex := dated(v.Samples)
	slices.SortStableFunc(byIndex, func(a, b *Sample) int { return cmp.Compare(a.Index, b.Index) })
	for i := 1; i < len(byIndex); i++ {
		a, b := byIndex[i-1], byIndex[i]
		if b.Date < a.Date || b.Index == a.Index && b.Date != a.Date {
			found = append(found, Anomaly{At: b.At, Text: fmt.Sprintf(
				"the date is %d at index %d (%s) and %d at index %d (%s)", a.Date, a.Index, a.Node, b.Date, b.Index, b.Node)})
		}
	}
	return append(found, v.checkLead()...)
}

// checkLead holds the date's lead over the host's own against what it may be.
func (v *view) checkLead() (found []Anomaly) {
	samples := slices.DeleteFunc(newest(v.Samples), func(s *Sample) bool { return s.Date == 0 })
	say := func(s *Sample, format string, args ...any) {
		found = append(found, Anomaly{At: s.At, Text: "at " + seconds(s.At) + " " + fmt.Sprintf(format, args...)})
	}
	furthest, told, lead, calm := int64(0), 0, int64(0), 0
	for i, s := range samples {
		begin := s.Asked
		if i > 0 {
			p := samples[i-1]
			if begin = p.At; v.quiet(p, s) {
				lead -= int64(float64(s.At-p.At) / 1e6 * leadShrinks)
			}
		}
		lead = max(0, lead, v.medianMost(begin, s.At))
		ahead := s.Date - s.Wall
		furthest = max(furthest, ahead)
		if ahead > lead+dateFast {
			say(s, "the date is %d ms ahead of the host's: the wall clocks of a majority make it %d at most", ahead, lead)
		}
		for calm < i && !v.quiet(samples[calm], s) {
			calm++
		}
		if s.At-samples[calm].At < wallsStale {
			continue
		}
		if least := middle(v.walls(s.At, false)); ahead+(s.At-s.Asked)/1e6 < least-dateSlow {
			say(s, "the date is %d ms ahead of the host's: the wall clocks make it %d at least", ahead, least)
		}
		seen, unseen := v.skewReported(s)
		told += seen
		for _, node := range unseen {
			say(s, "%s does not say that its wall clock is off", node)
		}
	}
	if len(v.Walls) > 0 {
		v.figures["walls_moved"], v.figures["date_ahead_most_ms"], v.figures["skews_told"] = len(v.Walls), furthest, told
	}
	return found
}

// dated are the samples that tell a date.
func dated(all []Sample) (samples []*Sample) {
	for i := range all {
		if all[i].Date != 0 {
			samples = append(samples, &all[i])
		}
	}
	return samples
}

// skewReported counts the nodes that must say that their wall clock is off and do, and
// lists those that do not.
func (v *view) skewReported(s *Sample) (told int, unreported []string) {
	low, high := v.walls(s.At, false), v.walls(s.At, true)
	lowest, highest := middle(low), middle(high)
	for i, node := range v.founders() {
		if !slices.Contains(s.Told, node) || low[i]-highest < skewSeen && lowest-high[i] < skewSeen {
			continue
		}
		if slices.Contains(s.Skewed, node) {
			told++
		} else {
			unreported = append(unreported, node)
		}
	}
	return told, unreported
}

// medianMost is the furthest that the wall clocks of any majority can have had their
// median ahead in a time: with some unheard, those that are ahead weigh more.
func (v *view) medianMost(from, to int64) (most int64) {
	at := []int64{from}
	for _, w := range v.Walls {
		if w.Begin > from && w.Begin <= to {
			at = append(at, w.Begin)
		}
	}
	for i, t := range at {
		walls := v.walls(t, true)
		slices.Sort(walls)
		majority := len(walls)/2 + 1
		median := walls[len(walls)-majority+(majority-1)/2]
		if most = max(most, median); i == 0 {
			most = median
		}
	}
	return most
}

// middle is the median as nodes take it: the lower one of an even count.
func middle(walls []int64) int64 {
	sorted := slices.Sorted(slices.Values(walls))
	return sorted[(len(sorted)-1)/2]
}

// walls are how far the founders' wall clocks, as the leader knows them, are ahead of
// the host's: at most, or at least. Where a node joins and leaves, a wall clock that
// is right is added.
func (v *view) walls(at int64, most bool) []int64 {
	names := v.founders()
	walls := make([]int64, len(names), len(names)+1)
	for _, w := range v.Walls {
		i := slices.Index(names, w.Node)
		if i < 0 {
			continue
		}
		firm := !w.Swings && at >= w.Begin+wallsStale && at <= w.End
		blurred := at >= w.Begin && at <= w.End+wallsStale && (w.Ahead > 0) == most
		if firm || blurred {
			walls[i] += w.Ahead
		}
	}
	if slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Nemesis == "membership" }) {
		walls = append(walls, 0)
	}
	return walls
}

// founders are the names of the nodes that a run begins with.
func (v *view) founders() (names []string) {
	for i := range v.Nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	return names
}
