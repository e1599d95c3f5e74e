package foresight

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/millis"
)

// Job is a job of a load that is simulated; its times are in milliseconds.
type Job struct {
	Submit, Run, Estimate int64
	CPUMilli              int64
	Tenant                rota.TenantID
	// Spec has what else the job asks for; nil is a job of processors alone.
	Spec *rota.JobSpec
}

// Fate is what became of a job; times are in milliseconds of the load.
type Fate struct {
	// Start is when the run began that came to its end, -1 where none did.
	Start, End int64
	// Ready is from when on it waits: when it was submitted, of a workflow's node when the last of its
	// parents had ended.
	Ready int64
	// Worker is the place of its worker among the life's.
	Worker int32
	// Expired says that its time to live was over before it had ended.
	Expired bool
	// Preempted is how often it had to give way.
	Preempted int32
}

// Life is a load, what it runs on, and under which settings of its queue.
type Life struct {
	// Jobs are in the order of their submission.
	Jobs     []Job
	Workers  []rota.WorkerSpec
	Settings []rota.Setting
	// Exact has the policy know the true run times.
	Exact bool
	// Flow, if not nil, is the workflow whose nodes the jobs are.
	Flow *Flow
	// Progress, if not nil, is called from time to time with how many jobs have ended.
	Progress func(ended int)
	// Submitted, if not nil, is called when a job was submitted and all was decided by then, with what became of the jobs so far.
	Submitted func(m *fsm.Machine, job int, fates []Fate) error

	// thorough does at every tick what can only change at some, for tests.
	thorough bool
}

// Machine is one worker with so many processors.
func Machine(procs int64) []rota.WorkerSpec {
	return []rota.WorkerSpec{{ID: "machine", Slots: int32(min(procs, rota.MaxSlots)), CPUMilli: procs * 1000}}
}

// spec is a job as it is submitted.
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

// expected is the run time of a job as the policy knows it.
func (l *Life) expected(i int) int64 {
	if l.Exact {
		return l.Jobs[i].Run
	}
	return l.Jobs[i].Estimate
}

// due is when the estimate of a job that starts at a moment is over.
func (l *Life) due(i int, start int64) int64 {
	return start + l.expected(i)
}

// longest is the longest duration that a job may declare, in ms.
const longest = int64(rota.MaxDuration / time.Millisecond)

// seconds are milliseconds.
func seconds(s int64) int64 { return s * int64(time.Second/time.Millisecond) }
