package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

const (
	// httpSingles is the number of single submissions of a measurement, httpBatches that of batches of httpBatch jobs.
	httpSingles  = 10_000
	httpCallers  = 32
	httpBatches  = 400
	httpBatch    = 100
	httpInFlight = 4
)

// httpSide is one way to submit to a cluster.
type httpSide struct {
	name, how                 string
	servers                   *servers
	submit                    func(context.Context, ...rota.JobSpec) error
	singles, batches, inBatch []float64
}

// measureHTTP compares submissions over HTTP with the same by gRPC, alternating, both at the leader: the servers' cost
// of a single one, and how many a second are accepted in batches; with another binary, both of each. No worker runs the
// jobs.
func (p *plan) measureHTTP(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	binaries := [][2]string{{"", p.rota}}
	if p.against != "" {
		binaries = [][2]string{{"Before, ", p.against}, {"Now, ", p.rota}}
	}
	var sides []*httpSide
	if err := p.httpSides(ctx, binaries, nil, func(all []*httpSide) error {
		sides = all
		return p.httpRounds(ctx, all)
	}); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Submissions at the leader, %d rounds in turns, %d bytes of payload; medians, least to most:\n\n"+
		"| by | servers' CPU a single submission, µs | jobs/s, %d in a call, %d calls at once | servers' CPU a job of these, µs |\n|---|--:|--:|--:|\n",
		p.repeat, p.payload, httpBatch, httpInFlight)
	for _, s := range sides {
		fmt.Fprintf(&b, "| %s%s | %s | %s | %s |\n", s.name, s.how, between(s.singles), between(s.batches),
			between(s.inBatch))
	}
	b.WriteString("\nAt most 100 µs more and 0.7 times as fast are wanted.")
	for i := 0; i < len(sides); i += 2 {
		gRPC, http := sides[i], sides[i+1]
		ratios := make([]float64, len(http.batches))
		for n := range ratios {
			ratios[n] = http.batches[n] / gRPC.batches[n]
		}
		fmt.Fprintf(&b, " %sHTTP: a single submission costs %.0f µs more, batches go %.2f times as fast (in pairs %.2f to %.2f, median %.2f).", http.name,
			middle(http.singles)-middle(gRPC.singles), middle(http.batches)/middle(gRPC.batches), slices.Min(ratios),
			slices.Max(ratios), middle(ratios))
	}
	return p.publish("bench-http", b.String()+"\n\n"+m.markdown())
}

// httpSides runs a cluster of each binary, and both ways to submit to each.
func (p *plan) httpSides(ctx context.Context, binaries [][2]string, sides []*httpSide,
	do func([]*httpSide) error) error {
	if len(binaries) == 0 {
		return do(sides)
	}
	return p.cluster(ctx, binaries[0][1], nil, func(s *servers) error {
		c, err := s.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		leader, err := leaderOf(ctx, s, c)
		if err != nil {
			return err
		}
		at, err := client.Dial([]string{leader})
		if err != nil {
			return err
		}
		defer at.Close()
		name := binaries[0][0]
		return p.httpSides(ctx, binaries[1:], append(sides, &httpSide{name: name, how: "gRPC", servers: s,
			submit: func(ctx context.Context, jobs ...rota.JobSpec) error {
				_, err := at.Submit(ctx, jobs...)
				return err
			}}, &httpSide{name: name, how: "HTTP", servers: s, submit: poster(leader)}), do)
	})
}

// httpRounds measures the sides alternately; the first round warms up.
func (p *plan) httpRounds(ctx context.Context, sides []*httpSide) error {
	for round := range p.repeat + 1 {
		for n, side := range sides {
			name := fmt.Sprint(round, "-", n)
			us, _, err := side.servers.submitted(ctx, "s"+name, httpSingles, 1, httpCallers, p.payload, side.submit)
			if err != nil {
				return fmt.Errorf("%s%s: %w", side.name, side.how, err)
			}
			batched, rate, err := side.servers.submitted(ctx, "b"+name, httpBatches*httpBatch, httpBatch, httpInFlight,
				p.payload, side.submit)
			if err != nil {
				return fmt.Errorf("%s%s in batches: %w", side.name, side.how, err)
			}
			if round > 0 {
				side.singles, side.inBatch, side.batches = append(side.singles, us), append(side.inBatch,
					batched), append(side.batches, rate)
			}
		}
	}
	return nil
}

// leaderOf returns the address of the leader.
func leaderOf(ctx context.Context, s *servers, c *client.Client) (string, error) {
	status, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range s.Nodes {
		if n.ID == string(status.Leader) {
			return n.API, nil
		}
	}
	return "", errors.New("no node leads")
}

// poster submits over HTTP: one job by PUT, more by POST.
func poster(api string) func(context.Context, ...rota.JobSpec) error {
	calls := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpCallers}}
	return func(ctx context.Context, jobs ...rota.JobSpec) error {
		method, url, what := http.MethodPost, "http://"+api+"/v1/jobs", any(map[string]any{"jobs": jobs})
		if len(jobs) == 1 {
			method, url, what = http.MethodPut, url+"/"+string(jobs[0].ID), jobs[0]
		}
		body, err := json.Marshal(what)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := calls.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode/100 != 2 || bytes.Contains(text, []byte(`"refused":`)) &&
			!bytes.Contains(text, []byte(`"refused":0`)) {
			return fmt.Errorf("%s: %.300s", answer.Status, text)
		}
		return err
	}
}

// submitted submits jobs, `each` per call and `atOnce` calls at once, and returns the servers' cost of a job in
// microseconds and the number of jobs per second.
func (s *servers) submitted(ctx context.Context, name string, jobs, each, atOnce, payload int,
	submit func(context.Context, ...rota.JobSpec) error) (us, rate float64, err error) {
	before, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		group.Go(func() error {
			for {
				from := int(next.Add(int64(each))) - each
				if from >= jobs {
					return nil
				}
				batch := make([]rota.JobSpec, min(each, jobs-from))
				for i := range batch {
					batch[i] = rota.NewJobSpec("submitted", bytes.Repeat([]byte("x"), payload))
					batch[i].ID = rota.JobID(fmt.Sprintf("%s-%d", name, from+i))
				}
				if err := submit(ctx, batch...); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	took := time.Since(began).Seconds()
	after, failed := s.cpu()
	return (after - before) / float64(jobs) * 1e6, float64(jobs) / took, cmp.Or(err, failed)
}

func middle(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func between(all []float64) string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", middle(all), slices.Min(all), slices.Max(all))
}
