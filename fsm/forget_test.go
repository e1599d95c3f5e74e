package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// TestPenaltiesOutliveAnAbsence checks that a worker that stays away longer than workers are remembered returns with
// its penalties.
func TestPenaltiesOutliveAnAbsence(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := minded(t)
			b.every = 100_000
			f(b)
		})
	}
	leaves := func(b *bench) {
		b.t.Helper()
		b.ok(statusOp("w", rota.WorkerRetired, b.fleet.workers.Get("w").Session))
	}
	run("a_slashed_stake", func(b *bench) {
		b.ok(reportOp(b.completed("j", "w")))
		leaves(b)
		b.beatFleet(limits.WorkerForgotten + 1000)
		b.staked("w", 3, 1000)
		if w, _ := b.View.Worker("w"); w.Slashed != 100 || w.InvalidProofs != 1 || w.StakeLeft() != 900 {
			b.t.Fatalf("back again it is %+v", w)
		}
		leaves(b)
		row := b.fleet.workers.Get("w")
		if at := row.ForgetAt(); at != int64(row.Since.Clock+limits.PenaltyForgotten) {
			b.t.Fatalf("it is forgotten at %d, having left at %d", at, row.Since.Clock)
		}
	})
	run("a_suspension", func(b *bench) {
		s := b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		b.ok(statusOp("w", rota.WorkerRetired, s)) // by its own goodbye
		b.beatFleet(limits.WorkerForgotten + 1000)
		b.worker("w", 1)
		b.status("w", rota.WorkerSuspended)
	})
	run("a_jail_that_a_late_report_brings", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0", "audit_window", "48h"))
		var leases []rota.Lease
		for _, id := range []string{"a", "b", "c"} {
			b.worker("w", 3) // without a stake to be slashed
			l := b.acked(id)
			b.ok(verb(rota.VerbComplete, l))
			leases = append(leases, l)
		}
		leaves(b)
		b.beatFleet(limits.WorkerForgotten - 60_000)
		for _, l := range leases {
			b.ok(reportOp(l))
		}
		b.beatFleet(120_000)
		b.worker("w", 3)
		b.status("w", rota.WorkerJailed)
		leaves(b)
	})
	run("a_denial", func(b *bench) {
		b.ok(queueOp("default", "deny_ms", "30h"))
		b.worker("w", 1)
		b.acked("j")
		b.beatFleet(70_000) // its lease expires
		leaves(b)
		b.beatFleet(limits.WorkerForgotten + 1000)
		b.worker("w", 1)
		if w, _ := b.View.Worker("w"); len(w.Denied) != 1 {
			b.t.Fatalf("back again it is %+v", w)
		}
	})
	run("nothing_keeps_a_worker_for_long", func(b *bench) {
		b.worker("w", 1)
		leaves(b)
		b.beatFleet(limits.WorkerForgotten)
		if len(b.View.Workers()) != 0 {
			b.t.Fatal("it is remembered")
		}
	})
}

// TestGhosts checks that registering endless names fills no table.
func TestGhosts(t *testing.T) {
	t.Parallel()
	const ghosts = 3000
	b := newBench(t)
	b.every = 100_000
	worked := b.worker("worked", 1)
	b.ok(verb(rota.VerbComplete, b.leased("j", "worked")))
	sessions := make(map[string]rota.Session)
	for i := range ghosts {
		id := fmt.Sprint("ghost", i)
		sessions[id] = b.worker(id, 1)
	}
	var silent []*fsmpb.Op
	for id, session := range sessions {
		silent = append(silent, reachOp(id, session, false, b.now))
	}
	silent = append(silent, reachOp("worked", worked, false, b.now))
	b.entry(silent...)
	b.beatFleet(limits.GhostForgotten - 1000)
	if n := len(b.View.Workers()); n != ghosts+1 {
		t.Fatalf("%d workers are known before their time, want %d", n, ghosts+1)
	}
	b.beatFleet(10_000)
	if n := len(b.View.Workers()); n != 1 {
		t.Fatalf("%d workers are known, want 1, which worked once", n)
	}
}
