package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestHandler_outcomes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		h    Handler
		verb rota.LeaseVerb
		text string
		fail rotav1.FailKind
		ms   int64
	}{
		"an error fails": {func(context.Context, *Job) (Result, error) { return Result{}, errBoom },
			rota.VerbFail, "boom", 0, 0},
		"no retry": {func(context.Context, *Job) (Result, error) {
			return Result{}, fmt.Errorf("x: %w", NoRetry(errBoom))
		}, rota.VerbFail, "x: boom", rotav1.FailKind_FAIL_KIND_NO_RETRY, 0},
		"retry after": {func(context.Context, *Job) (Result, error) {
			return Result{}, RetryAfter(time.Minute, errBoom)
		}, rota.VerbFail, "boom", rotav1.FailKind_FAIL_KIND_RETRY_AFTER, 60_000},
		"a snooze": {func(context.Context, *Job) (Result, error) {
			return Result{}, fmt.Errorf("x: %w", Snooze(time.Second))
		},
			rota.VerbFail, "x: put off", rotav1.FailKind_FAIL_KIND_SNOOZE, 1_000},
		"a snooze of no time": {func(context.Context, *Job) (Result, error) { return Result{}, Snooze(-time.Second) },
			rota.VerbFail, "put off", rotav1.FailKind_FAIL_KIND_SNOOZE, 1},
		"a snooze of a year": {func(context.Context, *Job) (Result, error) {
			return Result{}, Snooze(365 * 24 * time.Hour)
		},
			rota.VerbFail, "put off", rotav1.FailKind_FAIL_KIND_SNOOZE, limits.MaxFailWait.Milliseconds()},
		"a cancellation": {func(context.Context, *Job) (Result, error) { return Result{}, Cancel(errBoom) },
			rota.VerbFail, "boom", rotav1.FailKind_FAIL_KIND_CANCEL, 0},
		"a decline": {func(context.Context, *Job) (Result, error) { return Result{}, Decline(errBoom) },
			rota.VerbDecline, "boom", 0, 0},
		"a panic": {func(context.Context, *Job) (Result, error) { panic("oh no") },
			rota.VerbFail, "panic: oh no", 0, 0},
		"too much output": {func(context.Context, *Job) (Result, error) {
			return Result{Output: make([]byte, rota.MaxPayloadBytes+1)}, nil
		}, rota.VerbFail, "maximum 262144", 0, 0},
		"a short digest": {func(context.Context, *Job) (Result, error) { return Result{Digest: []byte("x")}, nil },
			rota.VerbFail, "digest: got 1 bytes", 0, 0},
		"no handler": {nil, rota.VerbDecline, "no handler for type work", 0, 0},
		"a payload that is no JSON": {Define[int, int]("work").Handler(func(_ context.Context, _ *Job, in int) (int,
			error) {
			return in, nil
		}), rota.VerbFail, "decode payload", rotav1.FailKind_FAIL_KIND_NO_RETRY, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 1)
				defer stop()
				w := f.worker(rota.WorkerSpec{}, test.h)
				s, _ := f.stream()
				s.welcome(1)
				s.answerBeat(100_000)
				s.assign(leaseOf("one"))
				batch := s.expect(test.verb)
				c := batch.Commands[0]
				if !strings.Contains(c.Text, test.text) || c.Fail != test.fail || c.AfterMs != test.ms ||
					len(c.Text) > limits.MaxErrorBytes {
					t.Fatalf("command %v", c)
				}
				s.answer(batch, peer.LeaseAnswer{})
				w.stopped(t, s)
			})
		})
	}
}

func TestWorker_confirmsARevocationAfterItsHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		a := leaseOf("revoked")
		r := b.run(a)
		b.s.notice(peer.Notice{Revoked: &peer.LeaseEnd{Lease: a.Lease.ID, Job: "revoked",
			Reason: rota.ReasonPreempted}})
		if e := lost(t, r, "revoked"); e.Reason != rota.ReasonPreempted || !e.Revoked {
			t.Fatalf("cause %+v", e)
		}
		b.s.nothing()
		if err := r.job.Spend("model", 3); err != nil {
			t.Fatal(err)
		}
		b.s.nothing()
		r.done <- context.Cause(r.ctx)
		batch := b.s.expect(rota.VerbDecline)
		if got := rota.Costs(batch.Commands[0].Costs).String(); got != "model=3" {
			t.Errorf("the confirmation has costs %q", got)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// TestWorker_tellsOfARefusal checks that a refusal for a lease that stays the worker's is logged and reported to
// observers, and that the lease's end names it too.
func TestWorker_tellsOfARefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told, reported []string
		note := func(what string) func(HandlerEvent) {
			return func(e HandlerEvent) { told = append(told, fmt.Sprintf("%s %s: %v", what, e.Job, e.Err)) }
		}
		report := func(e HandlerEvent) { reported = append(reported, fmt.Sprintf("%s %s: %v", e.Verb, e.Job, e.Err)) }
		var lines strings.Builder
		b, stop := begin(t, 1, rota.WorkerSpec{Slots: 2}, WithObserver(Observer{Refused: note("refused"),
			Reported: report}), WithWorkerLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		defer stop()
		b.s.answerBeats(ticking())
		renewed := b.run(leaseOf("renewed"))
		b.s.assign(leaseOf("wf/acked"))
		b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Err: rota.Refusef(rota.KindInvalid, "job", "no id")})
		acked := within5s(t, b.h.started, "start")
		synctest.Wait()
		alive(t, acked) // its completion may still be accepted
		b.at(4 * time.Second)
		lost(t, acked, "its ack was refused: no id")
		acked.done <- nil
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.at(35 * time.Second)
		b.s.answer(b.s.expect(rota.VerbRenew), peer.LeaseAnswer{Err: rota.Refusef(rota.KindInvalid, "ordinal",
			"no ordinal")})
		synctest.Wait()
		alive(t, renewed) // to its deadline
		if want := []string{"refused wf/acked: no id", "refused renewed: no ordinal"}; !slices.Equal(told, want) {
			t.Errorf("got %q, want %q", told, want)
		}
		// Its handler returned without error, but it is not a completion.
		if want := []string{"DECLINE wf/acked: <nil>"}; !slices.Equal(reported, want) {
			t.Errorf("reported %q, want %q", reported, want)
		}
		for _, line := range []string{`level=WARN msg="ACK refused`, `level=WARN msg="RENEW refused`,
			`level=WARN msg="lease lost"`} {
			if !strings.Contains(lines.String(), line) {
				t.Errorf("no line %s in\n%s", line, &lines)
			}
		}
		renewed.done <- nil
		b.stopped(t, b.s)
	})
}

func TestWorker_stopsWorkOnWhatEnded(t *testing.T) {
	for name, end := range map[string]func(b *begun, a *rota.Assignment){
		"an ended lease": func(b *begun, a *rota.Assignment) {
			b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: a.Lease.Deadline.Clock})
			e := peer.LeaseEnd{Lease: a.Lease.ID, Job: "ended", Reason: rota.ReasonCancelledByUser}
			b.s.notice(peer.Notice{Ended: &e})
		},
		"a stale ack": func(b *begun, _ *rota.Assignment) {
			b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Err: rota.Refusef(rota.KindStale, "lease",
				"not yours")})
		},
		"a new session": func(b *begun, a *rota.Assignment) {
			b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: a.Lease.Deadline.Clock})
			b.s.end <- errStream
			b.s, b.node = b.stream()
			b.s.welcome(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b, stop := begin(t, 1, rota.WorkerSpec{Slots: 2})
				defer stop()
				a := leaseOf("ended")
				b.s.assign(a)
				r := within5s(t, b.h.started, "start")
				end(b, a)
				lost(t, r, "")
				// The job comes back before the old handler has returned: the two must not run at once.
				again := leaseOf("ended")
				again.Lease.ID[0]++
				b.s.answerBeats(ticking())
				b.s.assign(again)
				b.h.none(t)
				b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
				r.done <- nil
				b.s.nothing()
				b.stopped(t, b.s)
			})
		})
	}
}

