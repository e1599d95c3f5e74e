package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// wait waits for some jobs to end, over all nodes.
func wait(ctx, _ context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("waiter-%d", r.IntN(1_000_000))
	c, err := w.cluster.client()
	if err != nil {
		w.rec.note("%s: %v", name, err)
		return
	}
	defer c.Close()
	for ctx.Err() == nil && !w.rec.full() {
		var ids []rota.JobID
		for _, id := range w.book.draw(r, 20) {
			ids = append(ids, rota.JobID(id))
		}
		invoke := w.rec.now()
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		_ = c.Wait(try, ids, func(job rota.Job) error { // what did not end in time is no answer
			op := Op{Process: name, Func: opWait, Job: string(job.ID), Invoke: invoke}
			op.seen(job)
			w.rec.add(op.done(w.rec, nil))
			return nil
		})
		cancel()
		if !rest(ctx, time.Duration(200+r.IntN(800))*time.Millisecond) {
			return
		}
	}
}
