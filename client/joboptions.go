package client

import (
	"maps"
	"time"

	"github.com/rotasched/rota"
)

// DefineOption is an option of Define: a JobOption, which then applies to every job of the definition, or Encoded.
type DefineOption interface {
	define(*defined)
}

// JobOption sets a field of a job that a Definition makes. Options given with the job override those of its definition.
type JobOption interface {
	DefineOption
	set(*rota.JobSpec)
}

// jobOption is a JobOption made from a function.
type jobOption func(*rota.JobSpec)

func (o jobOption) define(d *defined) { d.options = append(d.options, o) }

func (o jobOption) set(spec *rota.JobSpec) { o(spec) }

// Spec sets fields that have no option of their own.
func Spec(set func(*rota.JobSpec)) JobOption { return jobOption(set) }

// ID sets the job's id. Submitting the same id again creates no second job. By default each submission has a new id.
func ID(id rota.JobID) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.ID = id })
}

// Queue sets the queue; the default is rota.DefaultQueue.
func Queue(queue rota.QueueName) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Queue = queue })
}

// Tenant sets the tenant that the job belongs to.
func Tenant(tenant rota.TenantID) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Tenant = tenant })
}

// Priority sets the priority, from 0, the most urgent, to 10.
func Priority(priority int32) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Priority = priority })
}

// At delays the job until a date.
func At(date time.Time) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.NotBefore = date })
}

// After delays the job by d from its submission.
func After(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Delay = d })
}

// TTL makes the job expire if it has not ended within d of its submission.
func TTL(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.TTL = d })
}

// Cost states how many units of a cost the job is expected to use, rounded to millionths (rota.JobSpec.Costs).
func Cost(name string, units float64) JobOption {
	return jobOption(func(s *rota.JobSpec) {
		amount, ok := millionths(units)
		if !ok {
			amount = -1 // which the submission refuses
		}
		costs := rota.Costs{}
		maps.Copy(costs, s.Costs) // another submission may share the map
		costs[name], s.Costs = amount, costs
	})
}

// StartBy makes the job expire if no worker has it within d of its submission.
func StartBy(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.StartBy = d })
}

// MaxRuntime bounds one attempt.
func MaxRuntime(d time.Duration) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.MaxRuntime = d })
}

// Retry sets the number of attempts, from 1 to 1,000.
func Retry(attempts int64) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Retry.Attempts = attempts })
}

// Key names something that the job shares with others, such as Key("album", "7"). Rules on keys limit how many jobs of
// a key run at once, their rate, or their order (SPEC §19). A job has at most rota.MaxKeys keys, each with a different
// name.
func Key(name, value string) JobOption {
	return jobOption(func(s *rota.JobSpec) { s.Keys = append(s.Keys[:len(s.Keys):len(s.Keys)], name+":"+value) })
}

// UniqueBy selects which parts of a job are compared for uniqueness.
type UniqueBy uint8

// The parts that can be compared; combine them as in ByArgs|ByQueue.
const (
	// ByArgs compares the type and the encoded payload.
	ByArgs UniqueBy = 1 << iota
	// ByType compares only the type.
	ByType
	// ByQueue compares the queue.
	ByQueue
)

// Unique refuses the job as CONFLICT while an equal job is pending or running. A period other than 0 divides time into
// buckets, counted from 1970: jobs due in different buckets are not equal. Use Spec for the other settings of SPEC §18.
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

// Headers are added to the job's headers: its worker gets them unchanged, and the cluster reads none of them
// (rota.JobSpec.Headers). Handlers read them with Job.Headers.
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

// Labels are added to the job's labels.
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
