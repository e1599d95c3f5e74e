package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// onlyOne returns a job with a unique key.
func onlyOne(id string, u rota.Unique, change ...func(*rota.JobSpec)) *fsmpb.Op {
	if u.Key == "" && len(u.By) == 0 {
		u.Key = "k"
	}
	return submitOp(jobSpec(id, append(change, func(s *rota.JobSpec) { s.Unique = &u })...))
}

func paying(text string) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Payload = rota.Blob(text) }
}

// merges applies a submission that must be merged into a job, and returns the events of the entry.
func (b *bench) merges(holder string, op *fsmpb.Op) []rota.Event {
	b.t.Helper()
	a := b.entry(op)
	if o := a.Outcomes[0]; entry.OutcomeError(o) != nil || !o.GetExisted() || o.GetHolder() != holder {
		b.t.Fatalf("%v: got %v, want merged into %s", op, o, holder)
	}
	if len(a.Events) == 0 || a.Events[0].Kind != rota.EventJobMerged || a.Events[0].Job != rota.JobID(holder) {
		b.t.Fatalf("%+v", a.Events)
	}
	return a.Events
}

// freed reports whether no job holds a key: a submission with it is accepted, and cancelled again.
func (b *bench) freed(id string, u rota.Unique) {
	b.t.Helper()
	if o := b.ok(onlyOne(id, u)); o.GetExisted() {
		b.t.Fatalf("%v", o)
	}
	b.ok(cancelOp(id))
}

func TestUnique_conflicts(t *testing.T) {
	t.Parallel()
	t.Run("refuse_names_the_holder", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(onlyOne("a", rota.Unique{}))
		before := b.QueueTable.Get("default").Submitted
		o := b.refuses(rota.KindConflict, "unique", onlyOne("b", rota.Unique{}))
		if !strings.Contains(o.GetText(), "job a ") || o.GetHolder() != "a" ||
			rota.JobState(o.GetJobState()) != rota.JobQueued {
			t.Fatalf("%v", o)
		}
		if o := b.ok(onlyOne("a", rota.Unique{})); !o.GetExisted() || o.GetHolder() != "" { // the same submission
			t.Fatalf("%v", o)
		}
		b.ok(onlyOne("c", rota.Unique{Key: "other"}))
		b.ok(onlyOne("d", rota.Unique{}, func(s *rota.JobSpec) { s.Tenant = "other" }))
		b.ok(onlyOne("e", rota.Unique{Key: "k", Period: time.Second}))
		if b.QueueTable.Get("default").Submitted != before+3 {
			t.Fatal("a refused job was counted")
		}
	})
	t.Run("existing_answers_and_is_remembered", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		existing := rota.Unique{OnConflict: rota.UniqueExisting}
		b.ok(onlyOne("a", existing, paying("1")))
		events := b.merges("a", onlyOne("b", existing, paying("2")))
		if len(events) != 1 || events[0].Payload != `{"merged":"b","on_conflict":"existing"}` ||
			events[0].Queue != "default" {
			t.Fatalf("%+v", events)
		}
		if job := b.state("a", rota.JobQueued); string(job.Payload) != "1" {
			t.Fatalf("%q", job.Payload)
		}
		b.ok(cancelOp("a"))
		again := b.entry(onlyOne("b", existing, paying("2"))) // the first answer was lost
		if o := again.Outcomes[0]; !o.GetExisted() || o.GetHolder() != "a" ||
			rota.JobState(o.GetJobState()) != rota.JobCancelled || len(again.Events) != 0 {
			t.Fatalf("%v", again)
		}
		b.refuses(rota.KindConflict, "id", onlyOne("b", existing, paying("3")))
		b.refuses(rota.KindConflict, "id", submitOp(jobSpec("b")))
		if _, ok := b.View.Job("b"); ok {
			t.Fatal("a merged submission became a job")
		}
	})
	t.Run("replace_keeps_place_and_id", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		replace := rota.Unique{OnConflict: rota.UniqueReplace}
		b.ok(onlyOne("a", replace, paying("1")))
		was := b.state("a", rota.JobQueued)
		for i := range 5 {
			b.merges("a", onlyOne(fmt.Sprint("b", i), replace, paying(fmt.Sprint("new", i))))
		}
		now := b.state("a", rota.JobQueued)
		if string(now.Payload) != "new4" || now.Changes != 5 || now.Enqueued != was.Enqueued {
			t.Fatalf("%+v", now)
		}
		if o := b.ok(onlyOne("a", replace, paying("1"))); !o.GetExisted() { // its hash stays
			t.Fatalf("%v", o)
		}
		b.merges("a", onlyOne("typed", replace, func(s *rota.JobSpec) { s.Type = "else" },
			paying("for another handler")))
		b.worker("w", 1)
		l := b.match()["a"]
		b.merges("a", onlyOne("late", replace, paying("too late")))
		if job := b.state("a", rota.JobAssigned); string(job.Payload) != "new4" {
			t.Fatalf("%q", job.Payload)
		}
		b.ok(verb(rota.VerbComplete, l))
		b.ok(onlyOne("next", replace))
	})
	t.Run("refusals_before_it", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(onlyOne("a", rota.Unique{OnConflict: rota.UniqueExisting}))
		b.refuses(rota.KindNotFound, "queue", onlyOne("b", rota.Unique{},
			func(s *rota.JobSpec) { s.Queue = "nowhere" }))
		b.refuses(rota.KindInvalid, "priority", onlyOne("b", rota.Unique{}, func(s *rota.JobSpec) { s.Priority = 11 }))
		b.ok(queueOp("default", "queue_cap", "1")) // full, but a merged job needs no place
		full := onlyOne("b", rota.Unique{OnConflict: rota.UniqueExisting})
		if o := b.View.QueueFull(full.GetSubmit()); o != nil {
			t.Fatalf("%v", o)
		}
		b.merges("a", full)
		b.refuses(rota.KindExhausted, "queue", onlyOne("c", rota.Unique{Key: "other"}))
	})
}

