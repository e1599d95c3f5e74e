package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// debtMost is how far a producer may fall behind its pace.
const debtMost = 4 * time.Second

// backlogMost is how many jobs may be unfinished before producers wait, as a user with a
// bounded number of jobs under way does. Without it a run of half an hour, in which the
// cluster is down for much of the time, ends with a backlog that no drain can be timed by.
const backlogMost = 3_000

// produce submits batches with ids of its own and repeats every unknown outcome
// on another node, until each has one. Some of what was refused (a rate, a mode) is
// asked for again with a later batch.
func produce(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("producer-%d", r.IntN(1_000_000))
	perSecond := float64(w.options.Rate) / producers
	due := time.Now()
	var refused []rota.JobSpec
	for n := 0; ctx.Err() == nil && !w.rec.full(); {
		size := 1 + r.IntN(20)
		batch := make([]rota.JobSpec, size)
		for i := range batch {
			id := fmt.Sprintf("c%d-%s-%d", w.options.Seed, name[9:], n)
			batch[i] = newJob(id, r)
			w.book.put(id, batch[i].Queue)
			n++
		}
		if r.IntN(8) == 0 { // twice the same in one batch is one job
			batch = append(batch, batch[r.IntN(size)])
		}
		batch = append(batch, refused...)
		refused = submitAll(drain, w, r, name, batch)
		refused = refused[:len(refused)/4]
		// What an outage kept from being submitted is made up for, within bounds.
		due = due.Add(time.Duration(float64(size) / perSecond * float64(time.Second)))
		if debt := time.Since(due); debt > debtMost {
			due = due.Add(debt - debtMost)
		}
		if !rest(ctx, time.Until(due)) {
			return
		}
		for w.cluster.backlog.Load() > backlogMost {
			if !rest(ctx, pollEvery) {
				return
			}
		}
	}
}

// submitAll goes from node to node until every job has an outcome, and gives those
// that were refused.
func submitAll(ctx context.Context, w *trial, r *rand.Rand, name string, batch []rota.JobSpec) (refused []rota.JobSpec) {
	if ctx.Err() != nil {
		return nil
	}
	for first := true; len(batch) > 0; first = false {
		s := w.someone(r)
		invoke := w.rec.now()
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		outcomes, err := client.EachOutcome(s.c.Submit(try, batch...))
		cancel()
		var left []rota.JobSpec
		ops := make([]Op, len(batch))
		for i, o := range outcomes {
			why := error(nil)
			if o.Err != nil {
				why = o.Err
			} else if o.State == rota.JobNone {
				why = err
			}
			op := Op{Process: name, Func: opSubmit, Job: string(batch[i].ID), Node: s.id, Invoke: invoke,
				State: o.State.String(), Existed: o.Existed, Index: uint64(o.Index)}.done(w.rec, why)
			switch ops[i] = op; op.Outcome {
			case Unknown:
				left = append(left, batch[i])
			case Refused:
				refused = append(refused, batch[i])
			}
		}
		w.rec.add(ops...)
		if len(left) == 0 {
			if first && r.IntN(4) == 0 {
				readOwn(ctx, w, r, name, outcomes[r.IntN(len(outcomes))])
			}
			return refused
		}
		if batch = left; !rest(ctx, 100*time.Millisecond) {
			w.rec.note("%s gave up on %d submissions without outcome", name, len(left))
			return refused
		}
	}
	return refused
}

// readOwn reads what was just written at another node, at least as new.
func readOwn(ctx context.Context, w *trial, r *rand.Rand, name string, o rota.Submitted) {
	if o.Err != nil || o.Index == 0 {
		return
	}
	s := w.someone(r)
	op := Op{Process: name, Func: opGetMin, Job: string(o.ID), Node: s.id, Invoke: w.rec.now(), Index: uint64(o.Index)}
	try, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	job, _, err := s.c.Job(try, o.ID, rota.ReadOptions{MinIndex: o.Index})
	op.State = job.State.String()
	w.rec.add(op.done(w.rec, err))
}
