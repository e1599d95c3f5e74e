package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// TestTimeOut checks SPEC §20.2: an attempt that exceeds its max_runtime counts and ends TIMED_OUT, whichever check
// detects it, and costs its worker nothing.
func TestTimeOut(t *testing.T) {
	t.Parallel()
	// leased returns an acknowledged lease of a job with 9 s of runtime and one attempt.
	leased := func(b *bench) rota.Lease {
		b.ok(queueOp("default", "attempt_max", "1", "max_runtime", "9s"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		return l
	}
	dead := func(b *bench, text string) {
		b.t.Helper()
		j := b.state("j", rota.JobDead)
		if j.Reason != rota.ReasonTimedOut || len(j.Attempts) != 1 || j.Attempts[0].End != rota.ReasonTimedOut {
			b.t.Fatalf("job %+v", j)
		}
		if said := "timed out: max_runtime is 9000 ms" + text; j.Error != said || j.Attempts[0].Error != said {
			b.t.Fatalf("got error %q, want %q", j.Error, said)
		}
		w, _ := b.View.Worker("w")
		if w.Health != state.HealthFull || len(w.Cooling)+len(w.Denied) != 0 || w.Failed != 1 {
			b.t.Fatalf("worker %+v", w)
		}
	}
	timedOut := func(c *peer.LeaseCommand) { c.Fail = peer.FailTimedOut }
	for name, f := range map[string]func(b *bench){
		"by_the_sweep": func(b *bench) {
			leased(b)
			b.pass(8_999)
			b.state("j", rota.JobRunning)
			b.pass(1)
			dead(b, "")
		},
		"by_a_sweep_that_is_late": func(b *bench) {
			leased(b)
			for range 12 {
				b.now += 1_000
				b.entry()
			}
			b.entry(sweepOp())
			dead(b, "")
		},
		"by_a_lease_that_its_worker_never_acknowledged": func(b *bench) {
			b.ok(queueOp("default", "attempt_max", "1", "max_runtime", "9s", "ack_timeout", "20s"))
			b.leased("j", "w")
			b.pass(9_000)
			dead(b, "")
		},
		"by_its_workers_word": func(b *bench) {
			l := leased(b)
			b.pass(3_000) // the cluster's clock stopped while the worker's continued
			o := b.ok(verb(rota.VerbFail, l, saying("stopped"), timedOut))
			if rota.JobState(o.GetJobState()) != rota.JobDead {
				b.t.Fatalf("outcome %v", o)
			}
			dead(b, "; its worker ends it 1 s before, to report it: stopped")
			if o := b.ok(verb(rota.VerbFail, l, saying("stopped"), timedOut)); !o.GetExisted() {
				b.t.Fatalf("the repeat: %v", o)
			}
		},
		"by_a_decline_just_before": func(b *bench) {
			l := leased(b)
			b.pass(7_000)
			b.ok(verb(rota.VerbDecline, l, saying("had enough")))
			dead(b, ": had enough")
		},
		"never_by_a_decline_in_time": func(b *bench) {
			l := leased(b)
			b.pass(6_999)
			b.ok(verb(rota.VerbDecline, l))
			if j, _ := b.View.Job("j"); j.Reason != rota.ReasonDeclined || j.Attempt != 0 || j.State.Terminal() {
				b.t.Fatalf("job %+v", j)
			}
		},
		"never_by_a_confirmation": func(b *bench) {
			leased(b)
			b.pass(8_000)
			b.ok(registerOp("w", 4, "another", true))
			b.pass(1_000)
			if j, _ := b.View.Job("j"); j.Reason != rota.ReasonTakenOver || j.Attempt != 0 || j.State.Terminal() {
				b.t.Fatalf("job %+v", j)
			}
		},
		"told_once_the_sweep_has_said_so": func(b *bench) {
			l := leased(b)
			b.pass(9_000)
			if o := b.ok(verb(rota.VerbFail, l, timedOut)); !o.GetExisted() {
				b.t.Fatalf("outcome %v", o)
			}
			o := b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
			if !strings.Contains(o.GetText(), "TIMED_OUT") {
				b.t.Fatalf("outcome %v", o)
			}
		},
		"as_a_failure_where_there_is_no_max_runtime": func(b *bench) {
			b.ok(queueOp("default", "attempt_max", "1"))
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbFail, l, timedOut))
			if j := b.state("j", rota.JobDead); j.Reason != rota.ReasonProviderFail {
				b.t.Fatalf("job %+v", j)
			}
		},
		"and_cuts_a_long_text_not_what_happened": func(b *bench) {
			l := leased(b)
			b.ok(verb(rota.VerbFail, l, saying(strings.Repeat("x", limits.MaxErrorBytes)), timedOut))
			j := b.state("j", rota.JobDead)
			if len(j.Error) != limits.MaxErrorBytes || !strings.HasPrefix(j.Error,
				"timed out: max_runtime is 9000 ms; its worker ends it 1 s before, to report it: xx") {
				b.t.Fatalf("error of %d bytes: %.60q", len(j.Error), j.Error)
			}
		},
		"and_tells_the_worker_when": func(b *bench) {
			l := leased(b)
			a, _ := b.View.Assignment(l.ID)
			if a.MaxRuntime != 9*time.Second || a.TimesOut() != l.Started.Clock+9_000 {
				b.t.Fatalf("assignment %+v", a)
			}
		},
		"counts_in_the_failure_domain": func(b *bench) {
			b.ok(queueOp("default", "max_runtime", "9s"))
			l := b.leased("j", "w", func(s *rota.JobSpec) { s.Domain = "zone" })
			b.ok(verb(rota.VerbFail, l, timedOut))
			if ok, fail := b.admission.domainOf("default", "zone").Window.Total(); ok != 0 || fail != 1 {
				b.t.Fatalf("%d succeeded, %d failed", ok, fail)
			}
		},
		"counts_for_its_type_without_a_sample": func(b *bench) {
			b.ok(queueOp("default", "max_runtime", "9s", "ranking", "adaptive"))
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbFail, l, timedOut))
			if r := b.typeStats.Types.Get("work"); r == nil || r.Fail != 1 || r.Sampled {
				b.t.Fatalf("type %+v", r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := minded(t)
			b.ok(queueOp("default", "cool_after", "1"))
			f(b)
		})
	}
}

func saying(text string) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) { c.Text = text }
}
