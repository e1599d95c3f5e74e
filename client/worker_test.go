package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// bubble runs a test in fake time. The sleeps in these tests are steps of it.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// begun is a cluster of nodes with one welcomed worker, whose first beat was answered with clock 100 s at the moment it
// was sent.
type begun struct {
	*fakeCluster
	*runningWorker
	h    *script
	s    *fakeStream
	node *fakeNode
	// sent is when the first beat was sent.
	sent time.Time
}

func begin(t *testing.T, nodes int, spec rota.WorkerSpec, opts ...WorkerOption) (*begun, func()) {
	t.Helper()
	f, stop := setup(t, nodes)
	b := &begun{fakeCluster: f, h: newScript()}
	b.runningWorker = f.worker(spec, b.h.handle, opts...)
	b.s, b.node = f.stream()
	b.s.welcome(1)
	synctest.Wait()
	b.sent = time.Now()
	b.s.answerBeat(100_000)
	return b, stop
}

// at sleeps until d after the first beat was sent.
func (b *begun) at(d time.Duration) {
	time.Sleep(time.Until(b.sent.Add(d)))
	synctest.Wait()
}

// run assigns a lease, acked, and returns its handler.
func (b *begun) run(a *rota.Assignment) *scripted {
	b.t.Helper()
	b.s.assign(a)
	b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: a.Lease.Deadline.Clock})
	return within5s(b.t, b.h.started, "start")
}

// reconnected waits for the worker's next stream.
func (b *begun) reconnected() {
	b.t.Helper()
	b.s, b.node = b.stream()
	b.s.welcome(1)
	synctest.Wait()
}

func alive(t *testing.T, r *scripted) {
	t.Helper()
	if err := context.Cause(r.ctx); err != nil {
		t.Fatalf("the handler's context ended too soon: %v", err)
	}
}

func lost(t *testing.T, r *scripted, text string) *LostError {
	t.Helper()
	synctest.Wait()
	var e *LostError
	err := context.Cause(r.ctx)
	if !errors.As(err, &e) || !errors.Is(err, ErrLeaseLost) || !strings.Contains(e.Text, text) {
		t.Fatalf("the handler's context has cause %v, want %q", err, text)
	}
	return e
}

func TestWorker_foldsTheAckIntoACompletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{Slots: 2})
		defer stop()
		b.s.assign(leaseOf("quick"), leaseOf("slow"))
		runs := map[rota.JobID]*scripted{}
		for range 2 {
			r := within5s(t, b.h.started, "start")
			runs[r.job.ID()] = r
		}
		runs["quick"].done <- nil
		batch := b.s.expect(rota.VerbComplete)
		if c := batch.Commands[0]; c.Job != "quick" || string(c.Output) != "out" || len(c.OutputDigest) != 32 {
			t.Fatalf("completion %v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		ack := b.s.expect(rota.VerbAck)
		if ack.Commands[0].Job != "slow" {
			t.Fatalf("ack of %s", ack.Commands[0].Job)
		}
		b.s.answer(ack, peer.LeaseAnswer{Deadline: 160_000})
		runs["slow"].done <- nil
		b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// unwelcomed returns a worker whose first stream has not been welcomed yet.
func unwelcomed(t *testing.T) (b *begun, stop func()) {
	f, stop := setup(t, 1)
	b = &begun{fakeCluster: f, h: newScript()}
	b.runningWorker = f.worker(rota.WorkerSpec{}, b.h.handle)
	b.s, b.node = f.stream()
	return b, stop
}

// H28: the answer to a beat arrives very late. The view counts from the sending of the beat; counted from the receipt,
// the handler would run for 5 s in which the lease may be another worker's.
func TestView_countsFromSendingTheBeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := unwelcomed(t)
		defer stop()
		b.s.welcome(1)
		synctest.Wait()
		b.sent = time.Now()
		first := b.s.nextBeat()
		b.at(5 * time.Second)
		b.s.beat(first, 100_000)
		a := leaseOf("late")
		a.Lease.AckBy, a.Lease.Deadline, a.RenewEvery = rota.Moment{Clock: 109_000}, rota.Moment{Clock: 110_000}, 0
		r := b.run(a)
		b.at(9*time.Second - time.Millisecond)
		alive(t, r)
		b.at(9 * time.Second)
		lost(t, r, "deadline has come")
		r.done <- nil
		b.reconnected() // its other beats were not answered
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

func TestView_takesAckByUntilTheAckIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		b.s.assign(leaseOf("unacked"))
		ack := b.s.expect(rota.VerbAck)
		r := within5s(t, b.h.started, "start")
		b.at(4*time.Second - time.Millisecond)
		alive(t, r)
		b.at(4 * time.Second)
		lost(t, r, "ack was not answered")
		b.s.answer(ack, peer.LeaseAnswer{Deadline: 160_000}) // too late: never resumed
		b.s.nothing()                                        // not before the handler returned
		r.done <- nil
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

func TestView_endsHandlersWhenBeatsStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		a := leaseOf("silent")
		a.Lease.Deadline, a.RenewEvery = rota.Moment{Clock: 10_000_000}, 0
		r := b.run(a)
		b.at(30*time.Second - time.Millisecond)
		alive(t, r)
		b.at(30 * time.Second)
		lost(t, r, "no beat was answered")
		r.done <- context.Cause(r.ctx)
		for len(b.node.streams) > 0 { // it tried this node again every 6 s
			<-b.node.streams
		}
		b.reconnected()
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// H22: a lagging replica assigns a lease that may already have ended by its ack_by.
func TestView_startsNothingThatMayHaveEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		a := leaseOf("old")
		a.Lease.AckBy = rota.Moment{Clock: 101_000} // has passed by the view: 1 s is the margin
		b.s.assign(a)
		b.h.none(t)
		batch := b.s.expect(rota.VerbDecline)
		b.s.answer(batch, peer.LeaseAnswer{Err: rota.Refusef(rota.KindStale, "lease", "the lease ended")})
		b.stopped(t, b.s)
	})
}

func TestView_startsNothingBeforeABeatIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		h := newScript()
		w := f.worker(rota.WorkerSpec{}, h.handle)
		s, _ := f.stream()
		s.welcome(1)
		s.assign(leaseOf("early"))
		s.answer(s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: 160_000})
		h.none(t)
		s.answerBeat(100_000)
		within5s(t, h.started, "start").done <- nil
		s.answer(s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		w.stopped(t, s)
	})
}

func TestWorker_keepsItsLeasesAcrossNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 3, rota.WorkerSpec{Slots: 2}, WithTakeoverSecret([]byte("the secret before")),
			WithAttestation(rota.Attestation{Worker: "w1", Expires: 7}))
		defer stop()
		a := leaseOf("kept")
		r := b.run(a)
		before, old := b.s.hello, b.node
		b.s.end <- errStream
		r.done <- nil
		b.reconnected()
		if b.node == old {
			t.Fatal("the worker came back to the node that died")
		}
		if string(b.s.hello.Secret) != string(before.Secret) || b.s.hello.Takeover || !before.Takeover {
			t.Fatal("another secret, or a takeover of its own session")
		}
		if string(before.OldSecret) != "the secret before" || b.s.hello.OldSecret != nil {
			t.Fatalf("the secret before is shown as %q, then as %q", before.OldSecret, b.s.hello.OldSecret)
		}
		if before.GetAttestation().GetExpiresMs() != 7 || b.s.hello.GetAttestation().GetWorker() != "w1" {
			t.Fatalf("the attestation is shown as %v, then as %v", before.GetAttestation(), b.s.hello.GetAttestation())
		}
		given := *a
		given.Lease.Acked = rota.Moment{Clock: 100_001}
		b.s.assign(&given) // still open on this replica
		batch := b.s.expect(rota.VerbComplete)
		b.h.none(t)
		b.s.end <- errStream // the answer is lost
		b.reconnected()
		b.s.assign(&given)
		again := b.s.expect(rota.VerbComplete)
		if again.Commands[0].String() != batch.Commands[0].String() {
			t.Fatal("the completion was sent again with other content")
		}
		b.s.answer(again, peer.LeaseAnswer{})
		b.s.assign(&given) // a replica that lags
		b.h.none(t)
		b.s.nothing()
		b.stopped(t, b.s)
	})
}

func TestWorker_leavesANodeThatAnswersNoBeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 2, rota.WorkerSpec{})
		defer stop()
		isolated := b.node
		b.at(9 * time.Second)
		b.reconnected()
		if b.node == isolated {
			t.Fatal("the worker stays with a node that is cut off (H15)")
		}
		b.stopped(t, b.s)
	})
}

