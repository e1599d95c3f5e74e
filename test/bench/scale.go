package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalePlan holds the sizes that the curves go up to.
type scalePlan struct {
	pending, workers []int
	queues, tenants  int
	// pictures is the folder for the curves; empty means that none are drawn.
	pictures string
}

// slotsTogether are divided among the workers, each of which has at least one.
const slotsTogether = 256

// maxFill bounds the time to fill a cluster for a measurement.
const maxFill = 30 * time.Minute

// fillUnasked pending jobs fit into a cluster's state by default, twice over. For more, the state limit is raised to
// bytesPending for each, which is more than any of these jobs needs: submissions beyond the limit would wait forever.
const fillUnasked, bytesPending = 1_000_000, 1 << 10

// point is one point on the curves.
type point struct {
	at         int
	fast, open result
	// rss is the peak memory of a server, in bytes.
	rss float64
	// late means that the point could not be measured within maxMeasure: there are no figures.
	late bool
	// ratio is the throughput relative to the first point, where rounds alternated with it; 0 where they did not.
	ratio float64
}

// pairsInTurns is the number of rounds measured here and at the first point: one pair of single rounds gave 0.85 to
// 1.12 for the same build.
const pairsInTurns = 3

// A server that holds longFrom pending jobs or more collects its garbage less than once in a usual round, so a round
// shows either too much of that cost or none: its alternating rounds have longTimes as many jobs.
const longFrom, longTimes = 1_000_000, 5

