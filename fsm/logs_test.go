package fsm

import (
	"bytes"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// bringing makes a verb carry a log.
func bringing(log string) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) { c.Log = []byte(log) }
}

// keptLog returns the log of an attempt while it waits for the archive.
func keptLog(m *Machine, lease rota.LeaseID) (string, bool) {
	s, ok := m.View.StagedJob(peer.LogID(lease))
	if !ok {
		return "", false
	}
	return string(s.Ended().Job.Output), true
}

// keeps checks the stored log of a lease.
func (b *bench) keeps(l rota.Lease, want string) {
	b.t.Helper()
	if got, ok := keptLog(b.Machine, l.ID); got != want || ok != (want != "") {
		b.t.Fatalf("the log of %s is %q, %v; want %q", l.ID, got, ok, want)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			f(b)
			b.sound()
		})
	}
	run("the_ending_verb_brings_it", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.ok(verb(rota.VerbComplete, l, bringing("done")))
		b.keeps(l, "done")
		if j := b.state("j", rota.JobCompleted); !j.Attempts[0].Log || string(j.Output) != "" {
			b.t.Fatalf("%+v", j)
		}
	})
	run("each_attempt_has_its_own", func(b *bench) {
		first := b.leased("j", "w")
		b.ok(verb(rota.VerbFail, first, bringing("first")))
		b.pass(60_000)
		second := b.match()["j"]
		b.ok(verb(rota.VerbDecline, second, bringing("second")))
		b.keeps(first, "first")
		b.keeps(second, "second")
		a := b.state("j", rota.JobDelayed).Attempts
		if len(a) != 2 || !a[0].Log || !a[1].Log {
			b.t.Fatalf("%+v", a)
		}
	})
	run("a_repetition_keeps_it_once", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbComplete, l, bringing("done")))
		before := b.Header.TombSeq
		b.ok(verb(rota.VerbComplete, l, bringing("another")))
		b.keeps(l, "done")
		if b.Header.TombSeq != before || b.Header.Logs != 1 {
			b.t.Fatalf("%d logs, number %d after %d", b.Header.Logs, b.Header.TombSeq, before)
		}
	})
	run("nobody_writes_into_anothers", func(b *bench) {
		l := b.leased("j", "w")
		thief := b.worker("thief", 1)
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l, bringing("mine"),
			func(c *peer.LeaseCommand) { c.Worker, c.Session = "thief", thief }))
		b.refuses(rota.KindStale, "session", verb(rota.VerbFail, l, bringing("mine"),
			func(c *peer.LeaseCommand) { c.Session++ }))
		b.keeps(l, "")
		b.ok(verb(rota.VerbFail, l))
		b.refuses(rota.KindNotFound, "lease", KeepLogOp("j", l.ID, "thief", []byte("mine")))
		b.keeps(l, "")
	})
	run("too_much_of_it_is_refused", func(b *bench) {
		l := b.leased("j", "w")
		long := string(make([]byte, limits.MaxLogPacked+1))
		b.refuses(rota.KindInvalid, "log", verb(rota.VerbComplete, l, bringing(long)))
		b.refuses(rota.KindInvalid, "log", verb(rota.VerbRenew, l, bringing("early")))
		b.refuses(rota.KindInvalid, "log", KeepLogOp("j", l.ID, "w", []byte(long)))
		b.refuses(rota.KindInvalid, "log", KeepLogOp("j", l.ID, "w", nil))
		b.keeps(l, "")
		b.ok(verb(rota.VerbComplete, l, bringing(long[1:])))
		b.keeps(l, long[1:])
	})
	run("what_expired_gets_it_from_its_node_once", func(b *bench) {
		l := b.leased("j", "w")
		b.refuses(rota.KindConflict, "lease", KeepLogOp("j", l.ID, "w", []byte("early")))
		b.ok(verb(rota.VerbAck, l))
		b.pass(70_000)
		if a := b.state("j", rota.JobQueued).Attempts; len(a) != 1 || a[0].Log {
			b.t.Fatalf("%+v", a)
		}
		frozen := b.View.m.JobTable.Freeze()
		if o := b.ok(KeepLogOp("j", l.ID, "w", []byte("late"))); o.GetExisted() {
			b.t.Fatal("it already existed")
		}
		if o := b.ok(KeepLogOp("j", l.ID, "w", []byte("later"))); !o.GetExisted() {
			b.t.Fatal("it did not exist")
		}
		b.keeps(l, "late")
		if old, _ := frozen.Get("j"); old.Attempts[0].Log || !b.state("j", rota.JobQueued).Attempts[0].Log {
			b.t.Fatal("a frozen row has changed with it, or the row has not")
		}
	})
	run("what_expired_for_good_too", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "1"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.pass(70_000)
		b.state("j", rota.JobDead)
		b.refuses(rota.KindNotFound, "lease", KeepLogOp("j", rota.LeaseID{1}, "w", []byte("late")))
		b.ok(KeepLogOp("j", l.ID, "w", []byte("late")))
		b.keeps(l, "late")
		if o := b.ok(KeepLogOp("j", l.ID, "w", []byte("later"))); !o.GetExisted() {
			b.t.Fatal("it did not exist")
		}
		b.keeps(l, "late")
	})
}

