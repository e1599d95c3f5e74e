package fsm

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// someEvents set every field in some event.
func someEvents() []rota.Event {
	id := func(seq uint32) rota.EventID { return rota.EventID{Incarnation: 3, Index: 4711, Seq: seq} }
	list := []rota.Event{
		{ID: id(0), Kind: rota.EventLeadershipBegan, Clock: 1_700_000_000_000, Date: 1_700_000_000_500, Text: "n1"},
		{ID: id(1), Kind: rota.EventJobAssigned, Run: "run", Node: "node",
			Parent: rota.EventID{Incarnation: 2, Index: 4000, Seq: 9},
			Clock:  1_700_000_000_000, Date: 1_700_000_000_400, Job: "j", Queue: "default", Tenant: "t", Worker: "w",
			Session: 12,
			Lease:   rota.LeaseID{1, 2, 31: 3}, Attempt: 2, Deadline: rota.Moment{Clock: 1_700_000_060_000,
				Date: 1_700_000_060_400}, Epoch: 77, Check: "FIT",
			Payload: `{"reasoning":"LeastLoaded"}`},
		{ID: id(2), Kind: rota.EventProviderStatusChanged, Clock: 1_700_000_000_900, Date: 1_700_000_000_400,
			Worker: "w",
			Status: rota.WorkerDraining, Reason: rota.ReasonDeclined, Deadline: rota.Moment{Clock: 1, Date: -499}},
	}
	return list
}

// TestEventBytes fixes the encoding: chains of old events depend on it.
func TestEventBytes(t *testing.T) {
	t.Parallel()
	const golden = "testdata/events-v1.hex"
	b := state.AppendEvents(nil, 3, someEvents())
	if *update {
		if err := os.WriteFile(golden, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
		t.Errorf("got events\n%s\nwant\n%s", got, want)
	}
	back, err := state.DecodeEvents(4711, b)
	if err != nil || !reflect.DeepEqual(back, someEvents()) {
		t.Errorf("read back: %+v, %v", back, err)
	}
	for n := range b {
		if events, err := state.DecodeEvents(4711, b[:n]); err == nil && n > 1 && len(events) == 3 {
			t.Errorf("%d of %d bytes: accepted", n, len(b))
		}
	}
}

// FuzzDecodeEvents checks that any bytes are rejected or read, and that events once read can be written and read again
// as the same events.
func FuzzDecodeEvents(f *testing.F) {
	f.Add(state.AppendEvents(nil, 3, someEvents()))
	f.Add(state.AppendEvents(nil, 1, nil))
	f.Add([]byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := state.DecodeEvents(7, b)
		if err != nil {
			return
		}
		incarnation := uint64(0)
		if len(events) > 0 {
			incarnation = events[0].ID.Incarnation
		}
		again, err := state.DecodeEvents(7, state.AppendEvents(nil, incarnation, events))
		if err != nil || !reflect.DeepEqual(again, events) {
			t.Fatalf("%+v\nbecame\n%+v, %v", events, again, err)
		}
	})
}

// TestChain follows the chain over a life of jobs using only the results of Apply.
func TestChain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.View.Head()
	if h.Events != 2 || h.Chain == (sched.Hash{}) {
		t.Fatalf("after the first entry %d events, chain %x", h.Events, h.Chain)
	}
	chain, count := h.Chain, h.Events
	step := func(a Applied) Applied {
		t.Helper()
		events, err := state.DecodeEvents(a.Index, a.EventBytes)
		if len(a.Events) == 0 {
			if a.EventBytes != nil || b.View.Head().Chain != chain {
				t.Fatalf("entry %d reported no event but moved the chain", a.Index)
			}
			return a
		}
		if err != nil || !reflect.DeepEqual(events, a.Events) {
			t.Fatalf("entry %d: %+v was encoded as %+v, %v", a.Index, a.Events, events, err)
		}
		if a.EventsBefore != count || a.EventsChain != chain {
			t.Fatalf("entry %d begins at %d events, chain %x", a.Index, a.EventsBefore, a.EventsChain)
		}
		chain, count = state.NextChain(chain, a.Index, a.EventBytes), count+uint64(len(events))
		if h := b.View.Head(); h.Chain != chain || h.Events != count {
			t.Fatalf("entry %d leaves chain %x of %d events", a.Index, h.Chain, h.Events)
		}
		return a
	}
	step(b.entry(registerOp("w", 2, "s", false)))
	step(b.entry(submitOp(jobSpec("a")), submitOp(jobSpec("b"))))
	step(b.entry(sweepOp()))
	for _, l := range inOrder(b.match()) {
		chain, count = b.View.Head().Chain, b.View.Head().Events
		step(b.entry(verb(rota.VerbAck, l)))
		step(b.entry(verb(rota.VerbComplete, l)))
	}
	if restored := b.restored(); restored.View.Head() != b.View.Head() {
		t.Errorf("a snapshot carries %+v, not %+v", restored.View.Head(), b.View.Head())
	}
}

