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
	// httpSingles are the single submissions of a measurement, by so many callers; httpBatches those of httpBatch jobs.
	httpSingles  = 10_000
	httpCallers  = 32
	httpBatches  = 400
	httpBatch    = 100
	httpInFlight = 4
)

// measureHTTP compares submissions over HTTP with the same by gRPC, in turns, both at the leader: what a single one
// costs the servers, and how many a second are taken in batches. Nobody works the jobs.
func (p *plan) measureHTTP(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	singles, batches := map[string][]float64{}, map[string][]float64{}
	err = p.cluster(ctx, p.rota, nil, func(s *servers) error {
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
		by := map[string]func(context.Context, ...rota.JobSpec) error{"gRPC": func(ctx context.Context, jobs ...rota.JobSpec) error {
			_, err := at.Submit(ctx, jobs...)
			return err
		}, "HTTP": poster(leader)}
		n := 0
		for round := range p.repeat + 1 { // the first warms up
			for _, how := range []string{"gRPC", "HTTP"} {
				n++
				us, _, err := s.submitted(ctx, fmt.Sprint("s", n), httpSingles, 1, httpCallers, p.payload, by[how])
				if err != nil {
					return fmt.Errorf("%s: %w", how, err)
				}
				_, rate, err := s.submitted(ctx, fmt.Sprint("b", n), httpBatches*httpBatch, httpBatch, httpInFlight, p.payload, by[how])
				if err != nil {
					return fmt.Errorf("%s in batches: %w", how, err)
				}
				if round > 0 {
					singles[how], batches[how] = append(singles[how], us), append(batches[how], rate)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Submissions at the leader, %d rounds in turns, %d bytes of payload; medians, least to most:\n\n"+
		"|by|servers' CPU a single submission, µs|jobs/s, %d in a call, %d calls at once|\n|---|--:|--:|\n", p.repeat, p.payload, httpBatch, httpInFlight)
	for _, how := range []string{"gRPC", "HTTP"} {
		fmt.Fprintf(&b, "|%s|%s|%s|\n", how, between(singles[how]), between(batches[how]))
	}
	fmt.Fprintf(&b, "\nA single submission by HTTP costs %.0f µs more (at most 100 are wanted); batches go %.2f times as fast as by gRPC (0.7 are wanted).\n",
		middle(singles["HTTP"])-middle(singles["gRPC"]), middle(batches["HTTP"])/middle(batches["gRPC"]))
	return p.publish("http", b.String()+"\n"+m.markdown())
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
		if err == nil && answer.StatusCode/100 != 2 || bytes.Contains(text, []byte(`"refused":`)) && !bytes.Contains(text, []byte(`"refused":0`)) {
			return fmt.Errorf("%s: %.300s", answer.Status, text)
		}
		return err
	}
}

// submitted submits jobs, so many a call and so many calls at once, and returns what a job cost the servers in
// microseconds and how many went by in a second.
func (s *servers) submitted(ctx context.Context, name string, jobs, each, atOnce, payload int, submit func(context.Context, ...rota.JobSpec) error) (us, rate float64, err error) {
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
