package foresight

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/millis"
)

// Job is a simulated job of a load; its times are in milliseconds.
type Job struct {
	Submit, Run, Estimate int64
	CPUMilli              int64
	Tenant                rota.TenantID
	// Spent are the totals of its costs, where they are known.
	Spent rota.Costs
	// Spec has the job's other requirements; nil is a job of processors only.
	Spec *rota.JobSpec
}

// Fate is the result for a job; times are in milliseconds of the load.
type Fate struct {
	// Start is when the run that reached its end began, -1 if there is none.
	Start, End int64
	// Ready is when the job became pending: when it was submitted, or for a workflow's node when the last of its
	// parents had ended.
	Ready int64
	// Worker is the index of its worker among the life's.
	Worker int32
	// Expired means that its time to live was over before it had ended.
	Expired bool
	// Refused means that a limit refused the job, or held it for good.
	Refused bool
	// Preempted is how often it was preempted.
	Preempted int32
}

// Life is a load, the workers that run it, and the settings of its queue.
type Life struct {
	// Jobs are in the order of their submission.
	Jobs     []Job
	Workers  []rota.WorkerSpec
	Settings []rota.Setting
	// Exact gives the policy the true run times.
	Exact bool
	// Limits, if not nil, are the rules of keys and the budgets that apply to the jobs.
	Limits *flowfile.Limits
	// Flow, if not nil, is the workflow whose nodes the jobs are.
	Flow *Flow
	// Progress, if not nil, is called from time to time with how many jobs have ended.
	Progress func(ended int)
	// Submitted, if not nil, is called when a job was submitted and everything was decided, with the fates of the jobs
	// so far.
	Submitted func(m *fsm.Machine, job int, fates []Fate) error

	// thorough, for tests, performs at every tick tasks that can only have an effect at some.
	thorough bool
}

// Machine returns one worker with procs processors.
func Machine(procs int64) []rota.WorkerSpec {
	return []rota.WorkerSpec{{ID: "machine", Slots: int32(min(procs, rota.MaxSlots)), CPUMilli: procs * 1000}}
}

// spec returns the submission of a job.
func (l *Life) spec(i int) *rota.JobSpec {
	j := &l.Jobs[i]
	spec := rota.NewJobSpec(simType, nil)
	if j.Spec != nil {
		spec = *j.Spec
	}
	spec.ID, spec.Queue, spec.Tenant, spec.CPUMilli = jobID(i), simQueue, j.Tenant, j.CPUMilli
	if spec.Tenant == "" {
		spec.Tenant = rota.DefaultTenant
	}
	spec.Expected = millis.Duration(l.expected(i))
	return &spec
}

// expected returns the run time of a job as the policy knows it.
func (l *Life) expected(i int) int64 {
	if l.Exact {
		return l.Jobs[i].Run
	}
	return l.Jobs[i].Estimate
}

// due returns when the estimate of a job that starts at a moment is over.
func (l *Life) due(i int, start int64) int64 {
	return start + l.expected(i)
}

// longest is the longest duration that a job may declare, in ms.
const longest = int64(rota.MaxDuration / time.Millisecond)

// seconds converts seconds to milliseconds.
func seconds(s int64) int64 { return s * int64(time.Second/time.Millisecond) }
