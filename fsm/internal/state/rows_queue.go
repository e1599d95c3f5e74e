package state

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// Count adds by to the counter of a state; terminal states have only totals.
func (r *QueueRow) Count(s rota.JobState, by int64) {
	switch s {
	case rota.JobBlocked:
		r.Blocked += by
	case rota.JobDelayed:
		r.Delayed += by
	case rota.JobQueued:
		r.Queued += by
	case rota.JobAssigned:
		r.Assigned += by
	case rota.JobRunning:
		r.Running += by
	case rota.JobCompleted:
		r.Completed++
	case rota.JobDead:
		r.Dead++
	case rota.JobExpired:
		r.Expired++
	case rota.JobCancelled:
		r.Cancelled++
	}
}

// Estimate returns how long an attempt of a job of the queue should take, in ms (SPEC §26.1).
func (r *QueueRow) Estimate(j *JobRow) int64 {
	return sched.RunEstimate(&r.Policy, &j.Spec.JobSpec, r.Expects(j.Spec.Type), j.History().Estimate)
}

// Expects returns the expected time that the queue's owner set for a type, 0 for none.
func (r *QueueRow) Expects(typ rota.JobType) int64 {
	if at, found := slices.BinarySearchFunc(r.Expected, typ, CompareExpected); found {
		return r.Expected[at].Ms
	}
	return 0
}

// ExpectsOf returns Expects as a function, nil if nothing is set.
func (r *QueueRow) ExpectsOf() func(rota.JobType) int64 {
	if len(r.Expected) == 0 {
		return nil
	}
	return r.Expects
}

// Interleaves reports whether the next round begins with the oldest job, when since assignments were made after the
// last interleaved one (SPEC §5.1).
func (r *QueueRow) Interleaves(since uint64) bool {
	k := r.Policy.StarvationInterleave
	return k > 0 && since >= uint64(k-1)
}

// Live returns the number of jobs of a queue that have not ended.
func (r *QueueRow) Live() int64 { return r.Pending() + r.Assigned + r.Running }

// RankEstimate returns the estimate used in the rank of a job, 0 if the ranking uses none.
func (r *QueueRow) RankEstimate(j *JobRow) int64 {
	switch r.Policy.Ranking {
	case rota.RankShortest:
		return r.Estimate(j)
	case rota.RankSmallest:
		return sched.Weighed(r.Estimate(j), j.History().Part)
	default:
		return 0
	}
}

// Says reports whether a queue already has this policy, and is not being drained.
func (r *QueueRow) Says(policy *rota.QueuePolicy, expected []ExpectedTime) bool {
	return *policy == r.Policy && slices.Equal(expected, r.Expected) && r.DrainTo == ""
}

// PayloadMax returns the maximum payload of a queue, or of a queue that does not exist.
func PayloadMax(q *QueueRow) int64 {
	if q == nil {
		return rota.MaxPayloadBytes
	}
	return q.Policy.PayloadMaxBytes
}
