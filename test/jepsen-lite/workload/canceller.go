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

// cancelSome cancels a few jobs in any state.
func cancelSome(ctx, _ context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("canceller-%d", r.IntN(1_000_000))
	for ctx.Err() == nil && !w.Rec.Full() {
		if !fault.Rest(ctx, time.Duration(100+r.IntN(600))*time.Millisecond) {
			return
		}
		for _, id := range w.book.drawSlow(r, 1) {
			cancelOne(ctx, w, r, name, id)
		}
	}
}

// cancelOne asks a node once to cancel a job.
func cancelOne(ctx context.Context, w *trial, r *rand.Rand, name, id string) {
	s := w.Someone(r)
	op := check.Op{Process: name, Func: check.OpCancel, Job: id, Node: s.ID, Shown: w.badge.ID(), Invoke: w.Rec.Now()}
	try, cancel := context.WithTimeout(ctx, 3*time.Second)
	outcomes, err := s.As(w.badge).Cancel(try, rota.JobID(id))
	cancel()
	if err == nil && outcomes[0].Err != nil {
		err = outcomes[0].Err
	}
	if len(outcomes) == 1 {
		op.State, op.Index = outcomes[0].State.String(), uint64(outcomes[0].Index)
	}
	w.Rec.Add(w.done(op, err))
}