// TestUnique_debounce makes a job wait while submissions come, and run in the end.
func TestUnique_debounce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	extend := rota.Unique{OnConflict: rota.UniqueExtend, ExtendMax: 10 * time.Second}
	delayed := func(s *rota.JobSpec) { s.Delay = 3 * time.Second }
	b.ok(onlyOne("a", extend, delayed, paying("0")))
	began := b.now
	for i := range 4 { // every 2 s, each of which restarts 3 s
		b.pass(2_000)
		events := b.merges("a", onlyOne(fmt.Sprint("b", i), extend, delayed, paying(fmt.Sprint(i))))
		due := min(b.now+3_000, began+10_000)
		job := b.state("a", rota.JobDelayed)
		if job.Due.Clock != due || string(job.Payload) != fmt.Sprint(i) {
			t.Fatalf("merged %d: due %d, want %d; %q", i, job.Due.Clock, due, job.Payload)
		}
		if len(events) != 2 || events[1].Kind != rota.EventJobDelayed {
			t.Fatalf("%+v", events)
		}
		if len(b.match()) != 0 {
			t.Fatal("it ran before its delay was over")
		}
	}
	b.pass(began + 10_000 - b.now)
	b.merges("a", onlyOne("queued", extend, delayed, paying("last"))) // QUEUED: only the payload
	l, ok := b.match()["a"]
	if !ok || string(b.state("a", rota.JobAssigned).Payload) != "last" {
		t.Fatal("it did not run at last")
	}
	b.ok(verb(rota.VerbFail, l))
	due := b.state("a", rota.JobDelayed).Due
	b.merges("a", onlyOne("again", extend, delayed, paying("retried"))) // leased before: its backoff stays
	if job := b.state("a", rota.JobDelayed); job.Due != due || string(job.Payload) != "retried" {
		t.Fatalf("%+v", job)
	}
}

// TestUnique_extendADatedJob checks that a job that waits for its date waits for its delay again, then for the date.
func TestUnique_extendADatedJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	extend := rota.Unique{OnConflict: rota.UniqueExtend}
	dated := func(s *rota.JobSpec) {
		s.Delay, s.NotBefore = time.Second, rota.Date(b.Header.Date()+3_000).Time()
	}
	b.ok(onlyOne("a", extend, dated))
	b.pass(2_500)
	if job := b.state("a", rota.JobDelayed); b.JobTable.Get("a").DueDate == 0 {
		t.Fatalf("%+v", job)
	}
	b.merges("a", onlyOne("b", extend, dated))
	b.state("a", rota.JobDelayed)
	if j := b.JobTable.Get("a"); j.Due != b.now+1_000 || j.DueDate != 0 {
		t.Fatalf("%d, %d", j.Due-b.now, j.DueDate)
	}
	b.pass(1_000)
	b.state("a", rota.JobQueued)
}

