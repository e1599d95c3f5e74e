package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

func clusterOp(pairs ...string) *fsmpb.Op {
	op := &fsmpb.SetCluster{}
	for i := 0; i+1 < len(pairs); i += 2 {
		op.Set = append(op.Set, &fsmpb.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetCluster{SetCluster: op}}
}

func payloadOf(n int) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Payload = bytes.Repeat([]byte("x"), n) }
}

// fills submits jobs of 64 KiB until one is refused; it returns how many were admitted.
func (b *bench) fills(change ...func(*rota.JobSpec)) (taken int, refusal *fsmpb.Outcome) {
	b.t.Helper()
	for ; taken < 100; taken++ {
		o := b.entry(submitOp(jobSpec(fmt.Sprint("j", b.At), append(change, payloadOf(64<<10))...))).Outcomes[0]
		if o.GetKind() != 0 {
			return taken, o
		}
	}
	b.t.Fatal("100 jobs of 64 KiB were accepted")
	return 0, nil
}

// firstJob returns the live job with the least id.
func firstJob(b *bench) (id rota.JobID) {
	b.JobTable.Scan(func(first rota.JobID, _ *state.JobRow) bool { id = first; return false })
	return id
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	urgently := func(s *rota.JobSpec) { s.Priority = 0 }
	threshold := queueOp("default", "reject_threshold", "0.9")
	for _, c := range []struct {
		name, subject string
		set           *fsmpb.Op
		// free is a job that the budget does not bound; nil if it bounds all.
		free func(*rota.JobSpec)
	}{
		{"cluster", "state_bytes_max", clusterOp("state_bytes_max", "4MiB"), nil},
		{"queue", "bytes_max", queueOp("default", "bytes_max", "4194304"), queue("other")},
		{"tenant", "bytes_max", tenantOp("ann", "bytes_max", "4MiB"), tenant("bob")},
	} {
		t.Run(c.name+"_refuses_what_is_beyond_its_bytes", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(queueOp("other"))
			b.ok(threshold)
			b.ok(c.set)
			ann := tenant("ann")
			// 64 jobs of 64 KiB are 4 MiB without the rest of their specs; nine tenths are 58.
			if n, o := b.fills(ann); n != 57 && n != 58 || o.GetKind() != uint32(rota.KindExhausted) ||
				o.GetSubject() != c.subject {
				t.Fatalf("accepted %d, then got %v", n, o)
			}
			n, o := b.fills(ann, urgently)
			if n != 5 && n != 6 || o.GetSubject() != c.subject ||
				o.GetRetryAfterMs() != limits.StuckRetryAfter.Milliseconds() {
				t.Fatalf("accepted %d more of priority 0, then got %v", n, o)
			}
			if !strings.Contains(o.GetText(), "rota worker run") {
				t.Errorf("the refusal does not explain how to make room: %s", o.GetText())
			}
			spec := jobSpec("beyond", ann, urgently, payloadOf(64<<10))
			if b.View.QueueFull(submitOp(spec).GetSubmit()) == nil {
				t.Error("the leader would not refuse it before the log")
			}
			if c.free != nil {
				b.ok(submitOp(jobSpec("zfree", payloadOf(64<<10), c.free)))
			}
			id := string(firstJob(b))
			b.ok(cancelOp(id))
			b.ok(submitOp(spec)) // in its place
		})
	}
	t.Run("children_and_retries_pass", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		flow := newDAG("f", [][]uint32{nil, {0}})
		b.entry(flow.open(), flow.add()[0], flow.commit())
		b.worker("w", 1)
		b.submit("dies", func(s *rota.JobSpec) { s.Priority = 0 })
		b.ok(cancelOp("dies"))
		b.ok(clusterOp("state_bytes_max", "1MiB"))
		b.fills()
		b.ok(retryOp("dies"))
		b.state("dies", rota.JobQueued)
		for range 100 {
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
			}
		}
		b.stands(flow, "COMPLETED: CC")
	})
	t.Run("tables_are_refused_too", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(clusterOp("state_bytes_max", "1MiB"))
		for n := 1 << 16; n > 0; n /= 2 { // to the last byte
			for i := 0; b.entry(submitOp(jobSpec(fmt.Sprint("j", n, "-", i),
				payloadOf(n)))).Outcomes[0].GetKind() == 0; i++ {
			}
		}
		for i := 0; b.View.StateBytes() < 1<<20; i++ {
			b.ok(tenantOp(fmt.Sprint("t", i)))
		}
		b.refuses(rota.KindExhausted, "state_bytes_max", queueOp("new"))
		b.refuses(rota.KindExhausted, "state_bytes_max", tenantOp("new"))
		b.refuses(rota.KindExhausted, "state_bytes_max", registerOp("new", 1, "x", false))
		b.ok(queueOp("default", "queue_cap", "7"))
	})
	t.Run("refuses_by_name", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindInvalid, "key", clusterOp("speed", "9"))
		b.refuses(rota.KindInvalid, "state_bytes_max", clusterOp("state_bytes_max", "1"))
		b.refuses(rota.KindInvalid, "state_bytes_max", clusterOp("state_bytes_max", "-1"))
		b.refuses(rota.KindInvalid, "state_bytes_max", clusterOp("state_bytes_max", "9999999999TiB"))
		b.refuses(rota.KindInvalid, "bytes_max", tenantOp("t", "bytes_max", "much"))
		for _, n := range []string{"2", "10", "-3", "three", ""} {
			b.refuses(rota.KindInvalid, "voters_wanted", clusterOp("autopilot", "off", "voters_wanted", n))
		}
		b.refuses(rota.KindInvalid, "autopilot", clusterOp("autopilot", "maybe"))
		a := b.entry(clusterOp("state_bytes_max", "2GiB"))
		if e := kinds(a.Events, rota.EventClusterChanged); len(e) != 1 ||
			e[0].Payload != `{"state_bytes_max":2147483648,"voters_wanted":3,"autopilot":true}` {
			t.Fatalf("events %+v", e)
		}
		if a = b.entry(clusterOp("state_bytes_max", "2GiB")); !a.Outcomes[0].GetExisted() || len(a.Events) != 0 {
			t.Fatalf("the same again: %v, %v", a.Outcomes[0], a.Events)
		}
	})
}
