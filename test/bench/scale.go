package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// scalePlan says how large things are to get.
type scalePlan struct {
	pending, workers []int
	queues, tenants  int
	// pictures is where the curves go; nowhere where it is empty.
	pictures string
}

// slotsTogether are parted among the workers, each of which has one at least.
const slotsTogether = 256

// fillMost bounds filling for a measurement.
const fillMost = 30 * time.Minute

// point is one place on the curves.
type point struct {
	at         int
	fast, open result
	// rss is the memory that a server takes at most, in bytes.
	rss float64
	// late says that it could not be measured within measureMost: there are no figures.
	late bool
}

// measureScale is `make bench-scale`.
func (p *plan) measureScale(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var pending, workers, wide []point
	var big bigState
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		if pending, err = p.besidePending(ctx, s); err != nil {
			return err
		}
		big, err = p.measureBig(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	err = p.cluster(ctx, p.rota, nil, func(s *servers) (err error) {
		for _, n := range p.scale.workers {
			one, err := p.place(ctx, s, n, "workers", "--workers", strconv.Itoa(n), "--slots", strconv.Itoa(max(1, slotsTogether/n)))
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
			r, err := p.place(ctx, s, 0, fmt.Sprintf("%d queues, %d tenants", one[0], one[1]), "--queues", strconv.Itoa(one[0]),
				"--tenants", strconv.Itoa(one[1]))
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
	if err := p.draw(pending, workers); err != nil {
		return err
	}
	text := m.markdown() + p.scaleTable("pending jobs", pending) + "\n" + p.scaleTable("connected workers", workers) + "\n" +
		p.wideTable(wide) + "\n" + big.table() + p.pictures()
	return p.publish("bench-scale", text)
}

// besidePending measures beside ever more jobs that nobody takes.
func (p *plan) besidePending(ctx context.Context, s *servers) (all []point, err error) {
	filled := 0
	for _, n := range p.scale.pending {
		if more := n - filled; more > 0 {
			if err := p.fill(ctx, s, more, n); err != nil {
				return nil, err
			}
			filled = n
		}
		one, err := p.place(ctx, s, n, "pending jobs")
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// fill adds jobs to those that wait; together is how many they are then.
func (p *plan) fill(ctx context.Context, s *servers, more, together int) error {
	if err := run(ctx, time.Minute, nil, p.rota, s.withAddr("queue", []string{"set", "waiting", "--preset", "standard", "--set",
		fmt.Sprintf("queue_cap=%d", 2*max(together, 1_000_000))})...); err != nil {
		return err
	}
	var filled result
	if err := run(ctx, fillMost, &filled, p.rota, s.withAddr("bench", []string{"fill", "--jobs", strconv.Itoa(more),
		"--payload", strconv.Itoa(p.payload)})...); err != nil {
		return err
	}
	p.say("%d jobs are pending: %d more in %.1f s, %.0f a second", together, more, filled.Seconds, filled.JobsPerS)
	return nil
}

// place measures as fast as it goes and at the first rate, at one place of a curve.
func (p *plan) place(ctx context.Context, s *servers, at int, what string, args ...string) (one point, err error) {
	one.at = at
	one.fast, err = p.measure(ctx, p.rota, s, append(p.closed(), args...))
	if err == nil {
		one.open, err = p.measure(ctx, p.rota, s, append(p.open(p.rates[0]), args...))
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		// What takes too long is a finding too, and no reason to lose all others.
		p.say("%d %s: not done within %s", at, what, measureMost)
		one.late = true
		return one, nil
	}
	if err != nil {
		return one, err
	}
	one.rss, err = s.most(ctx, metricRSS)
	p.say("%d %s: %.0f jobs/s; at %d jobs/s end to end p50 %.1f ms, p99 %.1f ms; %.0f MiB", at, what, one.fast.JobsPerS, p.rates[0],
		one.open.E2EP50Ms, one.open.E2EP99Ms, one.rss/(1<<20))
	return one, err
}

const scaleHead = "jobs/s | ÷ first | servers' CPU, µs a job | at %d jobs/s: p50 ms | p99 ms | memory of a server, MiB |\n" +
	"|---|---:|---:|---:|---:|---:|---:|\n"

func (one *point) row(first *point) string {
	if one.late {
		return fmt.Sprintf("not within %s | | | | | |\n", measureMost)
	}
	return fmt.Sprintf("%.0f | %.2f | %.0f | %.1f | %.1f | %.0f |\n", one.fast.JobsPerS, one.fast.JobsPerS/first.fast.JobsPerS,
		one.fast.ServersCPUUs, one.open.E2EP50Ms, one.open.E2EP99Ms, one.rss/(1<<20))
}

func (p *plan) scaleTable(what string, all []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | "+scaleHead, what, p.rates[0])
	for i := range all {
		fmt.Fprintf(&b, "| %s | %s", thousands(all[i].at), all[i].row(&all[0]))
	}
	return b.String()
}

func (p *plan) wideTable(all []point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| queues and tenants in turns | "+scaleHead, p.rates[0])
	for i, name := range []string{"1 queue, 1 tenant", thousands(p.scale.queues) + " queues", thousands(p.scale.tenants) + " tenants"} {
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

// curveFiles are the pictures, in the order of the page.
var curveFiles = []struct{ name, title string }{
	{"pending-throughput", "Throughput beside pending jobs"},
	{"pending-latency", "End to end beside pending jobs"},
	{"workers-throughput", "Throughput by connected workers"},
	{"workers-latency", "End to end by connected workers"},
}

func (p *plan) draw(pending, workers []point) error {
	if p.scale.pictures == "" {
		return nil
	}
	for i, file := range curveFiles {
		all, x := pending, "pending jobs"
		if i >= 2 {
			all, x = workers, "connected workers"
		}
		c := chart{title: file.title, x: x, y: "jobs a second"}
		if i%2 == 0 {
			c.curves = []curve{curveOf("jobs/s", all, func(o *point) float64 { return o.fast.JobsPerS })}
		} else {
			c.title += fmt.Sprintf(", %d jobs/s, open loop", p.rates[0])
			c.y, c.logY = "ms", true
			c.curves = []curve{curveOf("p50", all, func(o *point) float64 { return o.open.E2EP50Ms }),
				curveOf("p99", all, func(o *point) float64 { return o.open.E2EP99Ms })}
		}
		if err := c.save(p.scale.pictures, file.name); err != nil {
			return err
		}
	}
	return nil
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

// pictures links the curves from the page, which stands beside their folder.
func (p *plan) pictures() string {
	if p.scale.pictures == "" {
		return ""
	}
	var b strings.Builder
	for _, file := range curveFiles {
		fmt.Fprintf(&b, "\n![%s](performance/%s.svg)\n", file.title, file.name)
	}
	return b.String()
}