// TestUnique_bucketEdge checks that a key holds within the bucket in which the job is to run, to the millisecond.
func TestUnique_bucketEdge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hourly := rota.Unique{Period: time.Hour}
	at := func(date rota.Date) func(*rota.JobSpec) {
		return func(s *rota.JobSpec) { s.NotBefore = date.Time() }
	}
	edge := (b.Header.Date()/3_600_000 + 2) * 3_600_000
	b.ok(onlyOne("last", hourly, at(edge-1)))
	b.refuses(rota.KindConflict, "unique", onlyOne("x", hourly, at(edge-3_600_000)))
	b.ok(onlyOne("first", hourly, at(edge)))
	b.refuses(rota.KindConflict, "unique", onlyOne("x", hourly, at(edge+3_599_999)))
	b.ok(onlyOne("next", hourly, at(edge+3_600_000)))
	b.ok(onlyOne("before", hourly, at(edge-3_600_001)))
	b.refuses(rota.KindConflict, "unique", onlyOne("x", hourly, func(s *rota.JobSpec) {
		s.Delay = time.Duration(edge-b.Header.Date()) * time.Millisecond // the later of the two
	}))
}

func TestUnique_scopes(t *testing.T) {
	t.Parallel()
	t.Run("every_end_frees", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "attempt_max", "1"))
		b.worker("w", 1)
		taken := func() rota.Lease {
			b.ok(onlyOne("j", rota.Unique{}))
			l := b.match()["j"]
			b.refuses(rota.KindConflict, "unique", onlyOne("x", rota.Unique{}))
			b.ok(verb(rota.VerbAck, l))
			b.refuses(rota.KindConflict, "unique", onlyOne("x", rota.Unique{}))
			return l
		}
		for i, end := range []func(){
			func() { b.ok(verb(rota.VerbComplete, taken())) },
			func() { b.ok(verb(rota.VerbFail, taken())) }, // DEAD
			func() { taken(); b.ok(cancelOp("j")); b.pass(120_000) },
			func() { taken(); b.pass(400_000) }, // the lease expires
			func() {
				b.ok(onlyOne("j", rota.Unique{}, func(s *rota.JobSpec) { s.TTL = time.Second }))
				b.pass(1_000)
			},
		} {
			end()
			b.freed(fmt.Sprint("free", i), rota.Unique{})
			b.ok(b.deleteOf("j"))
			b.worker(fmt.Sprint("w", i), 1)
		}
	})
	t.Run("leaves_and_comes_back", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		pending := rota.Unique{Scope: []string{rota.UniquePending}}
		b.worker("w", 1)
		b.ok(onlyOne("a", pending))
		l := b.match()["a"]
		b.ok(onlyOne("b", pending)) // a runs: the key is free
		b.ok(verb(rota.VerbFail, l))
		b.state("a", rota.JobDelayed) // it continues without: b holds the key
		if got := b.state("a", rota.JobDelayed).UniqueHolder; got != "b" {
			t.Fatal(got)
		}
		b.ok(cancelOp("b"))
		b.freed("c", pending) // a does not take it while it waits
		b.pass(100_000)
		l = b.match()["a"]
		b.ok(verb(rota.VerbFail, l))
		b.refuses(rota.KindConflict, "unique", onlyOne("d", pending)) // it came back, and took the key
		b.ok(b.changeOf(rota.JobChange{ID: "a", Payload: new(rota.Blob)}))
		b.refuses(rota.KindConflict, "unique", onlyOne("d", pending))
	})
	t.Run("completed_is_kept_for_a_date", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		kept := rota.Unique{Scope: []string{rota.UniquePending, rota.UniqueRunning, rota.UniqueCompleted},
			Keep: time.Hour, OnConflict: rota.UniqueExisting}
		b.ok(queueOp("default", "audit_window", "0", "gc_horizon", "1m"))
		b.worker("w", 1)
		b.ok(onlyOne("a", kept))
		b.ok(verb(rota.VerbComplete, b.match()["a"]))
		until := b.Header.Date() + 3_600_000
		if next, ok := b.View.NextDate(); !ok || next != until {
			t.Fatalf("a cluster at rest wakes at %d (%v), the key is free at %d", next, ok, until)
		}
		b.date(until - 1)
		b.merges("a", onlyOne("b", kept)) // it is remembered as long as it holds its key
		if job, ok := b.View.Job("a"); !ok || job.State != rota.JobCompleted {
			t.Fatalf("%+v", job)
		}
		b.date(until)
		if _, ok := b.View.NextDate(); ok {
			t.Fatal("a date is still due")
		}
		b.ok(onlyOne("c", kept))
		b.state("c", rota.JobQueued)
	})
	t.Run("deletion_frees", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		kept := rota.Unique{Scope: []string{rota.UniqueCompleted}, Keep: time.Hour}
		b.worker("w", 2)
		b.ok(onlyOne("a", kept))
		b.ok(onlyOne("b", kept)) // neither is in the scope
		leases := b.match()
		b.ok(verb(rota.VerbComplete, leases["a"]))
		b.ok(verb(rota.VerbComplete, leases["b"])) // without
		b.refuses(rota.KindConflict, "unique", onlyOne("c", kept))
		b.ok(b.deleteOf("b"))
		b.refuses(rota.KindConflict, "unique", onlyOne("c", kept))
		b.ok(b.deleteOf("a"))
		b.freed("c", kept)
	})
}

