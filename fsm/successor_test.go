package fsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// secondRules is newBench under rules version 2.
func secondRules(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ok(switchOp(2))
	return b
}

// became checks that a submission is merged into a job, and how its payload was merged.
func (b *bench) became(into string, merge rota.Merge, op *fsmpb.Op) rota.Event {
	b.t.Helper()
	a := b.entry(op)
	o := a.Outcomes[0]
	if entry.OutcomeError(o) != nil || o.GetHolder() != into || rota.Merge(o.GetMerge()) != merge {
		b.t.Fatalf("%v: got %v, want %s into %s", op, o, merge, into)
	}
	if again := b.ok(op); rota.Merge(again.GetMerge()) != merge || again.GetHolder() != into {
		b.t.Fatalf("its repetition was answered %v, first %v", again, o)
	}
	return a.Events[0]
}

// TestUnique_mergeIsTold checks that the answer, the event and the answer of a repetition report whether the payload
// was accepted, and why not.
func TestUnique_mergeIsTold(t *testing.T) {
	t.Parallel()
	for _, how := range []string{rota.UniqueReplace, rota.UniqueExtend} {
		b := secondRules(t)
		u := rota.Unique{OnConflict: how, Scope: []string{"PENDING", "RUNNING", "COMPLETED"}, Keep: time.Hour}
		b.ok(queueOp("other"))
		b.ok(onlyOne("a", u, paying("1")))
		e := b.became("a", rota.MergeTaken, onlyOne("b", u, paying("2")))
		if want := fmt.Sprintf(`{"merged":"b","on_conflict":%q,"merge":"TAKEN"}`, how); e.Payload != want {
			t.Errorf("event %s, want %s", e.Payload, want)
		}
		b.became("a", rota.MergeOtherType, onlyOne("c", u, typed("else")))
		b.became("a", rota.MergeOtherQueue, onlyOne("d", u, queue("other")))
		b.became("a", rota.MergeNone, onlyOne("e", rota.Unique{OnConflict: rota.UniqueExisting}))
		b.worker("w", 1)
		l := b.match()["a"]
		e = b.became("a", rota.MergeHolderLeased, onlyOne("f", u, paying("3")))
		if !strings.Contains(e.Payload, `"merge":"HOLDER_LEASED"`) {
			t.Errorf("event %s", e.Payload)
		}
		b.ok(verb(rota.VerbComplete, l))
		b.became("a", rota.MergeHolderEnded, onlyOne("g", u, paying("4")))
		if job, _ := b.View.Job("a"); string(job.Payload) != "2" && len(job.Payload) > 0 {
			t.Errorf("the holder has payload %q", job.Payload)
		}
		b.sound()
	}
}

// TestUnique_after checks that while the holder runs, one job follows it with the newest payload, however many are
// submitted.
func TestUnique_after(t *testing.T) {
	t.Parallel()
	b := secondRules(t)
	b.watchMoves()
	after := rota.Unique{OnConflict: rota.UniqueAfter}
	b.worker("w", 5)
	b.ok(onlyOne("a", after, paying("1")))
	b.became("a", rota.MergeTaken, onlyOne("b", after, paying("2"))) // it still waits
	l := b.match()["a"]
	if o := b.ok(onlyOne("c", after, paying("3"))); o.GetExisted() || o.GetHolder() != "" ||
		rota.JobState(o.GetJobState()) != rota.JobBlocked {
		t.Fatalf("the successor: %v", o)
	}
	if o := b.ok(onlyOne("c", after, paying("3"))); !o.GetExisted() {
		t.Fatalf("its repetition: %v", o)
	}
	for i := range 3 {
		b.became("c", rota.MergeTaken, onlyOne(fmt.Sprint("d", i), after, paying(fmt.Sprint("new", i))))
	}
	b.became("c", rota.MergeOtherType, onlyOne("e", after, typed("else")))
	x, why := b.whyOf("c")
	if why != "WAITING_FOR_HOLDER:0" || !strings.Contains(x.Reasons[0].Detail, "job a (") {
		t.Errorf("why: %s %+v", why, x.Reasons)
	}
	if got := b.match(); len(got) != 0 {
		t.Fatalf("placed %v while the holder runs", got)
	}
	b.ok(verb(rota.VerbComplete, l))
	b.state("c", rota.JobQueued)
	next, ok := b.match()["c"]
	if job := b.state("c", rota.JobAssigned); !ok || string(job.Payload) != "new2" || job.UniqueHolder != "c" {
		t.Fatalf("the successor runs as %+v", job)
	}
	b.ok(onlyOne("f", after, paying("5")))
	b.ok(cancelOp("f")) // a successor that ends makes room for another one
	b.ok(onlyOne("g", after, paying("6")))
	b.ok(verb(rota.VerbFail, next))
	b.state("g", rota.JobBlocked) // the holder tries again
	b.became("g", rota.MergeTaken, onlyOne("h", after, paying("7")))
	b.ok(cancelOp("c"))
	b.state("g", rota.JobQueued)
	b.ok(cancelOp("g"))
	b.freed("x", rota.Unique{})
	b.sound()
}

