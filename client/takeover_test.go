package client

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestTakeover_confirmsForAsLongAsADrainDoes takes over the worker's id while a handler runs. The worker reports that
// it has stopped for as long as a drain reports outcomes, although its lease is over by the view.
func TestTakeover_confirmsForAsLongAsADrainDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		givenUp := make(chan HandlerEvent, 10)
		b, stop := begin(t, 1, rota.WorkerSpec{},
			WithObserver(Observer{GivenUp: func(e HandlerEvent) { givenUp <- e }}))
		defer stop()
		a := leaseOf("job")
		a.Lease.Deadline.Clock, a.RenewEvery = 104_000, 0
		r := b.run(a)
		b.at(2 * time.Second)
		b.s.notice(peer.Notice{Revoked: &peer.LeaseEnd{Lease: a.Lease.ID, Job: "job", Reason: rota.ReasonTakenOver}})
		lost(t, r, "revoked")
		r.done <- nil
		batch := b.s.expect(rota.VerbDecline)
		b.at(12*time.Second - time.Millisecond) // the lease was over at 3 s
		select {
		case e := <-givenUp:
			t.Fatalf("the report on %s was abandoned at once", e.Job)
		case err := <-b.result:
			t.Fatalf("Run returned %v before its result was accepted", err)
		default:
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		if err := within5s(t, b.result, "Run's end"); rota.KindOf(err) != rota.KindStale {
			t.Fatalf("Run returned %v", err)
		}
	})
}
