package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// soakPlan is the length of the soak.
type soakPlan struct {
	of   time.Duration
	warm int
}

// grown is a metric over a soak: the greatest of any server at each moment.
type grown struct {
	name, unit string
	of         func(sample) float64
	// slack is the growth allowed over the second half, regardless of its share of the mean.
	slack float64
	// told means that the metric is reported, but not judged.
	told bool
	seen [][2]float64
}

// minSoak is the minimum length of a soak for its verdict to count: garbage alone takes minutes to fill the room that
// a server gives it.
const minSoak = 20 * time.Minute

// flatShare is the share of its mean that a metric may gain over the second half of a soak.
const flatShare = 0.05

func newGrown() []*grown {
	return []*grown{
		{name: "own memory", unit: "MiB", of: func(s sample) float64 { return ownMemory(s) / (1 << 20) }, slack: 16},
		{name: "goroutines", of: func(s sample) float64 { return s[metricGoroutines] }, slack: 16},
		{name: "open files", of: func(s sample) float64 { return s[metricFDs] }, slack: 4},
		// Including the mapped pages of raft.db and archive.db, which the kernel may reclaim at any time: they grow
		// with the history on the disk.
		{name: "resident memory, mapped files with it", unit: "MiB",
			of: func(s sample) float64 { return s[metricRSS] / (1 << 20) }, told: true},
	}
}

// measureSoak runs at one rate for a long time and judges whether anything grows.
func (p *plan) measureSoak(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	all, r := newGrown(), result{}
	err = p.cluster(ctx, p.rota, nil, func(s *servers) error {
		if p.soak.warm > 0 {
			p.say("%d jobs to warm up", p.soak.warm)
			args := []string{"jobs", "--jobs", strconv.Itoa(p.soak.warm), "--payload", strconv.Itoa(p.payload)}
			if err := run(ctx, maxFill, nil, p.rota, s.withAddr("bench", args)...); err != nil {
				return err
			}
		}
		begin := time.Now()
		said := begin
		stop := s.watch(ctx, func(samples []sample) {
			at := time.Since(begin).Seconds()
			for _, g := range all {
				g.see(at, samples)
			}
			if time.Since(said) > p.soak.of/10 {
				said = time.Now()
				p.say("%s", lastOf(all))
			}
		})
		defer stop()
		// One bench after another, as each keeps a record of every job.
		for left := p.soak.of; left > 0; {
			part := *p
			part.seconds = max(1, int(min(left, time.Minute).Seconds()))
			one, err := part.measure(ctx, p.rota, s, part.open(p.rates[0]))
			if err != nil {
				return err
			}
			r.Completed += one.Completed
			r.E2EP99Ms = max(r.E2EP99Ms, one.E2EP99Ms)
			left = p.soak.of - time.Since(begin)
		}
		return nil
	})
	if err != nil {
		return err
	}
	text, flat := soakTable(all)
	if p.soak.of < minSoak {
		text, flat = text+fmt.Sprintf("\nTo judge, %s are wanted at least.\n", minSoak), true
	}
	text = m.markdown() + fmt.Sprintf(
		"%s at %d jobs/s after %s to warm up: %d jobs, none lost, none done twice; the worst minute's "+
			"p99 end to end was %.0f ms.\n\n", p.soak.of, p.rates[0], thousands(p.soak.warm), r.Completed,
		r.E2EP99Ms) + text
	if p.scale.pictures != "" {
		c := chart{title: "Memory of a server over a soak", x: "s", y: "MiB", linearX: true,
			curves: []curve{{name: "most of any server", points: all[0].seen}}}
		if err := c.save(p.scale.pictures, "soak-memory"); err != nil {
			return err
		}
		text += "\n![Memory of a server over a soak](soak-memory.svg)\n"
	}
	if err := p.publish("bench-soak", text); err != nil {
		return err
	}
	if !flat {
		return errors.New("something grows")
	}
	return nil
}

func (g *grown) see(at float64, samples []sample) {
	most := 0.0
	for _, one := range samples {
		most = max(most, g.of(one))
	}
	g.seen = append(g.seen, [2]float64{at, most})
}

func lastOf(all []*grown) string {
	var parts []string
	for _, g := range all {
		if len(g.seen) > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", g.name, g.seen[len(g.seen)-1][1]))
		}
	}
	return strings.Join(parts, ", ")
}

// settled returns the second half of the samples: caches fill during the first.
func (g *grown) settled() [][2]float64 {
	if len(g.seen) == 0 {
		return nil
	}
	half := g.seen[len(g.seen)-1][0] / 2
	i := slices.IndexFunc(g.seen, func(p [2]float64) bool { return p[0] >= half })
	return g.seen[i:]
}

// slope returns the least-squares gain a second, and the mean.
func slope(seen [][2]float64) (slope, mean float64) {
	var x, y float64
	for _, p := range seen {
		x, y = x+p[0], y+p[1]
	}
	n := float64(len(seen))
	if n == 0 {
		return 0, 0
	}
	x, y = x/n, y/n
	var above, below float64
	for _, p := range seen {
		above, below = above+(p[0]-x)*(p[1]-y), below+(p[0]-x)*(p[0]-x)
	}
	if below == 0 {
		return 0, y
	}
	return above / below, y
}

// flat reports whether, over the second half, the fitted line gains no more than a share of the mean, or than slack.
func (g *grown) flat() (gains, mean float64, flat bool) {
	seen := g.settled()
	a, mean := slope(seen)
	if len(seen) < 3 {
		return math.NaN(), mean, false // too short to say
	}
	gains = a * (seen[len(seen)-1][0] - seen[0][0])
	return gains, mean, gains <= max(flatShare*mean, g.slack)
}

func soakTable(all []*grown) (text string, flat bool) {
	var b strings.Builder
	b.WriteString(
		"| most of any server | mean of the second half | its fitted line gains | an hour | |\n|---|---:|---:|---:|---|\n")
	flat = true
	for _, g := range all {
		gains, mean, is := g.flat()
		word := "flat"
		switch {
		case g.told:
			word = "not judged: the kernel takes mapped pages back as it needs them"
		case !is:
			word, flat = "**grows**", false
		}
		a, _ := slope(g.settled())
		name := g.name
		if g.unit != "" {
			name += ", " + g.unit
		}
		fmt.Fprintf(&b, "| %s | %.1f | %+.1f | %+.1f | %s |\n", name, mean, gains, a*3600, word)
	}
	return b.String(), flat
}
