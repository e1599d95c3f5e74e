package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// restSettle passes before anything is read, so that the after-effects of a start or of many registrations are
	// over.
	restSettle = 20 * time.Second
	// restFor is how long each reading takes.
	restFor = 30 * time.Second
	// restRate is the load of few jobs a second, sparse the load during which idle workers are measured.
	restRate, sparse int = 100, 1
	metricLeader         = "rota_raft_leader"
	metricWorkers        = "rota_workers"
)

// atRest is the resource use of one server.
type atRest struct {
	leads             bool
	cpu, own, mapping float64 // percent of a core, bytes, bytes
}

// measureRest is `make bench-rest`: the resource use of servers that have little or nothing to do, with a growing
// number of waiting workers, and how soon one with an empty log is ready.
func (p *plan) measureRest(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var starts []float64
	for range p.repeat {
		began := time.Now()
		if err := p.clusterOf(ctx, 1, p.rota, nil, func(*servers) error {
			starts = append(starts, time.Since(began).Seconds())
			return nil
		}); err != nil {
			return err
		}
	}
	slices.Sort(starts)
	p.say("a server alone is ready after %.2f s, %.2f at most", median(starts), starts[len(starts)-1])
	text := m.markdown()
	for _, binary := range []struct{ name, path string }{{"before", p.against}, {"now", p.rota}} {
		if binary.path == "" {
			continue
		}
		err := p.cluster(ctx, binary.path, nil, func(s *servers) error {
			table, err := p.restOf(ctx, binary.name, binary.path, s)
			text += table
			return err
		})
		if err != nil {
			return err
		}
	}
	return p.publish("bench-rest", text+fmt.Sprintf(
		"A server alone with an empty log is ready %.2f s after its start (median of %d, at most %.2f).\n",
		median(starts), len(starts), starts[len(starts)-1]))
}

// restOf returns the table of one binary.
func (p *plan) restOf(ctx context.Context, name, rota string, s *servers) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "| three servers, %s | leader, %% of a core | followers | own memory, MiB | with mapped files |\n|---|---:|---:|---:|---:|\n", name)
	row := func(what string, all []atRest) {
		var leader, followers, own, mapped []string
		for _, one := range all {
			percent := fmt.Sprintf("%.1f", one.cpu)
			if one.leads {
				leader = append(leader, percent)
			} else {
				followers = append(followers, percent)
			}
			own, mapped = append(own, fmt.Sprintf("%.0f", one.own/(1<<20))), append(mapped,
				fmt.Sprintf("%.0f", one.mapping/(1<<20)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", what, strings.Join(leader, ", "), strings.Join(followers, ", "),
			strings.Join(own, ", "), strings.Join(mapped, ", "))
		p.say("%s, %s: leader %s %%, followers %s %%", name, what, strings.Join(leader, ", "),
			strings.Join(followers, ", "))
	}
	all, err := s.rest(ctx)
	if err != nil {
		return "", err
	}
	row("nothing to do", all)
	for _, workers := range p.scale.workers {
		all, err := p.restBeside(ctx, rota, s, workers, sparse)
		if err != nil {
			return "", err
		}
		row(fmt.Sprintf("workers that wait: %s; %d job a second", thousands(workers), sparse), all)
	}
	if all, err = p.restBeside(ctx, rota, s, 4, restRate); err != nil {
		return "", err
	}
	row(fmt.Sprintf("%d jobs a second, 4 workers", restRate), all)
	return b.String() + "\n", nil
}

// restBeside reads the servers during a load with the given number of workers and jobs a second.
func (p *plan) restBeside(ctx context.Context, rota string, s *servers, workers, rate int) (all []atRest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := rate * int((2*restSettle+restFor+20*time.Second)/time.Second)
	done := make(chan error, 1)
	go func() {
		var r result
		err := runWith(ctx, s.shows, maxMeasure, &r, rota, s.withAddr("bench",
			[]string{"jobs", "--workers", strconv.Itoa(workers), "--slots", strconv.Itoa(max(1, slotsTogether/workers)),
				"--jobs", strconv.Itoa(jobs), "--rate", strconv.Itoa(rate), "--payload", strconv.Itoa(p.payload)})...)
		if err == nil && (r.Lost != 0 || r.Duplicated != 0) {
			err = fmt.Errorf("%d jobs were lost and %d done twice", r.Lost, r.Duplicated)
		}
		done <- err
	}()
	if err = s.awaitWorkers(ctx, workers, done); err == nil {
		all, err = s.rest(ctx)
	}
	if err == nil {
		return all, <-done
	}
	cancel()
	return nil, cmp.Or(err, <-done)
}

// awaitWorkers waits until n workers are registered, or the load has ended.
func (s *servers) awaitWorkers(ctx context.Context, n int, ended <-chan error) error {
	for {
		have, err := s.most(ctx, metricWorkers)
		if err != nil || int(have) >= n {
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the load ended before its %d workers were there: %w", n, err)
		case <-time.After(lookEvery):
		}
	}
}

// rest reads each server's resource use, once things have settled.
func (s *servers) rest(ctx context.Context) ([]atRest, error) {
	if err := until(ctx, time.Now().Add(restSettle)); err != nil {
		return nil, err
	}
	before, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := until(ctx, began.Add(restFor)); err != nil {
		return nil, err
	}
	after, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	took, all := time.Since(began).Seconds(), make([]atRest, len(after))
	for i := range after {
		all[i] = atRest{leads: after[i][metricLeader] == 1,
			cpu: (after[i][metricCPU] - before[i][metricCPU]) / took * 100,
			own: ownMemory(after[i]), mapping: after[i][metricRSS]}
	}
	return all, nil
}
