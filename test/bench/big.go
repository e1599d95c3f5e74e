package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// bigState is the cost of writing, reading and transferring all pending jobs at one point of the curve.
type bigState struct {
	pending int
	// save, wrote, frozen and held are about writing a backup during a load: how long the command took and how much of
	// that the node wrote; the longest time during which nothing was applied because the state was frozen, and the
	// longest time to apply one entry meanwhile (both upper bounds: a bucket). saved is the backup's size,
	// beside the load.
	save, wrote, frozen, held float64
	saved                     int64
	beside                    result
	// start is a cold start of all nodes; restore makes a data directory of the backup, restored is the cold start of
	// that, from a snapshot alone.
	start, restore, restored float64
	// caught is the time from the start of an empty node until it is ready, by snapshot and under the load
	// caughtBeside.
	caught       float64
	caughtBeside result
}

// besideSeconds is how long a load runs during a measurement, plus one second for each pendingASecond: the load
// outlasts the measurement.
const (
	besideSeconds  = 30
	pendingASecond = 50_000
)

// maxCommand bounds each of the commands here.
const maxCommand = 10 * time.Minute

// measureBig measures a cluster that has the given number of pending jobs.
func (p *plan) measureBig(ctx context.Context, s *servers, pending int) (b bigState, err error) {
	b.pending = pending
	file := filepath.Join(s.dir, "backup")
	before, err := s.all(ctx)
	if err != nil {
		return b, err
	}
	b.beside, err = p.beside(ctx, s, func() (err error) {
		b.save, err = timed(func() error {
			return run(ctx, maxCommand, nil, p.rota, s.withAddr("operator", []string{"snapshot", "save", file})...)
		})
		return err
	})
	if err != nil {
		return b, err
	}
	after, err := s.all(ctx)
	if err != nil {
		return b, err
	}
	for i := range after {
		b.held = max(b.held, largestBucket(before[i], after[i], metricApply))
		b.frozen = max(b.frozen, largestBucket(before[i], after[i], metricHold))
		if n := after[i][metricWrite+"_count"] - before[i][metricWrite+"_count"]; n > 0 {
			b.wrote = max(b.wrote, (after[i][metricWrite+"_sum"]-before[i][metricWrite+"_sum"])/n)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return b, err
	}
	b.saved = info.Size()
	p.say("snapshot saved in %.1f s, %.1f s of writing, %d bytes; frozen in %.5f s, no entry took longer than %.3f s to apply",
		b.save, b.wrote, b.saved, b.frozen, b.held)
	if b.start, err = timed(func() error { return s.restartAll(ctx) }); err != nil {
		return b, err
	}
	p.say("all nodes killed and started: ready after %.1f s", b.start)
	err = p.measureJoin(ctx, file, &b)
	return b, err
}

// measureJoin restores the backup into a cluster of one and lets empty nodes join it under load: as the earlier log no
// longer exists, they can catch up only by snapshot.
func (p *plan) measureJoin(ctx context.Context, file string, b *bigState) (err error) {
	dir, err := os.MkdirTemp(p.dir, "rota-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &servers{dir: dir, line: []string{p.rota}}
	first, err := s.add()
	if err != nil {
		return err
	}
	b.restore, err = timed(func() error {
		return run(ctx, maxCommand, nil, p.rota, "operator", "snapshot", "restore", file, "--data", first.Dir, "--node",
			first.ID, "--raft", first.Raft)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	b.restored, err = timed(func() error { return s.start(ctx) })
	if err != nil {
		return err
	}
	p.say("restored in %.1f s, ready after %.1f s more", b.restore, b.restored)
	b.caughtBeside, err = p.beside(ctx, s, func() (err error) {
		b.caught, err = timed(func() error {
			if err := s.join(ctx); err != nil {
				return err
			}
			return s.caughtUp(ctx)
		})
		return err
	})
	p.say("an empty node was ready after %.1f s", b.caught)
	return err
}

// caughtUp waits until the last node has applied everything that the first had applied at the time of the call.
func (s *servers) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	first, err := scrape(ctx, s.Nodes[0].Admin)
	for err == nil {
		var last sample
		if last, err = scrape(ctx, s.Nodes[len(s.Nodes)-1].Admin); err != nil ||
			last[metricApplied] >= first[metricApplied] {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
	return err
}

// beside calls do while the open loop of the first rate runs, which begins before it, and returns the loop's result.
func (p *plan) beside(ctx context.Context, s *servers, do func() error) (r result, err error) {
	load := *s // its own view: do may add a node
	var wait sync.WaitGroup
	var failed error
	longer := *p
	longer.seconds = max(p.seconds, besideSeconds+p.bigPending()/pendingASecond)
	wait.Go(func() { r, failed = p.measure(ctx, p.rota, &load, longer.open(p.rates[0])) })
	defer wait.Wait()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	if err := do(); err != nil {
		return r, err
	}
	wait.Wait()
	return r, failed
}

func timed(do func() error) (seconds float64, err error) {
	begin := time.Now()
	err = do()
	return time.Since(begin).Seconds(), err
}

func (b *bigState) table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "| with %s pending jobs | |\n|---|---:|\n", thousands(b.pending))
	fmt.Fprintf(&t, "| `rota operator snapshot save`, whole command, s | %.1f |\n", b.save)
	fmt.Fprintf(&t, "| of that writing the snapshot, the slowest node, s | %.1f |\n", b.wrote)
	fmt.Fprintf(&t, "| nothing was applied, as the state was frozen, for at most, ms | %.2f |\n", b.frozen*1000)
	fmt.Fprintf(&t, "| its size, MiB | %.0f |\n", float64(b.saved)/(1<<20))
	fmt.Fprintf(&t, "| no entry took longer to apply meanwhile than, ms | %s |\n", ms(b.held))
	fmt.Fprintf(&t, "| the load beside it: end to end p50, p99, most, ms | %s |\n", b.beside.spans())
	fmt.Fprintf(&t, "| cold start of all nodes after SIGKILL, until all are ready, s | %.1f |\n", b.start)
	fmt.Fprintf(&t, "| `rota operator snapshot restore`, whole command, s | %.1f |\n", b.restore)
	fmt.Fprintf(&t, "| start of the node that it made, until it is ready, s | %.1f |\n", b.restored)
	fmt.Fprintf(&t, "| an empty node joins that one under load, by snapshot, until it is ready, s | %.1f |\n", b.caught)
	fmt.Fprintf(&t, "| the load beside it: end to end p50, p99, most, ms | %s |\n", b.caughtBeside.spans())
	return t.String()
}

func (r *result) spans() string {
	return fmt.Sprintf("%.1f, %.1f, %.1f", r.E2EP50Ms, r.E2EP99Ms, r.E2EMaxMs)
}

func ms(seconds float64) string { return fmt.Sprintf("%.1f", seconds*1000) }