// TestLogs_ofEarlierAttempts checks a node that was cut off and provides its part of an attempt after a later one ended
// the job: it is kept once, for attempts that no verb of their worker ended, whichever caller then retries.
func TestLogs_ofEarlierAttempts(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "3"))
	first := b.leased("j", "w")
	b.ok(verb(rota.VerbAck, first))
	b.pass(70_000) // it expires, and its worker's node is unreachable
	second := b.match()["j"]
	b.ok(verb(rota.VerbFail, second)) // it logged nothing
	b.pass(700_000)
	third := b.match()["j"]
	b.ok(verb(rota.VerbFail, third, bringing("third")))
	b.state("j", rota.JobDead)

	b.refuses(rota.KindNotFound, "lease", KeepLogOp("j", first.ID, "thief", []byte("mine")))
	b.refuses(rota.KindNotFound, "lease", KeepLogOp("j", second.ID, "w", []byte("late")))
	b.refuses(rota.KindInvalid, "log", KeepLogOp("j", first.ID, "w", nil))
	if o := b.ok(KeepLogOp("j", first.ID, "w", []byte("first"))); o.GetExisted() {
		t.Fatal("it already existed")
	}
	b.existed(KeepLogOp("j", first.ID, "w", []byte("another")))
	b.existed(KeepLogOp("j", third.ID, "w", []byte("another")))
	b.keeps(first, "first")
	b.keeps(third, "third")
	if m := b.restored(); m.View.Digest() != b.View.Digest() || !m.ended.tombs.Get("j").HasLog(first.ID) {
		t.Fatal("after a snapshot and back the log may be kept twice")
	}

	spec, past := b.pastOf("j")
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: "j", Spec: spec, Past: past}}})
	a := b.state("j", rota.JobQueued).Attempts
	if len(a) != 3 || !a[0].Log || a[1].Log || !a[2].Log {
		t.Fatalf("%+v", a)
	}
	b.existed(KeepLogOp("j", first.ID, "w", []byte("again")))
	b.sound()
}

// TestLogs_ofNodesThatRunAgain checks that a late log of a node's attempt is kept once, in whichever run of the
// workflow it comes, and however long ago the job ended.
func TestLogs_ofNodesThatRunAgain(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		b := newBench(t)
		b.worker("w", 1)
		d := newDAG("f", [][]uint32{nil})
		b.run(d)
		id := rota.NodeJobID(d.ID, "n0")
		first := b.match()[id]
		b.ok(verb(rota.VerbAck, first))
		b.pass(70_000) // it expires
		b.match()
		b.ends(rota.VerbFail, d, "n0")
		late := KeepLogOp(id, first.ID, "w", []byte("late"))
		if o := b.ok(late); o.GetExisted() {
			t.Fatal("it already existed")
		}
		if forgotten {
			b.ended.evictTombs(0)
			b.twin.ended.evictTombs(0)
		}
		b.ok(entry.RetryWorkflowOp("f", "", 1))
		b.pass(1_000)
		if a := b.state(string(id), rota.JobQueued).Attempts; len(a) != 2 || !a[0].Log || a[1].Log {
			t.Fatalf("%+v", a)
		}
		b.existed(late)
		b.sound()
	}
}

// TestLogs_theDigestDoesNotKnowThem applies the same to two machines except for the content of a log.
func TestLogs_theDigestDoesNotKnowThem(t *testing.T) {
	t.Parallel()
	var digests []rota.Digest
	for _, log := range []string{"one", "another", string(bytes.Repeat([]byte("long"), 1000))} {
		b := newBench(t)
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbFail, l, bringing(log)))
		b.keeps(l, log)
		if m := b.restored(); m.View.Digest() != b.View.Digest() {
			t.Fatal("the state differs after a snapshot and back")
		} else if got, ok := keptLog(m, l.ID); !ok || got != log {
			t.Fatalf("after a snapshot and back the log is %q", got)
		}
		digests = append(digests, b.View.Digest())
	}
	if digests[0] != digests[1] || digests[0] != digests[2] {
		t.Fatalf("%v", digests)
	}
}

// TestLogs_readBack reads a log's record like an archive, and truncates it at every byte.
func TestLogs_readBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbFail, l, bringing("said")))
	staged := b.View.Staged(1, 1)[0]
	data := staged.Append(nil)
	e, err := DecodeEnded(data)
	if err != nil || e.Job.ID != peer.LogID(l.ID) || !peer.IsLog(e.Job.ID) || string(e.Job.Output) != "said" ||
		e.Seq != staged.Seq || e.Job.Attempt != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	for n := range data {
		if _, err := DecodeEnded(data[:n]); err == nil {
			t.Fatalf("%d bytes of %d are accepted", n, len(data))
		}
	}
	if mark, _ := staged.Mark(); mark.ID != peer.LogID(l.ID) || peer.IsLog("zz:z/z@+") ||
		rota.ValidID(string(peer.LogID(l.ID))) {
		t.Fatalf("%+v", mark)
	}
}
