package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// read reads jobs at any node, linearizably.
func read(ctx, _ context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("reader-%d", r.IntN(1_000_000))
	for ctx.Err() == nil && !w.rec.full() {
		draw := w.book.draw
		if r.IntN(3) == 0 {
			draw = w.book.drawSlow
		}
		for _, id := range draw(r, 1) {
			readOnce(ctx, w, w.someone(r), name, id)
		}
		if !rest(ctx, time.Duration(r.IntN(2_000/max(1, w.options.Rate/6)+1))*time.Millisecond) {
			return
		}
	}
}

func readOnce(ctx context.Context, w *trial, s *server, name, id string) {
	op := Op{Process: name, Func: opGet, Job: id, Node: s.id, Invoke: w.rec.now()}
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	job, at, err := s.c.Job(try, rota.JobID(id), rota.ReadOptions{})
	op.seen(job)
	op.Index = uint64(at.Index)
	w.rec.add(op.done(w.rec, err))
}

// seen fills in what a job looked like.
func (o *Op) seen(job rota.Job) {
	o.State, o.Attempt, o.Output = job.State.String(), job.Attempt, string(job.Output)
	if job.Lease != nil {
		o.Token, o.Lease = job.Lease.Token, job.Lease.ID.String()
	}
}
