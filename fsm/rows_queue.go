package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// count is where a state's counter lives; terminal states have totals only.
func (r *queueRow) count(s rota.JobState, by int64) {
	switch s {
	case rota.JobBlocked:
		r.blocked += by
	case rota.JobDelayed:
		r.delayed += by
	case rota.JobQueued:
		r.queued += by
	case rota.JobAssigned:
		r.assigned += by
	case rota.JobRunning:
		r.running += by
	case rota.JobCompleted:
		r.completed++
	case rota.JobDead:
		r.dead++
	case rota.JobExpired:
		r.expired++
	case rota.JobCancelled:
		r.cancelled++
	}
}

// estimate is how long an attempt of a job of the queue should take (SPEC §26.1).
func (r *queueRow) estimate(j *jobRow) int64 {
	return sched.RunEstimate(&r.policy, &j.spec.JobSpec, r.expects(j.spec.Type), j.history().estimate)
}

// expects is what the queue's owner set for a type, 0 for nothing.
func (r *queueRow) expects(typ rota.JobType) int64 {
	if at, found := slices.BinarySearchFunc(r.expected, typ, compareExpected); found {
		return r.expected[at].ms
	}
	return 0
}

// expectsOf is expects, nil where nothing is set.
func (r *queueRow) expectsOf() func(rota.JobType) int64 {
	if len(r.expected) == 0 {
		return nil
	}
	return r.expects
}

// interleaves reports whether the next round, so many assignments after the last interleaved one, begins
// with the oldest job (SPEC §5.1).
func (r *queueRow) interleaves(since uint64) bool {
	k := r.policy.StarvationInterleave
	return k > 0 && since >= uint64(k-1)
}

// live counts the jobs of a queue that have not ended.
func (r *queueRow) live() int64 { return r.pending() + r.assigned + r.running }

// rankEstimate is what its estimate counts in the rank of a job, 0 where it does not.
func (r *queueRow) rankEstimate(j *jobRow) int64 {
	switch r.policy.Ranking {
	case rota.RankShortest:
		return r.estimate(j)
	case rota.RankSmallest:
		return sched.Weighed(r.estimate(j), j.history().part)
	default:
		return 0
	}
}

// says reports whether a queue has this policy already, and is not being drained.
func (r *queueRow) says(policy *rota.QueuePolicy, expected []expectedTime) bool {
	return *policy == r.policy && slices.Equal(expected, r.expected) && r.drainTo == ""
}
