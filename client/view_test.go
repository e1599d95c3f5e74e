package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// sleeper is a lease table without a connection, on a clock that the test moves: a process whose timers did not fire
// because it was paused or suspended.
type sleeper struct {
	*leaseTable
	t   *testing.T
	now time.Duration
	h   *script
}

func asleep(t *testing.T) *sleeper {
	t.Helper()
	c, err := Dial([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := &sleeper{t: t, now: time.Hour, h: newScript()}
	spec := rota.WorkerSpec{Queues: []rota.QueueName{"q"}, Slots: 2}
	w, err := NewWorker(c, spec, WithClock(func() time.Duration { return s.now }))
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("", s.h.handle)
	s.leaseTable = newLeaseTable(w, t.Context())
	t.Cleanup(s.closePool)
	s.beatAnswered(viewpoint{known: true, sent: s.now, clock: 100_000})
	return s
}

// declines ends a handler and expects its lease to be declined.
func (s *sleeper) declines(r *scripted) {
	s.t.Helper()
	within5s(s.t, r.ctx.Done(), "end of the handler's context")
	r.done <- nil
	for s.still() > 0 {
		within5s(s.t, s.sendWake, "command")
	}
	batch, _ := s.out.next(s.now)
	if len(batch) != 1 || batch[0].Verb != rota.VerbDecline {
		s.t.Fatalf("commands %v, want a decline", batch)
	}
}

// H23 and H12: the process slept past the end of a lease. The first thing it receives is a fresh answer, which must not
// make the old deadline look valid.
func TestView_aFreshBeatRevivesNothing(t *testing.T) {
	t.Parallel()
	s := asleep(t)
	a := leaseOf("slept")
	a.Lease.Deadline, a.Lease.Acked = rota.Moment{Clock: 1_000_000}, rota.Moment{Clock: 100_001}
	s.notice([]peer.Notice{{Assigned: a}})
	r := within5s(t, s.h.started, "start")
	s.now += 50 * time.Second
	s.beatAnswered(viewpoint{known: true, sent: s.now, clock: 150_000})
	s.notice([]peer.Notice{{Assigned: a}}) // assigned again: it stays given up
	s.declines(r)
}

// The same with the answer to its ack, or with its ack reported by another replica.
func TestView_aLateAckRevivesNothing(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(s *sleeper, a *rota.Assignment, ack uint64){
		"an answer": func(s *sleeper, _ *rota.Assignment, ack uint64) {
			s.answered(ack, nil, []peer.LeaseAnswer{{Deadline: 160_000}})
		},
		"a replica": func(s *sleeper, a *rota.Assignment, _ uint64) {
			given := *a
			given.Lease.Acked = rota.Moment{Clock: 100_001}
			s.notice([]peer.Notice{{Assigned: &given}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := asleep(t)
			a := leaseOf("unacked")
			s.notice([]peer.Notice{{Assigned: a}})
			r := within5s(t, s.h.started, "start")
			s.now += ackHold
			batch, sequence := s.out.next(s.now)
			if len(batch) != 1 || batch[0].Verb != rota.VerbAck {
				t.Fatalf("commands %v, want an ack", batch)
			}
			s.now += 4 * time.Second // ack_by − 1 s
			late(s, a, sequence)
			s.declines(r)
		})
	}
}

func TestView_takesTheBeatThatWasSentLast(t *testing.T) {
	t.Parallel()
	older := viewpoint{known: true, sent: 10 * time.Second, clock: 1_000}
	newer := viewpoint{known: true, sent: 12 * time.Second, clock: 2_500}
	for _, p := range []viewpoint{
		viewpoint{}.newer(older).newer(newer), viewpoint{}.newer(newer).newer(older),
	} {
		if p != newer {
			t.Errorf("view %+v, want the newer by sending", p)
		}
		if at := p.of(4_500); at != 13*time.Second {
			t.Errorf("deadline 4500 is viewed at %v, want 12 s + 2 s − 1 s", at)
		}
		if at := p.lost(); at != 42*time.Second {
			t.Errorf("silence ends handlers at %v, want 42 s", at)
		}
	}
	if at := newer.of(1 << 62); at < 0 {
		t.Errorf("a deadline far away is viewed at %v", at)
	}
}

// An idle worker beats as rarely as asked, and not later than it announced; a lease halves the interval, and an
// unanswered beat shortens it further (SPEC §3.9).
func TestIdleBeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := unwelcomed(t)
		defer stop()
		b.s.every, b.s.clock = 10*time.Second, ticking()
		b.sent = time.Now()
		b.s.welcome(1)
		synctest.Wait()
		b.s.hears.Store(true)
		runs := func(id rota.JobID, from, to, grace time.Duration) {
			b.at(from)
			a := leaseOf(id)
			a.Lease.AckBy, a.Lease.Deadline, a.RenewEvery, a.Grace = rota.Moment{Clock: 200_000}, rota.Moment{Clock: 300_000}, 0, grace
			r := b.run(a)
			alive(t, r)
			if id == "logging" {
				_, _ = r.job.Log().Write([]byte("begun\n"))
			}
			b.at(to)
			r.done <- nil
			b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		}
		runs("before-half", 25*time.Second, 35*time.Second, 0)
		runs("after-half", 43*time.Second, 44*time.Second, 0)
		runs("graced", 54*time.Second, 57*time.Second, 20*time.Second)
		runs("logging", 64*time.Second, 71*time.Second, 0)
		b.at(75 * time.Second)
		b.s.silence()
		b.at(85 * time.Second)
		var got []string
		b.s.mu.Lock()
		for _, beat := range b.s.seen {
			got = append(got, fmt.Sprintf("%v, the next in %v", beat.at.Sub(b.sent), beat.next))
		}
		b.s.mu.Unlock()
		want := []string{"0s, the next in 2s", "2s, the next in 10s", "12s, the next in 10s", "22s, the next in 10s",
			"27s, the next in 5s", "32s, the next in 5s", "37s, the next in 10s", "43s, the next in 5s",
			"48s, the next in 10s",
			"54s, the next in 2s", "56s, the next in 2s", "58s, the next in 10s", "1m4s, the next in 5s",
			"1m6s, the next in 2s", "1m8s, the next in 2s", "1m10s, the next in 2s", "1m12s, the next in 10s",
			"1m22s, the next in 10s", "1m24s, the next in 10s"}
		if !slices.Equal(got, want) {
			t.Errorf("it beat at\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		b.s.answerBeats(ticking())
		b.stopped(t, b.s)
	})
}