// TestUnique_afterCompleted checks that if a completed holder keeps its key, the successor starts when that is over.
func TestUnique_afterCompleted(t *testing.T) {
	t.Parallel()
	b := secondRules(t)
	b.walls = []int64{startClock, startClock, startClock}
	u := rota.Unique{OnConflict: rota.UniqueAfter, Scope: []string{"PENDING", "RUNNING", "COMPLETED"},
		Keep: 5 * time.Second}
	b.ok(verb(rota.VerbComplete, func() rota.Lease {
		b.worker("w", 1)
		b.ok(onlyOne("a", u))
		return b.match()["a"]
	}()))
	b.ok(onlyOne("b", u, paying("2")))
	b.ok(onlyOne("c", rota.Unique{OnConflict: rota.UniqueExisting}))
	b.state("b", rota.JobBlocked)
	for range 4 {
		b.walls = []int64{b.walls[0] + 2_000, b.walls[0] + 2_000, b.walls[0] + 2_000}
		b.pass(2_000)
	}
	b.state("b", rota.JobQueued)
	b.sound()
}

// TestUnique_collect checks that payloads are delivered as one list, in order, and none is lost: while the holder runs,
// or its list is full, they go to one successor, and are refused beyond that.
func TestUnique_collect(t *testing.T) {
	t.Parallel()
	b := secondRules(t)
	b.watchMoves()
	b.ok(queueOp("default", "payload_max_bytes", "40"))
	collect := rota.Unique{OnConflict: rota.UniqueCollect}
	delayed := func(s *rota.JobSpec) { s.Delay = 2 * time.Second }
	b.refuses(rota.KindInvalid, "payload", onlyOne("x", collect, paying("1,2")))
	b.refuses(rota.KindInvalid, "payload", onlyOne("x", collect, paying("")))
	b.refuses(rota.KindInvalid, "payload", onlyOne("x", collect, paying(`"`+strings.Repeat("x", 37)+`"`)))
	b.refuses(rota.KindInvalid, "unique", onlyOne("x", rota.Unique{OnConflict: rota.UniqueCollect,
		By: []string{"args"}}))
	b.refuses(rota.KindInvalid, "unique", onlyOne("x", rota.Unique{OnConflict: rota.UniqueAfter,
		Scope: []string{"RUNNING"}}))
	first := onlyOne("a", collect, paying(`{"n":1}`), delayed)
	b.ok(first)
	b.existed(first) // identified by the submission, not by the list made from it
	due := b.JobTable.Get("a").Due
	b.now += 1_000
	b.became("a", rota.MergeTaken, onlyOne("b", collect, paying(`"two"`), delayed))
	if later := b.JobTable.Get("a").Due; later != due+1_000 {
		t.Errorf("its delay ends at %d, not 1 s after %d", later, due)
	}
	b.became("a", rota.MergeTaken, onlyOne("c", collect, paying(" 3 "), delayed))
	if job := b.state("a", rota.JobDelayed); string(job.Payload) != `[{"n":1},"two", 3 ]` {
		t.Fatalf("payload %s", job.Payload)
	}
	b.refuses(rota.KindConflict, "payload", b.changeOf(rota.JobChange{ID: "a", Payload: blobOf("9")}))
	b.ok(onlyOne("full", collect, paying(`"0123456789012345678901"`), delayed))
	b.state("full", rota.JobBlocked)
	b.became("full", rota.MergeTaken, onlyOne("d", collect, paying("4"), delayed))
	o := b.refuses(rota.KindExhausted, "unique", onlyOne("e", collect, paying(`"0123456789012345678901"`), delayed))
	if !strings.Contains(o.GetText(), "LIST_FULL") {
		t.Errorf("refused as %q", o.GetText())
	}
	b.worker("w", 1)
	b.pass(2_000)
	l, ok := b.match()["a"]
	if !ok {
		t.Fatal("the list was not placed")
	}
	b.ok(verb(rota.VerbComplete, l))
	b.state("full", rota.JobDelayed) // its delay begins when its turn comes
	b.became("full", rota.MergeTaken, onlyOne("r", rota.Unique{OnConflict: rota.UniqueReplace}, paying("5")))
	if job := b.state("full", rota.JobDelayed); string(job.Payload) != "[5]" {
		t.Fatalf("payload %s", job.Payload)
	}
	// A payload that is not JSON, or too long within brackets, is not put into a list, whichever merge its submission
	// requests.
	for payload, merge := range map[string]rota.Merge{"no json": rota.MergeNotJSON,
		`"` + strings.Repeat("x", 37) + `"`: rota.MergeListFull} {
		for _, how := range []string{rota.UniqueReplace, rota.UniqueExtend} {
			b.became("full", merge, onlyOne("r-"+how+string(merge), rota.Unique{OnConflict: how}, paying(payload)))
		}
	}
	b.ok(onlyOne("behind", rota.Unique{OnConflict: rota.UniqueAfter}, paying("no json")))
	b.state("behind", rota.JobBlocked)
	b.ok(cancelOp("full"))
	b.ok(cancelOp("behind"))
	b.ok(retryOp("full"))
	b.sound()
}

// TestUnique_newWays checks that version 1 refuses the merges that came with rules version 2.
func TestUnique_newWays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, how := range []string{rota.UniqueAfter, rota.UniqueCollect} {
		b.refuses(rota.KindConflict, SubjectRules, onlyOne("a", rota.Unique{OnConflict: how}))
	}
}

func blobOf(text string) *rota.Blob {
	b := rota.Blob(text)
	return &b
}
