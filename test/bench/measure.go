package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// result is the reported part of one measurement of `rota bench`. An old binary omits fields that it does not know.
type result struct {
	Jobs            int     `json:"jobs"`
	Seconds         float64 `json:"seconds"`
	SubmitSeconds   float64 `json:"submit_seconds"`
	JobsPerS        float64 `json:"jobs_per_s"`
	E2EP50Ms        float64 `json:"e2e_p50_ms"`
	E2EP99Ms        float64 `json:"e2e_p99_ms"`
	E2EMaxMs        float64 `json:"e2e_max_ms"`
	SubmitP50Ms     float64 `json:"submit_p50_ms"`
	SubmitP99Ms     float64 `json:"submit_p99_ms"`
	ProcessCPUUs    float64 `json:"process_cpu_us_per_job"`
	Accepted        int64   `json:"accepted"`
	Completed       int64   `json:"completed"`
	Refused         int64   `json:"refused"`
	RefusedHeld     int64   `json:"refused_held"`
	RefusedHintless int64   `json:"refused_hintless"`
	Reruns          int64   `json:"reruns"`
	Lost            int64   `json:"lost"`
	Duplicated      int64   `json:"duplicated"`
	Errors          int64   `json:"errors"`

	// ServersCPUUs is measured at the servers here, around the whole measurement.
	ServersCPUUs float64 `json:"-"`
}

// closed returns the load at maximum speed, open the one at a rate.
func (p *plan) closed() []string { return p.jobsLoad(p.jobs) }

func (p *plan) open(rate int) []string {
	return p.jobsLoad(rate*p.seconds, "--rate", strconv.Itoa(rate))
}

func (p *plan) jobsLoad(jobs int, at ...string) []string {
	args := append(append([]string{"jobs", "--jobs", strconv.Itoa(jobs)}, at...), "--payload", strconv.Itoa(p.payload))
	if p.producers > 0 {
		args = append(args, "--producers", strconv.Itoa(p.producers))
	}
	return args
}

// maxMeasure bounds one measurement.
const maxMeasure = 5 * time.Minute

// measure runs the bench of a binary once. A job that was lost or done twice is a fault, not a result.
func (p *plan) measure(ctx context.Context, rota string, s *servers, args []string) (r result, err error) {
	before, err := s.sum(ctx, metricCPU)
	if err != nil {
		return r, err
	}
	if err := runWith(ctx, s.shows, maxMeasure, &r, rota, s.withAddr("bench", args)...); err != nil {
		return r, err
	}
	after, err := s.sum(ctx, metricCPU)
	if err != nil {
		return r, err
	}
	r.ServersCPUUs = (after - before) * 1e6 / float64(max(r.Completed, 1))
	if r.Lost != 0 || r.Duplicated != 0 {
		return r, fmt.Errorf("%d jobs were lost and %d done twice", r.Lost, r.Duplicated)
	}
	return r, nil
}

// withAddr returns a client's command line.
func (s *servers) withAddr(command string, args []string) []string {
	return append(append([]string{command}, args...), "--addr", strings.Join(s.APIs(), ","))
}

// run runs a command within a time limit and parses its JSON, if into is not nil.
func run(ctx context.Context, most time.Duration, into any, name string, args ...string) error {
	return runWith(ctx, nil, most, into, name, args...)
}

// runWith is run with additional environment variables.
func runWith(ctx context.Context, env []string, most time.Duration, into any, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), env...)
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	// A bench that lost a job reports that in its answer, and ends with a failure.
	if into != nil && len(out) > 0 && (err == nil || cmd.ProcessState.ExitCode() == 1) {
		if bad := json.Unmarshal(out, into); bad != nil && err == nil {
			return fmt.Errorf("output of %s: %w", strings.Join(cmd.Args, " "), bad)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), errors.Join(err, ctx.Err()), talk.String(), out)
	}
	return nil
}
