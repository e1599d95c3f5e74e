package main

import (
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// job holds when it was due, when its publication was confirmed and when its end was, in nanoseconds from the start; 0
// for not yet.
type job struct{ due, accepted, done atomic.Int64 }

// book records the fate of all jobs.
type book struct {
	begin                            time.Time
	jobs                             []job
	completed, twice, reruns, errors atomic.Int64
	lastAccepted, lastDone           atomic.Int64
}

func (b *book) now() int64 { return int64(time.Since(b.begin)) }

// accept records that a job is stored durably.
func (b *book) accept(i int) {
	now := b.now()
	b.jobs[i].accepted.Store(now)
	b.lastAccepted.Store(now)
}

// end records that the end of a job is confirmed, which ran for the attempt-th time.
func (b *book) end(i uint64, attempt int) {
	if i >= uint64(len(b.jobs)) {
		b.errors.Add(1)
		return
	}
	if attempt > 1 {
		b.reruns.Add(1)
	}
	now := b.now()
	if !b.jobs[i].done.CompareAndSwap(0, now) {
		b.twice.Add(1)
		return
	}
	b.lastDone.Store(now)
	b.completed.Add(1)
}

// report has the figures under the names of `rota bench jobs`.
type report struct {
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	SubmitSeconds float64 `json:"submit_seconds"`
	JobsPerS      float64 `json:"jobs_per_s"`
	E2EP50Ms      float64 `json:"e2e_p50_ms"`
	E2EP99Ms      float64 `json:"e2e_p99_ms"`
	E2EMaxMs      float64 `json:"e2e_max_ms"`
	SubmitP50Ms   float64 `json:"submit_p50_ms"`
	SubmitP99Ms   float64 `json:"submit_p99_ms"`
	ProcessCPUUs  float64 `json:"process_cpu_us_per_job"`
	Accepted      int64   `json:"accepted"`
	Completed     int64   `json:"completed"`
	Reruns        int64   `json:"reruns"`
	Lost          int64   `json:"lost"`
	Duplicated    int64   `json:"duplicated"`
	Errors        int64   `json:"errors"`
}

// await returns when all are done, or no report came for the given time.
func (b *book) await(patience time.Duration) {
	for last, since := int64(-1), time.Now(); int(b.completed.Load()) < len(b.jobs); time.Sleep(time.Millisecond) {
		if n := b.completed.Load(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > patience {
			return
		}
	}
}

func (b *book) report(cpu time.Duration) report {
	r := report{Jobs: len(b.jobs), Completed: b.completed.Load(), Duplicated: b.twice.Load(), Reruns: b.reruns.Load(),
		Errors: b.errors.Load(), Seconds: seconds(b.lastDone.Load()), SubmitSeconds: seconds(b.lastAccepted.Load())}
	var submits, ends []int64
	for i := range b.jobs {
		j := &b.jobs[i]
		if at := j.accepted.Load(); at > 0 {
			r.Accepted++
			submits = append(submits, at-j.due.Load())
		}
		if at := j.done.Load(); at > 0 {
			ends = append(ends, at-j.due.Load())
		}
	}
	r.Lost = r.Accepted - r.Completed
	r.JobsPerS = float64(r.Completed) / r.Seconds
	r.ProcessCPUUs = float64(cpu.Microseconds()) / float64(max(r.Completed, 1))
	r.SubmitP50Ms, r.SubmitP99Ms = at(submits, 50), at(submits, 99)
	r.E2EP50Ms, r.E2EP99Ms, r.E2EMaxMs = at(ends, 50), at(ends, 99), at(ends, 100)
	return r
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// at returns a percentile in milliseconds; 0 of none.
func at(all []int64, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[min(len(all)-1, len(all)*percent/100)]) / 1e6
}

// processCPU returns the CPU time, user and system, of this process so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
