package fsm

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestGone checks that a guard's report ends its worker's leases at once, and counts: silence would have done so later.
func TestGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbAck, l))

	b.refuses(rota.KindNotFound, "worker", goneOp("nobody", l.Session, "w"))
	b.refuses(rota.KindStale, "session", goneOp("w", l.Session+1, "w"))
	b.refuses(rota.KindStale, "session", goneOp("w", 0, "w"))
	b.refuses(rota.KindDenied, "secret", goneOp("w", l.Session, "guessed"))
	b.refuses(rota.KindInvalid, "secret", &fsmpb.Op{Op: &fsmpb.Op_Gone{Gone: &fsmpb.Gone{Worker: "w",
		Session: uint64(l.Session)}}})
	b.state("j", rota.JobRunning)
	b.status("w", rota.WorkerActive)

	at := b.Header.Clock
	var ended []rota.Event
	for _, e := range b.entry(goneOp("w", l.Session, "w")).Events {
		if e.Kind == rota.EventLeaseExpired || e.Kind == rota.EventProviderStatusChanged {
			ended = append(ended, e)
		}
	}
	if len(ended) != 2 || ended[0].Status != rota.WorkerRetired || ended[1].Lease != l.ID ||
		ended[1].Reason != rota.ReasonLeaseExpired || ended[1].Text != goneText {
		t.Fatalf("events %+v", ended)
	}
	b.status("w", rota.WorkerRetired)
	if j, _ := b.View.Job("j"); j.Attempt != 1 || j.Lease != nil || j.Attempts[0].End != rota.ReasonLeaseExpired ||
		j.Attempts[0].Ended.Clock != at || j.Attempts[0].Error != goneText {
		t.Fatalf("job %+v", j)
	}
	b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))

	if again := b.entry(goneOp("w", l.Session, "w")); entry.OutcomeError(again.Outcomes[0]) != nil ||
		len(again.Events) > 0 {
		t.Fatalf("repeated: got %v with events %+v", again.Outcomes[0], again.Events)
	}
	b.ok(registerOp("w", 1, "w", false)) // the id is free: another process, another session
	if s, _ := b.View.Session("w"); s == l.Session {
		t.Fatal("a worker that is gone has its session again")
	}
	b.refuses(rota.KindStale, "session", goneOp("w", l.Session, "w"))
	b.status("w", rota.WorkerActive)
}

// TestGone_speaks_for_one_session checks that leases that an id held before a takeover belong to another process, which
// may still be running: neither the goodbye nor the guard of the process that took over ends them.
func TestGone_speaks_for_one_session(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(b *bench, s rota.Session) *fsmpb.Op{
		"gone":    func(_ *bench, s rota.Session) *fsmpb.Op { return goneOp("w", s, "other") },
		"goodbye": func(_ *bench, s rota.Session) *fsmpb.Op { return statusOp("w", rota.WorkerRetired, s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(queueOp("default", "t_lease", "10m"))
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbAck, l))
			b.ok(registerOp("w", 1, "other", true))
			s, _ := b.View.Session("w")
			b.ok(leave(b, s))
			b.status("w", rota.WorkerRetired)
			b.pass(39_999)
			b.state("j", rota.JobRunning)
			b.pass(1)
			b.state("j", rota.JobQueued)
		})
	}
}

// TestGone_confirms_what_was_revoked checks that a revoked lease ends by its guard's report uncounted, as if its worker
// had confirmed.
func TestGone_confirms_what_was_revoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 2)
	b.submit("a")
	b.submit("b")
	leases := inOrder(b.match())
	for _, l := range leases {
		b.ok(verb(rota.VerbAck, l))
	}
	b.ok(registerOp("w", 1, "w", false)) // one slot less
	b.ok(goneOp("w", leases[0].Session, "w"))
	reasons := map[rota.Reason]int32{}
	for _, l := range leases {
		j, _ := b.View.Job(l.Job)
		reasons[j.Reason] = j.Attempt
	}
	if counted, ok := reasons[rota.ReasonLeaseExpired]; !ok || counted != 1 {
		t.Fatalf("attempts by reason %v", reasons)
	}
	if counted, ok := reasons[rota.ReasonQuotaCut]; !ok || counted != 0 {
		t.Fatalf("attempts by reason %v", reasons)
	}
}
