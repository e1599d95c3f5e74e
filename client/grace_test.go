package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// beginGraced runs a handler under a lease with a grace of 10 s, at a node that acknowledges every beat: the first was
// sent at b.sent.
func beginGraced(t *testing.T) (b *begun, r *scripted, stop func()) {
	t.Helper()
	f, stop := setup(t, 2)
	b = &begun{fakeCluster: f, h: newScript()}
	b.runningWorker = f.worker(rota.WorkerSpec{}, b.h.handle)
	b.s, b.node = f.stream()
	b.s.hears.Store(true)
	b.s.clock = ticking()
	b.s.welcome(1)
	synctest.Wait()
	b.sent = time.Now()
	a := leaseOf("graced")
	a.Grace, a.Lease.Deadline.Clock, a.RenewEvery = 10*time.Second, 10_000_000, 0
	r = b.run(a)
	return b, r, stop
}

// Beats are sent every 2 s. The node acknowledges none after the beat of 4 s. The worker tries another node 2.5 s after
// the first unacknowledged beat, and ends running handlers 3 s before the grace is over, counted from the last
// acknowledged beat.
func TestGrace_endsWhatRunsWhenNoBeatIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, r, stop := beginGraced(t)
		defer stop()
		first := b.s
		b.at(5 * time.Second)
		b.s.silence()
		b.at(8500*time.Millisecond - time.Millisecond)
		select {
		case <-first.grpc.Context().Done():
			t.Fatal("it left the node too soon")
		default:
		}
		b.at(8500 * time.Millisecond)
		b.s, b.node = b.stream()
		if b.s.hello.Connection <= first.hello.Connection || !b.s.hello.Grace || first.hello.Connection == 0 {
			t.Fatalf("connection %d, then %d", first.hello.Connection, b.s.hello.Connection)
		}
		// This node does not even welcome it.
		b.at(11*time.Second - time.Millisecond)
		alive(t, r)
		b.at(11 * time.Second)
		lost(t, r, "no beat was heard")
		r.done <- context.Cause(r.ctx)
		b.at(14 * time.Second)
		b.reconnected()
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// silence makes a node acknowledge and answer nothing from now on.
func (s *fakeStream) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hears.Store(false)
	s.clock = nil
}

// Another node receives a beat in time: the lease continues.
func TestGrace_goesOnWithAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, r, stop := beginGraced(t)
		defer stop()
		b.at(5 * time.Second)
		b.s.silence()
		b.at(8500 * time.Millisecond)
		b.s, b.node = b.stream()
		b.s.hears.Store(true)
		b.s.clock = ticking()
		b.s.welcome(1)
		b.at(60 * time.Second)
		alive(t, r)
		r.done <- nil
		b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// The acknowledgement of a beat counts from the sending of the beat, however late it arrives.
func TestGrace_countsFromSending(t *testing.T) {
	t.Parallel()
	l := &lease{acked: true, deadline: 1 << 40, assignment: &rota.Assignment{Grace: 10 * time.Second}}
	p := viewpoint{known: true, sent: 20 * time.Second, clock: 1_000, heard: 20 * time.Second}
	for _, late := range []time.Duration{18 * time.Second, 20 * time.Second} {
		if at := l.end(p.newer(viewpoint{heard: late})); at != 27*time.Second {
			t.Errorf("heard from %v, the lease is believed in until %v, want 27 s", late, at)
		}
	}
	if at := l.end(p.newer(viewpoint{heard: 22 * time.Second})); at != 29*time.Second {
		t.Errorf("it is believed in until %v, want 29 s", at)
	}
	l.assignment.Grace = 0
	if at := l.end(p); at != 50*time.Second {
		t.Errorf("without a grace it is believed in until %v, want 50 s", at)
	}
}

// A cluster that has seen a larger number, of a process whose clock was ahead, does not end the worker.
func TestGrace_numbersGoOnAboveWhatWasSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := unwelcomed(t)
		defer stop()
		seen := b.s.hello.Connection + 1<<30
		for b.s.hello.Connection <= seen {
			b.s.end <- words.ToStatus(rota.Refusef(rota.KindStale, "connection", "connection %d is over",
				b.s.hello.Connection))
			b.s, b.node = b.stream()
		}
		b.s.welcome(1)
		b.s.answerBeat(100_000)
		b.stopped(t, b.s)
	})
}