// measureScale is `make bench-scale`.
func (p *plan) measureScale(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var pending, workers, wide []point
	var big bigState
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		pending, err = p.besidePending(ctx, s, 3)
		return err
	})
	if err != nil {
		return err
	}
	// In a separate cluster: the rounds next to the other would leave traces in its state.
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		n := p.bigPending()
		if err := p.fill(ctx, s, n, n); err != nil {
			return err
		}
		for range bigRounds {
			if _, err := p.measure(ctx, p.rota, s, p.closed()); err != nil {
				return err
			}
		}
		big, err = p.measureBig(ctx, s, n)
		return err
	})
	if err != nil {
		return err
	}
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		for _, n := range p.scale.workers {
			one, err := p.place(ctx, s, n, "workers", "--workers", strconv.Itoa(n), "--slots",
				strconv.Itoa(max(1, slotsTogether/n)))
			if err != nil {
				return err
			}
			workers = append(workers, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		for _, one := range [][2]int{{1, 1}, {p.scale.queues, 1}, {1, p.scale.tenants}} {
			r, err := p.place(ctx, s, 0, fmt.Sprintf("%d queues, %d tenants", one[0], one[1]), "--queues",
				strconv.Itoa(one[0]), "--tenants", strconv.Itoa(one[1]))
			if err != nil {
				return err
			}
			wide = append(wide, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	links, err := p.draw(curvesOf(pending, workers))
	if err != nil {
		return err
	}
	text := m.markdown() + p.scaleTable("pending jobs", pending) + "\n" + p.scaleTable("connected workers", workers) +
		"\n" +
		p.wideTable(wide) + "\n" + big.table() + links
	return p.publish("bench-scale", text)
}

// maxBig is the greatest number of pending jobs with which snapshots, starts and joining are measured: the number in
// the goals.
const maxBig = 1_000_000

// bigRounds is the number of rounds of jobs that ended in a state that is measured as a whole.
const bigRounds = 4

// bigPending returns the number of pending jobs for that: the greatest that is not above maxBig, or the first.
func (p *plan) bigPending() int {
	big := p.scale.pending[0]
	for _, n := range p.scale.pending {
		if n <= maxBig {
			big = max(big, n)
		}
	}
	return big
}

// besidePending measures next to a growing number of jobs that no worker runs. A second cluster of as many nodes stays
// at the first point: throughput is reported as a ratio to that cluster's, in alternating rounds, as the machine's
// speed varies.
func (p *plan) besidePending(ctx context.Context, s *servers, nodes int) (all []point, err error) {
	err = p.clusterOf(ctx, nodes, p.rota, nil, func(first *servers) error {
		filled := 0
		for i, n := range p.scale.pending {
			if lacking := n - filled; lacking > 0 {
				if err := p.fill(ctx, s, lacking, n); err != nil {
					return err
				}
				filled = n
			}
			if i == 0 {
				if err := p.fill(ctx, first, n, n); err != nil {
					return err
				}
			}
			one, err := p.place(ctx, s, n, "pending jobs")
			if err == nil && !one.late && i > 0 {
				err = p.inTurns(ctx, &one, s, first)
			}
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// inTurns measures a point's throughput again, alternating with the first point.
func (p *plan) inTurns(ctx context.Context, one *point, s, first *servers) error {
	var here []result
	var ratios []float64
	jobs := p.jobs
	if one.at >= longFrom {
		jobs *= longTimes
	}
	for turn := range pairsInTurns + 1 { // the first warms up
		a, err := p.measure(ctx, p.rota, first, p.jobsLoad(jobs))
		var b result
		if err == nil {
			b, err = p.measure(ctx, p.rota, s, p.jobsLoad(jobs))
		}
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			p.say("%s pending jobs: no rounds in turns, one took longer than %s", thousands(one.at), maxMeasure)
			return nil
		}
		if err != nil {
			return err
		}
		p.say("in turns: %.0f jobs/s with %s, %.0f with %s", a.JobsPerS, thousands(p.scale.pending[0]), b.JobsPerS,
			thousands(one.at))
		if turn > 0 {
			here, ratios = append(here, b), append(ratios, b.JobsPerS/a.JobsPerS)
		}
	}
	slices.SortFunc(here, func(a, b result) int { return cmp.Compare(a.JobsPerS, b.JobsPerS) })
	slices.Sort(ratios)
	one.fast, one.ratio = here[len(here)/2], median(ratios)
	return nil
}

// fill adds pending jobs; together is their number afterwards.
func (p *plan) fill(ctx context.Context, s *servers, more, together int) error {
	if err := run(ctx, time.Minute, nil, p.rota, s.withAddr("queue",
		[]string{"set", "waiting", "--preset", "standard", "--set",
			fmt.Sprintf("queue_cap=%d", 2*max(together, 1_000_000))})...); err != nil {
		return err
	}
	if together > fillUnasked {
		if err := run(ctx, time.Minute, nil, p.rota, s.withAddr("cluster",
			[]string{"set", fmt.Sprintf("state_bytes_max=%d", together*bytesPending)})...); err != nil {
			return err
		}
	}
	var filled result
	if err := run(ctx, maxFill, &filled, p.rota, s.withAddr("bench", []string{"fill", "--jobs", strconv.Itoa(more),
		"--payload", strconv.Itoa(p.payload)})...); err != nil {
		return err
	}
	p.say("%d jobs are pending: %d more in %.1f s, %.0f a second", together, more, filled.Seconds, filled.JobsPerS)
	return nil
}

// place measures the maximum throughput and the first rate at one point of a curve.
func (p *plan) place(ctx context.Context, s *servers, at int, what string, args ...string) (one point, err error) {
	one.at = at
	one.fast, err = p.measure(ctx, p.rota, s, append(p.closed(), args...))
	if err == nil {
		one.open, err = p.measure(ctx, p.rota, s, append(p.open(p.rates[0]), args...))
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		// A measurement that takes too long is also a result, and must not lose all others.
		p.say("%d %s: not done within %s", at, what, maxMeasure)
		one.late = true
		return one, nil
	}
	if err != nil {
		return one, err
	}
	one.rss, err = s.most(ctx, metricRSS)
	p.say("%d %s: %.0f jobs/s; at %d jobs/s end to end p50 %.1f ms, p99 %.1f ms; %.0f MiB", at, what, one.fast.JobsPerS,
		p.rates[0], one.open.E2EP50Ms, one.open.E2EP99Ms, one.rss/(1<<20))
	return one, err
}

const scaleHead = "jobs/s | ÷ first | servers' CPU, µs a job | at %d jobs/s: p50 ms | p99 ms | memory of a server, MiB |\n" +
	"|---|---:|---:|---:|---:|---:|---:|\n"

func (one *point) row(first *point) string {
	if one.late {
		return fmt.Sprintf("not within %s | | | | | |\n", maxMeasure)
	}
	ratio := one.ratio
	if ratio == 0 {
		ratio = one.fast.JobsPerS / first.fast.JobsPerS
	}
	return fmt.Sprintf("%.0f | %.2f | %.0f | %.1f | %.1f | %.0f |\n", one.fast.JobsPerS, ratio,
		one.fast.ServersCPUUs, one.open.E2EP50Ms, one.open.E2EP99Ms, one.rss/(1<<20))
}

func (p *plan) scaleTable(what string, all []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | "+scaleHead, what, p.rates[0])
	inTurns := false
	for i := range all {
		fmt.Fprintf(&b, "| %s | %s", thousands(all[i].at), all[i].row(&all[0]))
		inTurns = inTurns || all[i].ratio > 0
	}
	if inTurns {
		fmt.Fprintf(&b, "\n÷ first: the median of %d pairs of rounds, in turns with a cluster of as many nodes beside %s.\n",
			pairsInTurns,
			thousands(all[0].at))
	}
	return b.String()
}

func (p *plan) wideTable(all []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| queues and tenants in turns | "+scaleHead, p.rates[0])
	for i, name := range []string{"1 queue, 1 tenant", thousands(p.scale.queues) + " queues",
		thousands(p.scale.tenants) + " tenants"} {
		fmt.Fprintf(&b, "| %s | %s", name, all[i].row(&all[0]))
	}
	return b.String()
}

// thousands writes 1000000 as 1,000,000.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// picture is one picture of a page.
type picture struct {
	name, title, x string
	latency        bool
	of             []point
}

func curvesOf(pending, workers []point) []picture {
	return []picture{
		{"pending-throughput", "Throughput beside pending jobs", "pending jobs", false, pending},
		{"pending-latency", "End to end beside pending jobs", "pending jobs", true, pending},
		{"workers-throughput", "Throughput by connected workers", "connected workers", false, workers},
		{"workers-latency", "End to end by connected workers", "connected workers", true, workers},
	}
}

// draw saves pictures, and returns the lines that link them from the page, which is next to their folder.
func (p *plan) draw(pictures []picture) (links string, err error) {
	if p.scale.pictures == "" {
		return "", nil
	}
	for _, file := range pictures {
		all := file.of
		c := chart{title: file.title, x: file.x, y: "jobs a second"}
		if !file.latency {
			c.curves = []curve{curveOf("jobs/s", all, func(o *point) float64 { return o.fast.JobsPerS })}
		} else {
			c.title += fmt.Sprintf(", %d jobs/s, open loop", p.rates[0])
			c.y, c.logY = "ms", true
			c.curves = []curve{curveOf("p50", all, func(o *point) float64 { return o.open.E2EP50Ms }),
				curveOf("p99", all, func(o *point) float64 { return o.open.E2EP99Ms })}
		}
		if err := c.save(p.scale.pictures, file.name); err != nil {
			return "", err
		}
		links += fmt.Sprintf("\n![%s](%s.svg)\n", file.title, file.name)
	}
	return links, nil
}

func curveOf(name string, all []point, of func(*point) float64) curve {
	c := curve{name: name}
	for i := range all {
		if all[i].late {
			continue
		}
		c.points = append(c.points, [2]float64{float64(all[i].at), of(&all[i])})
	}
	return c
}
