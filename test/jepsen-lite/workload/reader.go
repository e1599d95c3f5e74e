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

// read reads jobs at any node, linearizably.
func read(ctx, _ context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("reader-%d", r.IntN(1_000_000))
	for ctx.Err() == nil && !w.Rec.Full() {
		draw := w.book.draw
		if r.IntN(3) == 0 {
			draw = w.book.drawSlow
		}
		for _, id := range draw(r, 1) {
			readOnce(ctx, w, w.Someone(r), name, id)
		}
		if !fault.Rest(ctx, time.Duration(r.IntN(2_000/max(1, w.Options.Rate/6)+1))*time.Millisecond) {
			return
		}
	}
}

func readOnce(ctx context.Context, w *trial, s *fault.Server, name, id string) {
	op := check.Op{Process: name, Func: check.OpGet, Job: id, Node: s.ID, Shown: w.badge.ID(), Invoke: w.Rec.Now()}
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var at rota.ReadAt
	job, err := s.As(w.badge).Job(try, rota.JobID(id), client.Seen(&at))
	op.Seen(job)
	op.Index = uint64(at.Index)
	w.Rec.Add(w.done(op, err))
}
