package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// wallsStale is how long the leader may not know of a wall clock that was moved or set right, or still use its old
	// value: it asks every second, and trusts an answer for 5 s.
	wallsStale = int64(8e9)
	// dateFast and dateSlow are how far the date may differ from the wall clocks' value: an entry carries it once a
	// second, and a follower lags.
	dateFast, dateSlow = int64(1500), int64(3000)
	// leadShrinks is the minimum share of a date's lead that is gone after a second in which the clock ran: half a
	// second (SPEC §3.8) at the clock's own fastest.
	leadShrinks = 0.45
	// skewSeen is a skew that a node must detect: it detects 500 ms, but a stall of the machine while it compares
	// counts as skew, too.
	skewSeen = int64(5000)
)

// checkDate compares the date with the wall clocks of the nodes, right or moved: it never goes back, follows the median
// of a majority forward at once, never runs ahead of it, and reduces a lead at half speed (SPEC §3.8).
func checkDate(v *view) (found []Anomaly) {
	byIndex := dated(v.Samples)
	slices.SortStableFunc(byIndex, func(a, b *Sample) int { return cmp.Compare(a.Index, b.Index) })
	for i := 1; i < len(byIndex); i++ {
		a, b := byIndex[i-1], byIndex[i]
		if b.Date < a.Date || b.Index == a.Index && b.Date != a.Date {
			found = append(found, Anomaly{At: b.At, Text: fmt.Sprintf(
				"the date is %d at index %d (%s) and %d at index %d (%s)", a.Date, a.Index, a.Node, b.Date, b.Index,
				b.Node)})
		}
	}
	return append(found, v.checkLead()...)
}

// checkLead checks the date's lead over the host's own against its limit.
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
		lead = max(0, lead, v.maxMedian(begin, s.At))
		ahead := s.Date - s.Wall
		furthest = max(furthest, ahead)
		if ahead > lead+dateFast {
			say(s, "the date is %d ms ahead of the host's: the wall clocks of a majority make it %d at most", ahead,
				lead)
		}
		for calm < i && !v.quiet(samples[calm], s) {
			calm++
		}
		if s.At-samples[calm].At < wallsStale {
			continue
		}
		if least, _ := v.middle(s.At); ahead+(s.At-s.Asked)/1e6 < least-dateSlow {
			say(s, "the date is %d ms ahead of the host's: the wall clocks make it %d at least", ahead, least)
		}
		seen, unseen := v.skewReported(s)
		told += seen
		for _, node := range unseen {
			say(s, "%s does not say that its wall clock is off", node)
		}
	}
	if len(v.Walls) > 0 {
		v.figures["walls_moved"], v.figures["date_ahead_most_ms"], v.figures["skews_told"] = len(
			v.Walls), furthest, told
	}
	return found
}

// dated returns the samples that contain a date.
func dated(all []Sample) (samples []*Sample) {
	for i := range all {
		if all[i].Date != 0 {
			samples = append(samples, &all[i])
		}
	}
	return samples
}

// skewReported counts the nodes that must report that their wall clock is off and do, and lists those that do not.
func (v *view) skewReported(s *Sample) (told int, unreported []string) {
	lowest, highest := v.middle(s.At)
	for _, node := range v.members(s.At) {
		low, high := v.wall(node, s.At, false), v.wall(node, s.At, true)
		if !slices.Contains(s.Told, node) || low-highest < skewSeen && lowest-high < skewSeen {
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

// maxMedian is the furthest that the median of any majority's wall clocks can have been ahead during a time: if some
// are unknown, those that are ahead have more weight.
func (v *view) maxMedian(from, to int64) (most int64) {
	at := []int64{from}
	for _, w := range v.Walls {
		if w.Begin > from && w.Begin <= to {
			at = append(at, w.Begin)
		}
	}
	for i, t := range at {
		median := int64(math.MinInt64)
		for _, walls := range v.walls(t, true) {
			slices.Sort(walls)
			majority := len(walls)/2 + 1
			median = max(median, walls[len(walls)-majority+(majority-1)/2])
		}
		if most = max(most, median); i == 0 {
			most = median
		}
	}
	return most
}

// middle returns the minimum and maximum of the median of the wall clocks; for an even count nodes use the lower one.
func (v *view) middle(at int64) (least, most int64) {
	of := func(high bool) (medians []int64) {
		for _, walls := range v.walls(at, high) {
			slices.Sort(walls)
			medians = append(medians, walls[(len(walls)-1)/2])
		}
		return medians
	}
	return slices.Min(of(false)), slices.Max(of(true))
}

// walls returns how far the members' wall clocks, as the leader knows them, are ahead of the host's, at most or at
// least: those of the current members, and of the members a little before.
func (v *view) walls(at int64, most bool) (sets [][]int64) {
	for _, names := range [][]string{v.members(at), v.members(at - wallsStale)} {
		walls := make([]int64, 0, len(names))
		for _, name := range names {
			walls = append(walls, v.wall(name, at, most))
		}
		sets = append(sets, walls)
	}
	return sets
}

// wall returns how far one node's wall clock is ahead, as the leader knows it, at most or at least.
func (v *view) wall(node string, at int64, most bool) (ahead int64) {
	for _, w := range v.Walls {
		firm := !w.Swings && at >= w.Begin+wallsStale && at <= w.End
		blurred := at >= w.Begin && at <= w.End+wallsStale && (w.Ahead > 0) == most
		if w.Node == node && (firm || blurred) {
			ahead += w.Ahead
		}
	}
	return ahead
}

// members are the nodes that a run begins with and those that came later, without those that are gone for good by then.
func (v *view) members(at int64) (names []string) {
	for i := range v.Nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	for _, c := range v.Changes {
		if isNode(c.Who) && c.At <= at && !slices.Contains(names, c.Who) {
			names = append(names, c.Who)
		}
	}
	remain := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		lives := v.lives[name]
		if len(lives) == 0 {
			return false
		}
		last := lives[len(lives)-1]
		return (last.State == IsDown || last.State == IsGone) && last.At <= at
	})
	if len(remain) == 0 { // a run that ends with the death of all
		return names
	}
	return remain
}

// isNode reports whether the name is that of a node, n1, and not of a worker, w1.
func isNode(name string) bool { return strings.HasPrefix(name, "n") }
