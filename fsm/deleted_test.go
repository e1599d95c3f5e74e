package fsm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// deleteOf deletes a job by the number of its end in the state.
func (b *bench) deleteOf(id string) *fsmpb.Op {
	seq, _, _ := b.View.Tombstone(rota.JobID(id))
	return DeleteJobOp(rota.JobID(id), seq)
}

// TestDelete checks deletions of ended jobs against SPEC §21.3.
func TestDelete(t *testing.T) {
	t.Parallel()
	t.Run("frees_the_id", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		op := b.deleteOf("j")
		a := b.entry(op)
		if o := a.Outcomes[0]; entry.OutcomeError(o) != nil || o.GetJobState() != uint32(rota.JobCancelled) ||
			len(a.Events) != 1 ||
			a.Events[0].Kind != rota.EventJobDeleted || a.Events[0].Job != "j" || a.Events[0].Queue != "default" {
			t.Fatalf("%v, %+v", o, a.Events)
		}
		if job, ok := b.View.Job("j"); ok {
			t.Fatalf("%+v", job)
		}
		if s, ok := b.View.StagedJob("j"); ok || !b.View.Deleted(1) || b.View.DeletedStaged("j") != 1 {
			t.Fatalf("%+v", s)
		}
		b.refuses(rota.KindNotFound, "job", retryOp("j"))
		b.refuses(rota.KindNotFound, "job", b.deleteOf("j"))
		if again := b.entry(op); !again.Outcomes[0].GetExisted() || len(again.Events) != 0 {
			t.Fatalf("%+v", again)
		}
		b.submit("j", func(s *rota.JobSpec) { s.Type = "else" }) // another job
		if o := b.ok(op); !o.GetExisted() {                      // its end is another one
			t.Fatalf("%v", o)
		}
		b.state("j", rota.JobQueued)
		b.refuses(rota.KindConflict, "job", b.deleteOf("j"))
		b.ok(cancelOp("j"))
		b.refuses(rota.KindConflict, "seq", DeleteJobOp("j", 0))
		page, err := b.View.Jobs().Page(rota.JobFilter{}, history{})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Type != "else" {
			t.Fatalf("%+v, %v", page, err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindNotFound, "job", DeleteJobOp("nobody", 0))
		b.refuses(rota.KindInvalid, "seq", DeleteJobOp("nobody", 1))
		l := b.leased("j", "w")
		o := b.refuses(rota.KindConflict, "job", b.deleteOf("j"))
		if o.GetJobState() != uint32(rota.JobAssigned) || !strings.Contains(o.GetText(), "cancel it first") {
			t.Fatalf("%v", o)
		}
		b.ok(cancelOp("j"))
		b.refuses(rota.KindConflict, "job", b.deleteOf("j")) // w may work on it
		b.refuses(rota.KindInvalid, "seq", DeleteJobOp("other", 1))
		b.pass(state.LeaseDue(&state.LeaseRow{Lease: l}, b.fleet.workers.Get("w")) - b.now + 1)
		b.pass(rota.Clock(b.ended.tombs.Get("j").FreeAt - b.now))
		b.ok(b.deleteOf("j"))
		d := diamond("wf")
		b.upload(d)
		b.ok(d.commit())
		b.ok(cancelOp("wf/n0"))
		b.refuses(rota.KindConflict, "job", b.deleteOf("wf/n0"))
	})
	t.Run("hides_earlier_lives", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		b.ok(cancelOp("j"))
		b.ok(b.deleteOf("j"))
		if s, ok := b.View.StagedJob("j"); ok {
			t.Fatalf("end %d is shown of a job whose end 2 was deleted", s.Seq)
		}
	})
	t.Run("what_archives_alone_know", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		flushAll(b.Machine)
		flushAll(b.twin)
		mark := history{{Seq: 1, Job: b.state("j", rota.JobCancelled)}}
		b.ended.dropTomb("j", 1)
		b.twin.ended.dropTomb("j", 1)
		if page, err := b.View.Jobs().Page(rota.JobFilter{}, mark); err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		b.ok(DeleteJobOp("j", 1))
		if page, err := b.View.Jobs().Page(rota.JobFilter{}, mark); err != nil || len(page.Jobs) != 0 {
			t.Fatalf("%+v, %v", page, err)
		}
	})
}

// TestDelete_ranges deletes and drops numbers in random order, and compares the ranges with a plain set.
func TestDelete_ranges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 60
	for i := range n {
		b.submit(fmt.Sprint("j", i))
		b.ok(cancelOp(fmt.Sprint("j", i)))
	}
	deleted := make(map[uint64]bool)
	for k, i := range rand.New(rand.NewPCG(3, 4)).Perm(n) {
		b.ok(b.deleteOf(fmt.Sprint("j", i)))
		deleted[uint64(i+1)] = true
		ranges := 0
		for seq := range uint64(n + 2) {
			if b.View.Deleted(seq) != deleted[seq] {
				t.Fatalf("number %d is deleted: %v", seq, b.View.Deleted(seq))
			}
			if deleted[seq] && !deleted[seq-1] {
				ranges++
			}
		}
		if b.ended.deleted.Len() != ranges {
			t.Fatalf("%d ranges are kept of %d", b.ended.deleted.Len(), ranges)
		}
		if k == n/2 { // the part that retention has removed everywhere
			through := b.View.FirstDeleted()
			b.ok(&fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: through}}})
			for seq := range through + 1 {
				delete(deleted, seq)
			}
		}
	}
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: n}}})
	if b.View.FirstDeleted() != 0 || b.View.DeletedStaged("j59") != 0 {
		t.Fatal("ranges that retention passed are kept")
	}
}

// TestDelete_atTheBound has the maximum number of ranges: a number that touches a range is still accepted.
func TestDelete_atTheBound(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	b.submit("j")
	b.ok(cancelOp("j"))
	for i := range uint64(limits.MaxDeletedRanges) {
		b.ended.deleted.Load(state.DeletedKey(2*i+3), &state.DeletedRow{From: 2*i + 3, To: 2*i + 3})
	}
	if err := entry.OutcomeError(b.ended.deleteJob(b.deleteOf("j").GetDeleteJob())); err == nil ||
		err.Kind != rota.KindExhausted {
		t.Fatal(err)
	}
	b.state("j", rota.JobCancelled)
	b.ended.deleted.Drop(state.DeletedKey(3))
	b.ended.deleted.Load(state.DeletedKey(2), &state.DeletedRow{From: 2, To: 2})
	if err := entry.OutcomeError(b.ended.deleteJob(b.deleteOf("j").GetDeleteJob())); err != nil ||
		b.ended.deleted.Len() != limits.MaxDeletedRanges {
		t.Fatal(err)
	}
}
