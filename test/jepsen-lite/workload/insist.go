package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// insist asks one node after the other until there is an outcome; ask may add the answer to the operation.
func (w *trial) insist(ctx context.Context, r *rand.Rand, op check.Op,
	ask func(context.Context, *client.Client, *check.Op) error) check.Outcome {
	for ctx.Err() == nil {
		s := w.Someone(r)
		now := op
		now.Node, now.Shown, now.Invoke = s.ID, w.badge.ID(), w.Rec.Now()
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := ask(try, s.As(w.badge), &now)
		cancel()
		now = w.done(now, err)
		w.Rec.Add(now)
		if now.Outcome != check.Unknown || !fault.Rest(ctx, 100*time.Millisecond) {
			return now.Outcome
		}
	}
	return check.Unknown
}

// insistOnRoom insists, and asks again while a mode or a full disk refuses: both pass.
func (w *trial) insistOnRoom(ctx context.Context, r *rand.Rand, op check.Op,
	ask func(context.Context, *client.Client, *check.Op) error) check.Outcome {
	for {
		var last error
		outcome := w.insist(ctx, r, op, func(ctx context.Context, c *client.Client, now *check.Op) error {
			last = ask(ctx, c, now)
			return last
		})
		passing := rota.KindOf(last) == rota.KindExhausted || rota.KindOf(last) == rota.KindMode
		if outcome != check.Refused || !passing || !fault.Rest(ctx, 250*time.Millisecond) {
			return outcome
		}
	}
}