// TestUnique_retry checks that a retry recalculates the key, and that a key of another job is refused.
func TestUnique_retry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hourly := rota.Unique{Period: time.Hour}
	b.ok(onlyOne("a", hourly))
	b.ok(cancelOp("a"))
	b.ok(onlyOne("b", hourly))
	o := b.refuses(rota.KindConflict, "unique", retryOp("a"))
	if !strings.Contains(o.GetText(), "job b ") {
		t.Fatalf("%v", o)
	}
	b.date(b.Header.Date() + 3_600_000) // another bucket
	b.ok(retryOp("a"))
	b.refuses(rota.KindConflict, "unique", onlyOne("c", hourly))
	if o := b.ok(retryOp("a")); !o.GetExisted() {
		t.Fatalf("%v", o)
	}
}

// TestUnique_rerun checks that a revoked completion holds the key again, or takes it if it is free.
func TestUnique_rerun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unique rota.Unique
		other  bool
		want   rota.JobID
	}{
		"was_kept": {rota.Unique{Key: "k", Scope: []string{rota.UniquePending, rota.UniqueRunning,
			rota.UniqueCompleted}, Keep: time.Hour}, false, "j"}, "is_free": {rota.Unique{Key: "k"}, false, "j"},
		"is_anothe": {rota.Unique{Key: "k"}, true, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			l := b.completed("j", "w", func(s *rota.JobSpec) { s.Unique, s.RetryOnInvalidProof = &c.unique, true })
			if c.other {
				b.ok(onlyOne("other", rota.Unique{}))
			}
			b.ok(reportOp(l))
			b.state("j", rota.JobDelayed)
			o := b.refuses(rota.KindConflict, "unique", onlyOne("x", rota.Unique{}))
			if rota.JobID(o.GetHolder()) != c.want {
				t.Fatalf("%v", o)
			}
			b.ok(cancelOp("j"))
		})
	}
}