func TestNextChain(t *testing.T) {
	t.Parallel()
	previous := sched.Hash{1, 2, 3}
	index := []byte{0, 0, 0, 0, 0, 0, 0x12, 0x67}
	if got, want := state.NextChain(previous, 4711, []byte("bytes")), sched.H(previous[:], index,
		[]byte("bytes")); got != want {
		t.Errorf("chain is %x, H gives %x", got, want)
	}
}

// TestEvents checks the content of the events of a life besides their kind.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.entry(registerOp("w", 2, "s", false))
	seen := map[rota.EventKind]rota.Event{}
	last := rota.EventID{}
	note := func(events []rota.Event) {
		for _, e := range events {
			if e.Job != "a" {
				continue
			}
			if e.Parent != last {
				t.Errorf("%s %s names %s, %s was before", e.ID, e.Kind, e.Parent, last)
			}
			if seen[e.Kind] = e; e.Kind != rota.EventLeaseRenewed {
				last = e.ID
			}
		}
	}
	note(b.entry(submitOp(jobSpec("a"))).Events)
	leases := inOrder(b.match())
	last = b.JobTable.Get("a").LastEvent()
	note(b.entry(verb(rota.VerbAck, leases[0])).Events)
	renewal := leases[0]
	note(b.entry(verb(rota.VerbRenew, renewal)).Events)
	note(b.entry(verb(rota.VerbFail, leases[0])).Events)
	if seen[rota.EventJobRunning].Attempt != 0 || seen[rota.EventLeaseAcked].Lease != leases[0].ID {
		t.Errorf("%+v", seen)
	}
	retry := seen[rota.EventJobRetryScheduled]
	if want := state.DueAt(retry.Deadline); retry.Payload != want || retry.Reason != rota.ReasonProviderFail {
		t.Errorf("retry is reported as %+v", retry)
	}
	b.pass(30_000)
	leases = inOrder(b.match())
	last = b.JobTable.Get("a").LastEvent()
	note(b.entry(verb(rota.VerbComplete, leases[0])).Events)
	if e := seen[rota.EventJobCompleted]; !strings.HasPrefix(e.Payload, `{"output_digest":"e3b0c442`) {
		t.Errorf("completion is reported as %+v", e)
	}
}

func TestPlacing(t *testing.T) {
	t.Parallel()
	m := New()
	d := rota.Decision{Height: 9, Score: -4, Rank: 2, Reasoning: rota.Reasoning{Rule: rota.ReasoningByLeastLoaded,
		N: 1}}
	if got := m.Journal.Placing(&d,
		"w"); got != `{"reasoning":{"rule":"LeastLoaded","worker_id":"w","queue_depth":1},"score":-4,"rank":2,"height":9}` {
		t.Error(got)
	}
}

// BenchmarkEvents measures one job's events: five events encoded, chained and copied, in entries of a hundred jobs.
func BenchmarkEvents(b *testing.B) {
	m := New()
	m.Header.Incarnation = 1
	life := someEvents()[1]
	life.Run, life.Node, life.Date = "", "", 1_700_000_000_500
	for range 5 * 100 {
		e := life
		m.Journal.EmitFor(&state.JobRow{JobLife: state.NoLife}, &e)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := m.Journal.SettleChain(); len(got) == 0 {
			b.Fatal("no event was reported")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/job")
}

func TestReincarnate_tellsNoEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.entry(registerOp("w", 2, "s", false))
	b.entry(submitOp(jobSpec("a")))
	b.match()
	before, parent := b.View.Head(), b.JobTable.Get("a").LastEvent()
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "another"}); err != nil {
		t.Fatal(err)
	}
	if h := m.View.Head(); h.Events != before.Events || h.Chain != before.Chain ||
		m.JobTable.Get("a").LastEvent() != parent {
		t.Errorf("a restore reported %d events, the job's last is %s", h.Events-before.Events,
			m.JobTable.Get("a").LastEvent())
	}
	if len(m.Journal.Events) != 0 {
		t.Errorf("%+v", m.Journal.Events)
	}
}
