package eta

import (
	"math/rand/v2"

	"github.com/rotasched/rota"
)

const (
	// pastKept is how many of the newest run times are kept for a kind of job: older ones say less about the next.
	pastKept = 32
	// fewest is how many a kind must have to be drawn from.
	fewest = 3
	// assumed is the run time of a job without any data, in ms.
	assumed = 60_000
)

// Ran is a run that reached its end.
type Ran struct {
	Queue    rota.QueueName
	Tenant   rota.TenantID
	Type     rota.JobType
	CPUMilli int64
	// Expected is the estimate that it was submitted with, 0 for none; Ms is how long it took.
	Expected, Ms int64
}

// RanOf returns the last attempt of a completed job.
func RanOf(j *rota.Job) (r Ran, ok bool) {
	if j.State != rota.JobCompleted || len(j.Attempts) == 0 {
		return r, false
	}
	a := &j.Attempts[len(j.Attempts)-1]
	began := a.Started.Clock
	if !a.Acked.IsZero() {
		began = a.Acked.Clock
	}
	if a.Ended.IsZero() || a.Ended.Clock < began {
		return r, false
	}
	return Ran{j.Queue, j.Tenant, j.Type, j.CPUMilli, j.Expected.Milliseconds(), int64(a.Ended.Clock - began)}, true
}

// kind is the key of run times; empty fields match nothing.
type kind struct {
	queue         rota.QueueName
	tenant        rota.TenantID
	typ           rota.JobType
	cpu, expected int64
}

// sample is a run time, and its share of the estimate in parts per million, 0 if there was none.
type sample struct{ ms, share int64 }

// Past holds the run times of jobs that have ended.
type Past struct {
	kinds map[kind][]sample
	n     int64
}

// NewPast returns an empty one.
func NewPast() *Past { return &Past{kinds: make(map[kind][]sample)} }

// Runs returns how many run times were added.
func (p *Past) Runs() int64 { return p.n }

// Add adds a run, the oldest first.
func (p *Past) Add(r Ran) {
	s := sample{ms: max(r.Ms, 1)}
	if r.Expected > 0 {
		s.share = max(1, s.ms*million/r.Expected)
	}
	p.n++
	for _, k := range kindsOf(r.Queue, r.Tenant, r.Type, r.CPUMilli, r.Expected) {
		list := p.kinds[k]
		if len(list) == pastKept {
			copy(list, list[1:])
			list = list[:pastKept-1]
		}
		p.kinds[k] = append(list, s)
	}
}

const million = 1_000_000

// kindsOf returns the kinds of a job, the narrowest first.
func kindsOf(queue rota.QueueName, tenant rota.TenantID, typ rota.JobType, cpu, expected int64) [4]kind {
	return [4]kind{{queue, tenant, typ, cpu, max(expected, 1)}, {queue: queue, tenant: tenant, typ: typ},
		{queue: queue, typ: typ}, {queue: queue}}
}

// draw draws the run time of a job that has already run for elapsed. known is false if it is assumed.
func (p *Past) draw(random *rand.Rand, j *rota.Job, elapsed int64) (ms int64, known bool) {
	expected := j.Expected.Milliseconds()
	most := j.MaxRuntime.Milliseconds()
	cut := func(ms int64) int64 {
		if most > 0 {
			ms = min(ms, most-1)
		}
		return max(ms, elapsed+1)
	}
	var room [pastKept]int64
	for i, k := range kindsOf(j.Queue, j.Tenant, j.Type, j.CPUMilli, expected) {
		fit := room[:0]
		list := p.kinds[k]
		if len(list) < fewest {
			continue
		}
		for _, s := range list {
			ms := s.ms
			if i > 0 && expected > 0 && s.share > 0 {
				ms = max(1, s.share*expected/million)
			}
			if ms > elapsed {
				fit = append(fit, ms)
			}
		}
		if len(fit) > 0 {
			return cut(fit[random.IntN(len(fit))]), true
		}
	}
	switch usual := cmpOr(expected, assumed); {
	case elapsed >= usual: // longer than any before it: about as long again
		return cut(elapsed + elapsed*int64(1+random.IntN(20))/10), p.n > 0 || expected > 0
	default:
		return cut(usual), expected > 0
	}
}

func cmpOr(a, b int64) int64 {
	if a > 0 {
		return a
	}
	return b
}
