package fsm

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/state"
)

// manyHeaders returns n headers with values of this many bytes.
func manyHeaders(n, bytes int) map[string]string {
	headers := make(map[string]string, n)
	for i := range n {
		headers[fmt.Sprint("h", i)] = strings.Repeat("v", bytes)
	}
	return headers
}

// TestHeaders follows headers from every origin of a job: each worker gets them, also from a restored state, and no
// move loses one.
func TestHeaders(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(queueOp("other"))
	want := map[string]string{"traceparent": "00-1", "baggage": ""}
	headed := func(s *rota.JobSpec) { s.Headers = want }
	has := func(id string, state rota.JobState) {
		t.Helper()
		if got := b.state(id, state).Headers; !maps.Equal(got, want) {
			t.Fatalf("%s has the headers %v", id, got)
		}
		if job, _ := b.restored().View.Job(rota.JobID(id)); !maps.Equal(job.Headers, want) {
			t.Fatalf("%s has the headers %v after a restore", id, job.Headers)
		}
	}
	b.submit("j", headed, func(s *rota.JobSpec) { s.Queue = "other" })
	has("j", rota.JobQueued)
	payload := rota.Blob("")
	b.ok(b.changeOf(rota.JobChange{ID: "j", Payload: &payload}))
	has("j", rota.JobQueued)
	b.ok(drainOp("other", "default"))
	has("j", rota.JobQueued)
	b.ok(cancelOp("j"))
	b.ok(retryOp("j"))
	has("j", rota.JobQueued)
	b.ok(onlyOne("first", rota.Unique{OnConflict: rota.UniqueReplace}, headed))
	b.merges("first", onlyOne("merged", rota.Unique{OnConflict: rota.UniqueReplace}, paying("other"),
		func(s *rota.JobSpec) {
			s.Headers = map[string]string{"traceparent": "00-2"}
		}))
	has("first", rota.JobQueued)
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { headed(&s.Job) }))
	b.ok(triggerOp("s", "x"))
	has("s@+x", rota.JobQueued)
	b.ok(batchOp("b", 0, headed))
	b.ok(entry.SealOp("b"))
	has("b@done", rota.JobQueued)
	b.run(newDAG("wf", [][]uint32{nil}, func(d *dag) { headed(&d.Nodes[0].JobSpec) }))
	has("wf/n0", rota.JobQueued)
	b.worker("w", 9)
	leases := b.match()
	for _, id := range []rota.JobID{"j", "first", "s@+x", "b@done", "wf/n0"} {
		if a, ok := b.View.Assignment(leases[id].ID); !ok || !maps.Equal(a.Spec.Headers, want) {
			t.Errorf("the worker of %s gets the headers %v", id, a.Spec.Headers)
		}
	}
	b.sound()
}

// TestHeaders_areOfTheDigest checks that replicas that differ only in headers differ.
func TestHeaders_areOfTheDigest(t *testing.T) {
	t.Parallel()
	rows := func(value string) rota.Digest {
		b := newBench(t)
		headed := func(s *rota.JobSpec) { s.Headers = map[string]string{"traceparent": value} }
		b.submit("j", headed)
		return b.rowsDigest()
	}
	if rows("00-1") == rows("00-2") {
		t.Error("another value of a header does not change the digest")
	}
}

// TestHeaders_weigh checks that a job without headers pays nothing, and one with headers pays for their size.
func TestHeaders_weigh(t *testing.T) {
	t.Parallel()
	var e state.Encoder
	state.EncodeSpec(&e, new(state.Specs).Keep(jobSpec("j")))
	bare := len(e.B)
	_, payload := new(state.Specs).Keep(jobSpec("j")).Split()
	e.B = e.B[:0]
	state.EncodeParts(&e, new(state.Specs).Keep(jobSpec("j")), nil, payload)
	if len(e.B) != bare || state.HashBytes(e.B) != state.HashSpec(&state.Encoder{},
		new(state.Specs).Keep(jobSpec("j"))) {
		t.Errorf("a spec without headers takes %d bytes, its content %d", bare, len(e.B))
	}
	b := newBench(t)
	weighs := func(id string, change ...func(*rota.JobSpec)) int64 {
		before := b.Ledger.Tally.All
		b.submit(id, change...)
		return b.Ledger.Tally.All - before
	}
	none := weighs("bare")
	// Three lengths, a count, a name and a value in the spec, and a hash in the row.
	if got := weighs("head", func(s *rota.JobSpec) { s.Headers = map[string]string{"k": "v"} }) - none; got != 6+16 {
		t.Errorf("headers of 2 bytes count for %d, want 22", got)
	}
}
