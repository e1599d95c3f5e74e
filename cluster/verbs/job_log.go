package verbs

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// JobLog reads the log of an attempt: from the archive if the attempt has ended, otherwise from the node that its
// worker is connected to (SPEC §22.3).
func (jv *JobVerbs) JobLog(ctx context.Context, of rota.LogOf,
	opt peer.ReadOptions) (l rota.AttemptLog, at rota.ReadAt, err error) {
	if at, err = jv.n.Replica.Fresh(ctx, opt); err != nil {
		return l, at, err
	}
	rd, err := jv.n.Replica.Reader(ctx)
	if err != nil {
		return l, at, err
	}
	job, ok, err := jv.n.Archive.Job(ctx, of.Job)
	if err != nil {
		return l, at, err
	}
	if !ok || !rd.Has(rota.RightData, job.Tenant, job.Queue) {
		return l, at, UnknownJob(of.Job)
	}
	if l, err = attemptOf(&job, &of); err != nil {
		return l, at, err
	}
	if l.Open {
		l.Parts = jv.askLog(ctx, l.Lease, of.After).Parts
		return l, at, nil
	}
	if l.Parts, ok, err = jv.keptLog(ctx, l.Lease, of.After); ok || err != nil {
		return l, at, err
	}
	live := jv.askLog(ctx, l.Lease, of.After)
	if !live.Known {
		// The node that had the log may have dropped it in the meantime because it was archived.
		if at, err = jv.n.Replica.Fresh(ctx, opt); err != nil {
			return l, at, err
		}
		if l.Parts, ok, err = jv.keptLog(ctx, l.Lease, of.After); ok || err != nil {
			return l, at, err
		}
		return l, at, rota.Refusef(rota.KindNotFound, "lease",
			"nothing is kept of what attempt %d of job %s logged, if it did", l.Attempt, of.Job)
	}
	l.Parts = live.Parts
	return l, at, nil
}

// keptLog reads the log of an ended attempt from the archive.
func (jv *JobVerbs) keptLog(ctx context.Context, lease rota.LeaseID,
	after uint64) (parts []rota.LogPart, ok bool, err error) {
	kept, ok, err := jv.n.Archive.Job(ctx, peer.LogID(lease))
	if err != nil || !ok {
		return nil, false, err
	}
	log, err := replica.UnpackLog(kept.Output)
	return log.Since(after), true, err
}

// attemptOf finds the requested attempt.
func attemptOf(job *rota.Job, of *rota.LogOf) (l rota.AttemptLog, err error) {
	l.Job = of.Job
	fits := func(number int32, lease rota.LeaseID) bool {
		if !of.Lease.IsZero() {
			return of.Lease == lease
		}
		return of.Attempt == nil || *of.Attempt == number
	}
	if o := job.Lease; o != nil && fits(o.Attempt, o.ID) {
		l.Attempt, l.Lease, l.Worker, l.Open = o.Attempt, o.ID, o.Worker, true
		return l, nil
	}
	for i := len(job.Attempts) - 1; i >= 0; i-- {
		if a := &job.Attempts[i]; fits(a.Number, a.Lease) {
			l.Attempt, l.Lease, l.Worker = a.Number, a.Lease, a.Worker
			return l, nil
		}
	}
	which := "of that lease"
	if of.Attempt != nil {
		which = fmt.Sprintf("%d", *of.Attempt)
	}
	if len(job.Attempts) == 0 && job.Lease == nil {
		return l, rota.Refusef(rota.KindNotFound, "attempt",
			"job %s has had no attempt yet: to see what it waits for, run rota job why %s", of.Job, of.Job)
	}
	return l, rota.Refusef(rota.KindNotFound, "attempt",
		"job %s has no attempt %s among the last %d, which are kept; the first is 0",
		of.Job, which, limits.MaxAttemptsKept)
}

// askLog asks this node, then the others, for the log of an attempt that may be open. A node that does not answer
// counts as having none: followers ask again.
func (jv *JobVerbs) askLog(ctx context.Context, lease rota.LeaseID, after uint64) (best peer.NodeLog) {
	most := after
	better := func(l peer.NodeLog) {
		end := after
		if len(l.Parts) > 0 {
			end = l.Parts[len(l.Parts)-1].End()
		}
		if l.Known && (!best.Known || end > most) {
			best, most = l, end
		}
	}
	better(jv.logs.Here(lease, after))
	others, _ := jv.n.OtherServers()
	for _, to := range others {
		if to.API == "" {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, maxAskLog)
		if l, err := jv.n.AskLog(asking, to, lease, after); err == nil {
			better(l)
		}
		cancel()
	}
	return best
}

// maxAskLog bounds the request to one node.
const maxAskLog = 2 * time.Second

// LogHere returns this node's part of the log of an attempt that may be open.
func (jv *JobVerbs) LogHere(lease rota.LeaseID, after uint64) peer.NodeLog {
	return jv.logs.Here(lease, after)
}
