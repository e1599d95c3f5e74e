package client

import (
	"maps"
	"time"

	"github.com/rotasched/rota"
)

// DefineOption is what Define takes: a JobOption, which then holds for every job of the
// definition, or Encoded.
type DefineOption interface {
	define(*defined)
}

// JobOption sets something of a job that a Definition makes. One given with the job comes
// after those of its definition.
type JobOption interface {
	DefineOption
	set(*rota.JobSpec)
}

// jobOption is a JobOption made of a function.
type jobOption func(*rota.JobSpec)

func (o jobOption) define(d *defined) { d.options = append(d.options, o) }

func (o jobOption) set(spec *rota.JobSpec) { o(spec) }

// Spec sets what no other option does.
func Spec(set func(*rota.JobSpec)) JobOption { return jobOption(set) }

// ID sets the job's id, by which submitting it again is no second job. Without one each
// submission has an id of its own.
func ID(id rota.JobID) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.ID = id })
}

// Queue sets the queue, rota.DefaultQueue if none is set.
func Queue(queue rota.QueueName) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Queue = queue })
}

// Tenant sets who the job is for.
func Tenant(tenant rota.TenantID) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Tenant = tenant })
}

// Priority sets the priority, from 0, the most urgent, to 10.
func Priority(priority int32) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Priority = priority })
}

// At holds the job back until a date.
func At(date time.Time) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.NotBefore = date })
}

// After holds the job back for so long, from its submission on.
func After(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Delay = d })
}

// TTL has the job expire so long after its submission unless it has ended.
func TTL(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.TTL = d })
}

// StartBy has the job expire so long after its submission unless a worker has it by then.
func StartBy(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.StartBy = d })
}

// MaxRuntime bounds an attempt.
func MaxRuntime(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.MaxRuntime = d })
}

// Retry sets how many attempts the job has, from 1 to 1,000.
func Retry(attempts int64) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Retry.Attempts = attempts })
}

// Key names something that the job shares with others, such as Key("album", "7"): rules hold
// jobs of a key to so many at once, to a rate, or to their order (SPEC §19). A job has at
// most rota.MaxKeys of them, each of another name.
func Key(name, value string) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Keys = append(s.Keys[:len(s.Keys):len(s.Keys)], name+":"+value) })
}

// UniqueBy is what of a job makes it the same as another one.
type UniqueBy uint8

// What jobs are the same by; one may be combined with another one, as in ByArgs|ByQueue.
const (
	// ByArgs is the type and the encoded payload.
	ByArgs UniqueBy = 1 << iota
	// ByType is the type alone.
	ByType
	// ByQueue is the queue.
	ByQueue
)

// Unique refuses the job as CONFLICT while one that is the same waits or runs. A period that
// is not 0 cuts time into buckets, counted from 1970: jobs that are to run in different ones
// are not the same. What else SPEC §18 offers is set with Spec.
func Unique(by UniqueBy, period time.Duration) JobOption {
	unique := rota.Unique{Period: period}
	for _, part := range []struct {
		of   UniqueBy
		name string
	}{{ByQueue, rota.UniqueByQueue}, {ByType | ByArgs, rota.UniqueByType}, {ByArgs, rota.UniqueByArgs}} {
		if by&part.of != 0 {
			unique.By = append(unique.By, part.name)
		}
	}
	return jobOption(func(s *rota.JobSpec) {
		own := unique
		s.Unique = &own
	})
}

// Requires lists capabilities that the worker must have.
func Requires(capabilities ...string) JobOption {
	return jobOption(func(s *rota.JobSpec) {
		s.Requires = append(s.Requires[:len(s.Requires):len(s.Requires)], capabilities...)
	})
}

// InBatch counts the job in a batch.
func InBatch(id rota.BatchID) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Batch = id })
}

// Headers are added to those that the job has: its worker gets them as they are, and the cluster
// reads none of them (rota.JobSpec.Headers). Handlers find them in Job.Headers.
type Headers map[string]string

func (h Headers) define(d *defined) {
	own := maps.Clone(h)
	d.options = append(d.options, jobOption(own.set))
}

func (h Headers) set(s *rota.JobSpec) {
	all := make(map[string]string, len(s.Headers)+len(h))
	maps.Copy(all, s.Headers)
	maps.Copy(all, h)
	s.Headers = all
}

// Labels are added to those that the job has.
type Labels map[string]string

func (l Labels) define(d *defined) {
	own := maps.Clone(l)
	d.options = append(d.options, jobOption(own.set))
}

func (l Labels) set(s *rota.JobSpec) {
	all := make(map[string]string, len(s.Labels)+len(l))
	maps.Copy(all, s.Labels)
	maps.Copy(all, l)
	s.Labels = all
}