func TestWorker_renewsByOrdinal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 2, rota.WorkerSpec{Slots: 1, Prefetch: 1})
		defer stop()
		clock := ticking()
		b.s.answerBeats(clock)
		r := b.run(leaseOf("long"))
		b.at(35*time.Second - 20*time.Millisecond)
		b.s.nothing()
		batch := b.s.expect(rota.VerbRenew)
		if n := batch.Commands[0].Ordinal; n != 1 {
			t.Fatalf("first renewal has ordinal %d", n)
		}
		b.at(38 * time.Second)
		b.s.nothing() // one at a time
		b.s.end <- errStream
		b.reconnected()
		b.s.answerBeats(clock)
		batch = b.s.expect(rota.VerbRenew)
		if n := batch.Commands[0].Ordinal; n != 1 {
			t.Fatalf("the renewal whose answer got lost came again with ordinal %d", n)
		}
		b.s.answer(batch, peer.LeaseAnswer{Deadline: 190_000, Renewals: 1})
		b.at(64 * time.Second)
		b.s.nothing()
		alive(t, r)
		b.at(65*time.Second + 100*time.Millisecond)
		batch = b.s.expect(rota.VerbRenew)
		if n := batch.Commands[0].Ordinal; n != 2 {
			t.Fatalf("second renewal has ordinal %d", n)
		}
		b.s.answer(batch, peer.LeaseAnswer{Err: rota.Refusef(rota.KindConflict, "ordinal", "too many")})
		b.at(88*time.Second + 500*time.Millisecond)
		alive(t, r) // to its deadline, by the view
		b.at(90 * time.Second)
		lost(t, r, "deadline has come")
		r.done <- errBoom
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

func TestWorker_refusesToRunWhereItIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		w := f.worker(rota.WorkerSpec{}, newScript().handle)
		s, _ := f.stream()
		s.end <- words.ToStatus(rota.Refusef(rota.KindConflict, "worker", "the id lives with another secret"))
		if err := within5s(t, w.result, "end of Run"); rota.KindOf(err) != rota.KindConflict {
			t.Fatalf("Run returned %v, want a conflict", err)
		}
		if err := w.Run(t.Context()); rota.KindOf(err) != rota.KindConflict {
			t.Fatalf("the second Run returned %v", err)
		}
	})
}

// TestWorker_endsWhereItIsRefused checks that Run returns a refusal, which another try would not change, unless
// WithRetryRefused is set: then it tries again, and a worker that was never accepted stops at once when asked.
func TestWorker_endsWhereItIsRefused(t *testing.T) {
	for _, kind := range []rota.Kind{rota.KindUnauthenticated, rota.KindDenied, rota.KindConflict, rota.KindInvalid} {
		refusal := words.ToStatus(rota.Refusef(kind, "credential", "refused"))
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 2)
				defer stop()
				w := f.worker(rota.WorkerSpec{}, newScript().handle)
				s, _ := f.stream()
				s.end <- refusal
				if err := within5s(t, w.result, "end of Run"); rota.KindOf(err) != kind {
					t.Fatalf("Run returned %v, want %s", err, kind)
				}
			})
		})
		t.Run(kind.String()+" retried", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 2)
				defer stop()
				w := f.worker(rota.WorkerSpec{}, newScript().handle, WithRetryRefused())
				for range 3 {
					s, _ := f.stream()
					s.end <- refusal
				}
				began := time.Now()
				w.cancel()
				if err := within5s(t, w.result, "end of Run"); err != nil || time.Since(began) != 0 {
					t.Fatalf("Run returned %v after %v, want nil at once", err, time.Since(began))
				}
			})
		})
	}
}

// A worker that the cluster does not accept for now keeps trying, and reports the reason at once and repeatedly: a
// silent worker would leave its operator without a clue.
func TestWorker_tellsThatItIsTurnedAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		told := make(chan ConnectionEvent, 10)
		w := f.worker(rota.WorkerSpec{}, newScript().handle,
			WithObserver(Observer{TurnedAway: func(e ConnectionEvent) { told <- e }}))
		refuse := func() {
			s, _ := f.stream()
			s.end <- words.ToStatus(rota.Refusef(rota.KindExhausted, "max_workers",
				"cert:worker/a has 3 workers, 3 are allowed"))
		}
		for range 3 {
			refuse()
		}
		synctest.Wait()
		if n := len(told); n != 1 {
			t.Fatalf("it is reported %d times at first", n)
		}
		for began := time.Now(); time.Since(began) < 2*turnedAwayEvery+5*maxBackoff; {
			refuse()
		}
		s, _ := f.stream()
		s.welcome(1)
		s.answerBeat(100_000)
		if n := len(told); n != 3 {
			t.Fatalf("it is reported %d times in a minute", n)
		}
		if e := <-told; !errors.Is(e.Err, rota.ErrExhausted) || !strings.Contains(e.Err.Error(), "3 are allowed") ||
			e.Address == "" {
			t.Errorf("reported %+v", e)
		}
		w.stopped(t, s)
	})
}