func TestWorker_endsWithItsSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 2, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("taken"))
		b.s.end <- words.ToStatus(rota.Refusef(rota.KindStale, "session", "another worker took the id over"))
		lost(t, r, "session is over")
		r.done <- nil
		if err := within5s(t, b.result, "end of Run"); rota.KindOf(err) != rota.KindStale {
			t.Fatalf("Run returned %v", err)
		}
	})
}

func TestWorker_drains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{Slots: 1, Prefetch: 1})
		defer stop()
		b.s.answerBeats(ticking())
		r := b.run(leaseOf("running"))
		b.s.assign(leaseOf("waits"))
		b.s.answer(b.s.expect(rota.VerbAck), peer.LeaseAnswer{Deadline: 160_000})
		b.cancel()
		batch := b.s.expect(rota.VerbDecline)
		if batch.Commands[0].Job != "waits" {
			t.Fatalf("%s was declined", batch.Commands[0].Job)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		if id := within5s(t, b.node.drains, "drain"); id != string(b.ID()) {
			t.Fatalf("%s was drained", id)
		}
		b.s.assign(leaseOf("late"))
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		b.at(20 * time.Second)
		alive(t, r)
		r.done <- nil
		b.s.answer(b.s.expect(rota.VerbComplete), peer.LeaseAnswer{})
		within5s(t, b.s.bye, "farewell")
		if err := within5s(t, b.result, "end of Run"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWorker_endsHandlersAtTheDrainTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hard, stopHard := context.WithCancel(context.Background())
		b, stop := begin(t, 1, rota.WorkerSpec{}, WithDrainTimeout(time.Minute), WithHardStop(hard))
		defer stop()
		r := b.run(leaseOf("slow"))
		b.cancel()
		synctest.Wait()
		alive(t, r)
		stopHard()
		synctest.Wait()
		if err := context.Cause(r.ctx); !errors.Is(err, ErrDrainTimeout) {
			t.Fatalf("cause %v", err)
		}
		r.done <- r.ctx.Err()
		b.s.answer(b.s.expect(rota.VerbDecline), peer.LeaseAnswer{})
		if err := within5s(t, b.result, "end of Run"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWorker_sendsABatchWithoutOutcomeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("again"))
		r.done <- nil
		batch := b.s.expect(rota.VerbComplete)
		refusal := words.RefusalToWire(rota.Refusef(rota.KindUnavailable, "", "no leader"))
		b.s.send(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Answers{
			Answers: &rotav1.LeaseAnswers{Sequence: batch.Sequence, Refusal: refusal}}})
		batch = b.s.expect(rota.VerbComplete)
		b.s.answer(batch, peer.LeaseAnswer{Err: rota.Refusef(rota.KindUnavailable, "", "unknown")})
		batch = b.s.expect(rota.VerbComplete)
		b.s.answer(batch, peer.LeaseAnswer{Err: rota.Refusef(rota.KindInvalid, "output", "the queue takes 1 byte")})
		batch = b.s.expect(rota.VerbFail)
		if !strings.Contains(batch.Commands[0].Text, "takes 1 byte") {
			t.Fatalf("command %v", batch.Commands[0])
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

func TestWorker_sendsProgressOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("steps"))
		for i := range 50 {
			r.job.Progress(i, "step")
		}
		batch := b.s.expect(rota.VerbProgress)
		b.s.answer(batch, peer.LeaseAnswer{})
		b.s.nothing()
		batch = b.s.expect(rota.VerbProgress)
		if p := batch.Commands[0].Progress; p != 49 {
			t.Fatalf("progress %d, want the last", p)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		r.done <- nil
		b.s.answer(b.s.expect(rota.VerbProgress, rota.VerbComplete), peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// TestWorker_sendsWhatIsSpent checks that totals go with reports of progress, once a second, and with the outcome, and
// that a total never falls.
func TestWorker_sendsWhatIsSpent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("steps"))
		spend := func(name string, units float64, ok bool) {
			t.Helper()
			if err := r.job.Spend(name, units); (err == nil) != ok || !ok && rota.KindOf(err) != rota.KindInvalid {
				t.Fatalf("%s %g: %v", name, units, err)
			}
		}
		spend("model", 7.25, true)
		batch := b.s.expect(rota.VerbProgress)
		if c := batch.Commands[0]; rota.Costs(c.Costs).String() != "model=7.25" || c.Progress != 0 || c.Text != "" {
			t.Fatalf("command %+v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		r.job.Progress(40, "half")
		spend("model", 9, true)
		spend("usd", 0.000001, true)
		batch = b.s.expect(rota.VerbProgress)
		if c := batch.Commands[0]; rota.Costs(c.Costs).String() != "model=9,usd=0.000001" || c.Progress != 40 || c.Text != "half" {
			t.Fatalf("command %+v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		spend("model", 8.5, false)
		spend("model", -1, false)
		spend("model", math.NaN(), false)
		spend("model", math.Inf(1), false)
		spend("a b", 1, false)
		for i := range rota.MaxCosts - 2 {
			spend(fmt.Sprint("more", i), 1, true)
		}
		spend("ninth", 1, false)
		spend("model", 10, true)
		if got := r.job.Spent(); len(got) != rota.MaxCosts || got["model"] != 10*rota.CostUnit {
			t.Fatalf("spent %s", got)
		}
		r.done <- nil
		batch = b.s.expect(rota.VerbProgress, rota.VerbComplete)
		for _, c := range batch.Commands {
			if len(c.Costs) != rota.MaxCosts || c.Costs["model"] != 10*rota.CostUnit {
				t.Errorf("command %+v", c)
			}
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// TestWorker_failsWithItsCosts checks that a failure that takes the place of a refused completion reports what the
// attempt used.
func TestWorker_failsWithItsCosts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("refused"))
		if err := r.job.Spend("model", 3); err != nil {
			t.Fatal(err)
		}
		b.s.answer(b.s.expect(rota.VerbProgress), peer.LeaseAnswer{})
		r.done <- nil
		b.s.answer(b.s.expect(rota.VerbComplete),
			peer.LeaseAnswer{Err: rota.Refusef(rota.KindInvalid, "output", "refused")})
		batch := b.s.expect(rota.VerbFail)
		if got := rota.Costs(batch.Commands[0].Costs).String(); got != "model=3" {
			t.Errorf("the failure has costs %q", got)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// TestWorker_lastProgressGoesWithTheOutcome checks that a report made right before the handler returns precedes its
// outcome, marked as final.
func TestWorker_lastProgressGoesWithTheOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("steps"))
		r.job.Progress(20, "begun")
		b.s.answer(b.s.expect(rota.VerbProgress), peer.LeaseAnswer{})
		r.job.Progress(80, "nearly")
		r.done <- nil
		batch := b.s.expect(rota.VerbProgress, rota.VerbComplete)
		if batch.Commands[0].Progress != 80 || batch.Commands[0].Text != "nearly" ||
			batch.Commands[0].Ordinal != peer.FinalReport {
			t.Fatalf("%v", batch.Commands)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}

// TestWorker_pausesAKey checks that a handler's pause is sent with its snooze, and that an attempt whose pause is
// refused fails with the reason.
func TestWorker_pausesAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, stop := begin(t, 1, rota.WorkerSpec{})
		defer stop()
		r := b.run(leaseOf("j"))
		r.done <- RetryAfterKey("host:1", 5*time.Second, errors.New("status 429"))
		batch := b.s.expect(rota.VerbFail)
		c := batch.Commands[0]
		if c.PauseKey != "host:1" || c.AfterMs != 5000 || peer.FailKind(c.Fail) != peer.FailSnooze || c.Text != "status 429" {
			t.Errorf("sent %v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{Err: rota.Refusef(rota.KindInvalid, "pause_key", "no key of the job")})
		batch = b.s.expect(rota.VerbFail)
		c = batch.Commands[0]
		if c.PauseKey != "" || c.Fail != 0 || !strings.Contains(c.Text, "no key of the job") {
			t.Errorf("then sent %v", c)
		}
		b.s.answer(batch, peer.LeaseAnswer{})
		b.stopped(t, b.s)
	})
}
