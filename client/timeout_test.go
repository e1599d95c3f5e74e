package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// timed returns a lease of an attempt that may take 9 s.
func timed(job rota.JobID) *rota.Assignment {
	a := leaseOf(job)
	a.Lease.Deadline, a.Lease.RenewBy, a.MaxRuntime = rota.Moment{Clock: 109_000}, rota.Moment{Clock: 85_000}, 9*time.Second
	return a
}

// errCause stands for the cause of the handler's context.
var errCause = errors.New("the cause")

// TestTimeout_failsTheAttempt checks that at max_runtime by the view the handler's context ends, and that once it has
// returned, with or without error, the attempt is failed as TIMED_OUT (SPEC §20.2). A decline, which does not count,
// would let the job run forever.
func TestTimeout_failsTheAttempt(t *testing.T) {
	for name, returned := range map[string]error{"its context's error": context.Canceled, "the cause": errCause,
		"an error": errBoom, "a decline": Decline(errBoom), "nothing": nil,
		"no retry": NoRetry(errBoom)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b, stop := begin(t, 1, rota.WorkerSpec{})
				defer stop()
				b.s.answerBeats(ticking())
				r := b.run(timed("slow"))
				b.at(8*time.Second - time.Millisecond)
				alive(t, r)
				b.at(8 * time.Second)
				e := lost(t, r, "max_runtime is over")
				if e.Reason != rota.ReasonTimedOut || !errors.Is(e, context.DeadlineExceeded) ||
					!errors.Is(e, ErrLeaseLost) {
					t.Fatalf("cause %+v", e)
				}
				b.s.nothing() // not before the handler returned, and no renewal ever
				said := "boom"
				switch returned {
				case errCause:
					returned, said = fmt.Errorf("command: %w", e), ""
				case nil, context.Canceled:
					said = ""
				}
				r.done <- returned
				batch := b.s.expect(rota.VerbFail)
				c := batch.Commands[0]
				if c.Fail != rotav1.FailKind_FAIL_KIND_TIMED_OUT || c.Text != said {
					t.Fatalf("command %v", c)
				}
				b.s.answer(batch, peer.LeaseAnswer{})
				b.stopped(t, b.s)
			})
		})
	}
}

// TestTimeout_ofALeaseThatWaits checks that a lease that never got a slot is declined in time not to count.
func TestTimeout_ofALeaseThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{Prefetch: 1})
		defer stop()
		b.s.answerBeats(ticking())
		busy := b.run(leaseOf("busy"))
		b.s.assign(timed("waits"))
		b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: 109_000})
		b.at(6*time.Second - 5*ackHold)
		b.s.nothing()
		b.at(6 * time.Second) // the margin of the view before the last two seconds
		batch := b.s.expect(rota.VerbDecline)
		if c := batch.Commands[0]; c.Job != "waits" || !strings.Contains(c.Text, "no slot came free") {
			t.Fatalf("command %v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		busy.done <- nil
		b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		b.h.none(t)
		b.stopped(t, b.s)
	})
}