// TestUnique_secrets checks that the holder is only named to callers that may read it.
func TestUnique_secrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("hidden"))
	b.ok(roleOp("clerk", rota.Grant{Right: rota.RightSubmit, Tenant: "*", Queue: "default"},
		rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "default"}))
	b.ok(tokenOp(tokenWish("c", "clerk")))
	hidden := func(s *rota.JobSpec) { s.Queue = "hidden" }
	b.ok(onlyOne("secret", rota.Unique{Key: "s"}, hidden))
	b.ok(onlyOne("plain", rota.Unique{Key: "p"}))
	clerk := func(op *fsmpb.Op) *fsmpb.Op { return by(actorNamed("c"), op) }
	o := b.refuses(rota.KindConflict, "unique", clerk(onlyOne("x", rota.Unique{Key: "s"})))
	if strings.Contains(fmt.Sprint(o), "secret") || o.GetJobState() != 0 {
		t.Fatalf("%v", o)
	}
	if o := b.refuses(rota.KindConflict, "unique", clerk(onlyOne("x",
		rota.Unique{Key: "p"}))); o.GetHolder() != "plain" {
		t.Fatalf("%v", o)
	}
	o = b.ok(clerk(onlyOne("y", rota.Unique{Key: "s", OnConflict: rota.UniqueReplace}, paying("of a clerk"))))
	if !o.GetExisted() || o.GetHolder() != "" || o.GetJobState() != 0 {
		t.Fatalf("%v", o)
	}
	if job := b.state("secret", rota.JobQueued); string(job.Payload) != "x" {
		t.Fatalf("a clerk of another queue gave it %q", job.Payload)
	}
	// Events do not name it either, once it has ended, to readers of the submission's queue.
	kept := rota.Unique{Key: "t", Scope: []string{rota.UniquePending, rota.UniqueRunning, rota.UniqueCompleted},
		Keep: time.Hour, OnConflict: rota.UniqueExisting}
	b.ok(onlyOne("secret-too", kept, hidden))
	b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"hidden"}; w.Slots = 10 })
	b.match()
	b.completeAll("secret-too")
	a := b.entry(clerk(onlyOne("z", kept)))
	if len(a.Events) != 1 || a.Events[0].Job != "secret-too" || a.Events[0].Queue != "hidden" {
		t.Fatalf("%+v", a.Events)
	}
}

// TestUnique_bounds checks that rows and merged submissions are bounded, and that tenants are not forgotten while they
// exist.
func TestUnique_bounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	existing := rota.Unique{OnConflict: rota.UniqueExisting}
	b.ok(onlyOne("a", existing))
	for range 3 { // as after that many
		b.ok(onlyOne(fmt.Sprint("m", b.entries), existing))
	}
	oldest := []rota.JobID{}
	b.uniques.Merged.Scan(func(id rota.JobID, _ *state.MergedRow) bool {
		oldest = append(oldest, id)
		return true
	})
	slices.Sort(oldest)
	var ops []*fsmpb.Op
	for i := range limits.MaxMerged - 2 {
		if ops = append(ops, onlyOne(fmt.Sprint("n", i), existing)); len(ops) == limits.MaxEntryOps {
			b.entry(ops...)
			ops = ops[:0]
		}
	}
	b.entry(ops...)
	if n := b.uniques.Merged.Len(); n != limits.MaxMerged || b.uniques.Merged.Get(oldest[0]) != nil ||
		b.uniques.Merged.Get(oldest[1]) == nil {
		t.Fatalf("%d are kept", n)
	}
	b.sound()
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: "default"}}})
	deletion := &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: "default"}}}
	b.refuses(rota.KindConflict, "tenant", deletion)
	b.ok(cancelOp("a"))
	b.ok(deletion)
}

func TestUnique_shape(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, u := range []rota.Unique{
		{}, {Key: "k", By: []string{"type"}}, {Key: strings.Repeat("k", 129)}, {By: []string{"payload"}},
		{By: []string{"type", "type"}},
		{Key: "k", Scope: []string{"DEAD"}}, {Key: "k", OnConflict: "drop"}, {Key: "k", Period: -time.Second},
		{Key: "k", Period: 1 << 62},
		{Key: "k", Keep: time.Hour}, {Key: "k", Scope: []string{"COMPLETED"}}, {Key: "k", ExtendMax: time.Hour},
		{Key: "k", Scope: []string{"COMPLETED"}, Keep: rota.MaxUniqueKeep + time.Millisecond},
	} {
		b.refuses(rota.KindInvalid, "unique", submitOp(jobSpec("j", func(s *rota.JobSpec) { s.Unique = &u })))
	}
	d := diamond("wf", func(d *dag) { d.Nodes[1].Unique = &rota.Unique{Key: "k"} })
	b.ok(d.open())
	b.refuses(rota.KindInvalid, "unique", d.add()[0])
}

// TestUnique_rebirth checks that a state that becomes a fresh cluster's keeps its keys.
func TestUnique_rebirth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(onlyOne("waits", rota.Unique{Key: "waits"}))
	b.worker("w", 2)
	pending := rota.Unique{Key: "leased", Scope: []string{rota.UniquePending}}
	b.match()
	b.ok(onlyOne("leased", pending))
	b.match()
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "fresh"}); err != nil {
		t.Fatal(err)
	}
	if n := m.uniques.Rows.Len(); n != 2 { // leased came back to its scope
		t.Fatalf("%d keys are held", n)
	}
}
