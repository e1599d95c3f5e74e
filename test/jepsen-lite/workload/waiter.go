package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// wait waits for some jobs to end, over all nodes.
func wait(ctx, _ context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("waiter-%d", r.IntN(1_000_000))
	c, err := w.Cluster.ClientOf(w.badge)
	if err != nil {
		w.Rec.Note("%s: %v", name, err)
		return
	}
	defer c.Close()
	for ctx.Err() == nil && !w.Rec.Full() {
		var ids []rota.JobID
		for _, id := range w.book.draw(r, 20) {
			ids = append(ids, rota.JobID(id))
		}
		invoke := w.Rec.Now()
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		for job, err := range c.Wait(try, ids...) {
			if err != nil {
				break // a job that did not end in time gives no answer
			}
			op := check.Op{Process: name, Func: check.OpWait, Job: string(job.ID), Invoke: invoke}
			op.Seen(job)
			w.Rec.Add(w.done(op, nil))
		}
		cancel()
		if !fault.Rest(ctx, time.Duration(200+r.IntN(800))*time.Millisecond) {
			return
		}
	}
}
