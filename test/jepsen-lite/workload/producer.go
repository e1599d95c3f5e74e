package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// maxDebt is how far a producer may fall behind its pace.
const maxDebt = 4 * time.Second

// maxBacklog is how many jobs may be unfinished before producers wait, as a user with a bounded number of unfinished
// jobs does. Without it a run of half an hour, in which the cluster is down for much of the time, ends with a backlog
// too large to measure how long draining takes.
const maxBacklog = 3_000

// produce submits batches with ids of its own and repeats every unknown outcome on another node, until each is known.
// Some refused jobs (a rate, a mode) are submitted again with a later batch.
func produce(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("producer-%d", r.IntN(1_000_000))
	perSecond := float64(w.Options.Rate) / producers
	due := time.Now()
	var refused []rota.JobSpec
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); {
		size := 1 + r.IntN(20)
		batch := make([]rota.JobSpec, size)
		for i := range batch {
			id := fmt.Sprintf("c%d-%s-%d", w.Options.Seed, name[9:], n)
			batch[i] = newJob(id, r)
			w.book.put(id, batch[i].Queue)
			n++
		}
		if r.IntN(8) == 0 { // the same job twice in one batch is one job
			batch = append(batch, batch[r.IntN(size)])
		}
		batch = append(batch, refused...)
		refused = submitAll(drain, w, r, name, batch)
		refused = refused[:len(refused)/4]
		// Jobs that an outage kept from being submitted are made up for, within bounds.
		due = due.Add(time.Duration(float64(size) / perSecond * float64(time.Second)))
		if debt := time.Since(due); debt > maxDebt {
			due = due.Add(debt - maxDebt)
		}
		if !fault.Rest(ctx, time.Until(due)) {
			return
		}
		for w.Cluster.Backlog.Load() > maxBacklog {
			if !fault.Rest(ctx, pollEvery) {
				return
			}
		}
	}
}

// submitAll goes from node to node until every job has an outcome, and returns the refused ones.
func submitAll(ctx context.Context, w *trial, r *rand.Rand, name string,
	batch []rota.JobSpec) (refused []rota.JobSpec) {
	if ctx.Err() != nil {
		return nil
	}
	for first := true; len(batch) > 0; first = false {
		s := w.Someone(r)
		shown, invoke := w.badge.ID(), w.Rec.Now()
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		outcomes, err := client.EachOutcome(s.As(w.badge).Submit(try, batch...))
		cancel()
		var left []rota.JobSpec
		ops := make([]check.Op, len(batch))
		for i, o := range outcomes {
			why := error(nil)
			if o.Err != nil {
				why = o.Err
			} else if o.State == rota.JobNone {
				why = err
			}
			op := w.done(check.Op{Process: name, Func: check.OpSubmit, Job: string(batch[i].ID), Node: s.ID,
				Shown: shown, Invoke: invoke,
				Limit: batch[i].Retry.Attempts, State: o.State.String(), Existed: o.Existed, Index: uint64(o.Index)},
				why)
			if op.Output = string(o.Holder); o.Holder != "" && op.Outcome == check.OK {
				op.Func = check.OpMerge
			}
			switch ops[i] = op; op.Outcome {
			case check.Unknown:
				left = append(left, batch[i])
			case check.Refused:
				refused = append(refused, batch[i])
			}
		}
		w.Rec.Add(ops...)
		if len(left) == 0 {
			if first && r.IntN(4) == 0 {
				readOwn(ctx, w, r, name, outcomes[r.IntN(len(outcomes))])
			}
			return refused
		}
		if batch = left; !fault.Rest(ctx, 100*time.Millisecond) {
			w.Rec.Note("%s gave up on %d submissions without outcome", name, len(left))
			return refused
		}
	}
	return refused
}

// readOwn reads at another node the job just written, at least as new.
func readOwn(ctx context.Context, w *trial, r *rand.Rand, name string, o rota.Submitted) {
	if o.Err != nil || o.Index == 0 || o.Holder != "" {
		return
	}
	s := w.Someone(r)
	op := check.Op{Process: name, Func: check.OpGetMin, Job: string(o.ID), Node: s.ID, Shown: w.badge.ID(),
		Invoke: w.Rec.Now(), Index: uint64(o.Index)}
	try, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	job, err := s.As(w.badge).Job(try, o.ID, client.AtLeast(o.Index))
	op.State = job.State.String()
	w.Rec.Add(w.done(op, err))
}
