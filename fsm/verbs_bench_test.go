package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// leaseOps returns one verb for each job of the batch, modified by change.
func (l *life) leaseOps(v rota.LeaseVerb, change ...func(*peer.LeaseCommand)) []byte {
	ops := make([]*fsmpb.Op, batch)
	for i, id := range l.jobs {
		j, _ := l.m.View.Job(rota.JobID(id))
		if j.Lease == nil {
			l.m.b.Fatalf("job %s has no lease", id)
		}
		ops[i] = verb(v, *j.Lease, change...)
	}
	return l.m.seal(ops...)
}

// jobOps returns one operation for each job of the batch, by its id.
func (l *life) jobOps(op func(id string) *fsmpb.Op) []byte {
	ops := make([]*fsmpb.Op, batch)
	for i, id := range l.jobs {
		ops[i] = op(id)
	}
	return l.m.seal(ops...)
}

// step seals the entry of a name for the present state.
func (l *life) step(name string) []byte {
	switch name {
	case "submit":
		return l.submit()
	case "round":
		return l.rounds()
	case "ack":
		return l.leaseOps(rota.VerbAck)
	case "renew":
		return l.leaseOps(rota.VerbRenew)
	case "progress":
		return l.leaseOps(rota.VerbProgress, func(c *peer.LeaseCommand) { c.Progress, c.Text = 50, "half" })
	case "complete":
		return l.leaseOps(rota.VerbComplete)
	case "fail":
		return l.leaseOps(rota.VerbFail, func(c *peer.LeaseCommand) { c.Text, c.Fail = "broken", peer.FailNoRetry })
	case "decline":
		return l.leaseOps(rota.VerbDecline)
	case "cancel":
		return l.jobOps(cancelOp)
	case "retry":
		return l.jobOps(func(id string) *fsmpb.Op { // as a node proposes it: with the job as submitted
			return &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: id, Spec: entry.SpecOp(benchJob(id))}}}
		})
	case "status":
		n := 0
		return l.jobOps(func(string) *fsmpb.Op { // as an operator sends it
			n++
			return statusOp("w0", []rota.WorkerStatus{rota.WorkerActive, rota.WorkerSuspended}[n%2], 0)
		})
	case "register":
		n := 0
		return l.jobOps(func(string) *fsmpb.Op { n++; return registerOp(fmt.Sprint("w", n%4), 100, "s", false) })
	case "queue":
		return l.jobOps(func(string) *fsmpb.Op { return queueOp("default", "weight", fmt.Sprint(1+l.n/batch%7)) })
	case "tenant":
		return l.jobOps(func(id string) *fsmpb.Op {
			return tenantOp("t"+id[len(id)-3:], "weight", fmt.Sprint(1+l.n/batch%7))
		})
	case "barrier":
		return l.jobOps(func(string) *fsmpb.Op { return &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}} })
	}
	l.m.b.Fatal("no step " + name)
	return nil
}

// hire adds new workers, as the previous ones cool down after failures.
func (l *life) hire() {
	for i := range 4 {
		l.m.entry(registerOp(fmt.Sprintf("w%d-%d", l.n, i), 100, "s", false))
	}
}

// BenchmarkVerb measures every verb by itself, in entries of a hundred; an operation is one verb. BenchmarkLife covers
// those of a whole life, the workflow benchmarks those of workflows.
func BenchmarkVerb(b *testing.B) {
	for _, c := range []struct {
		verb string
		// before are the steps to the state that the verb needs; after ends the jobs.
		before, after []string
	}{
		{"submit", nil, []string{"cancel"}},
		{"round", []string{"submit"}, []string{"ack", "complete"}},
		{"ack", []string{"submit", "round"}, []string{"complete"}},
		{"renew", []string{"submit", "round", "ack"}, []string{"complete"}},
		{"progress", []string{"submit", "round", "ack"}, []string{"complete"}},
		{"complete", []string{"submit", "round", "ack"}, nil},
		{"fail", []string{"submit", "round", "ack"}, nil},
		{"decline", []string{"submit", "round"}, []string{"cancel"}},
		{"cancel", []string{"submit"}, nil},
		{"retry", []string{"submit", "cancel"}, []string{"cancel"}},
		{"register", nil, nil},
		{"status", nil, nil},
		{"queue", nil, nil},
		{"tenant", []string{"submit"}, []string{"cancel"}},
		{"barrier", nil, nil},
	} {
		b.Run(c.verb, func(b *testing.B) {
			l := newLife(fill(b, 1_000))
			// Failures would keep the workers from the jobs behind them.
			l.m.entry(queueOp("default", "min_health", "0"))
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			for done := 0; done < b.N; done += batch {
				for _, name := range c.before {
					l.m.run(l.step(name))
				}
				if c.before == nil && c.verb != "submit" {
					l.n += batch
					l.jobs = make([]string, batch)
				}
				data := l.step(c.verb)
				b.StartTimer()
				l.m.run(data)
				b.StopTimer()
				for _, name := range c.after {
					l.m.run(l.step(name))
				}
				if c.verb == "fail" || c.verb == "decline" {
					l.hire()
				}
			}
		})
	}
}

// BenchmarkRow measures a job's row: its canonical bytes hashed for the digest, written and read for a snapshot.
func BenchmarkRow(b *testing.B) {
	m := fill(b, 1)
	row := m.JobTable.Get("backlog-00000000")
	var record []byte
	if err := m.Freeze().Records(func(tag byte, rec []byte) error {
		if tag == state.TagJob {
			record = append([]byte(nil), rec...)
		}
		return nil
	}); err != nil || record == nil {
		b.Fatal("no record of the job", err)
	}
	b.Run("digest", func(b *testing.B) {
		enc := &state.Encoder{}
		b.SetBytes(int64(len(record)))
		b.ReportAllocs()
		for b.Loop() {
			state.HashRow(enc, state.TagJob, row)
		}
	})
	b.Run("encode", func(b *testing.B) {
		enc := &state.Encoder{}
		b.SetBytes(int64(len(record)))
		b.ReportAllocs()
		for b.Loop() {
			enc.B = enc.B[:0]
			row.Canonical(enc)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(record)))
		b.ReportAllocs()
		for b.Loop() {
			if state.DecodeJob(&state.Decoder{B: record}) == nil {
				b.Fatal("no row")
			}
		}
	})
}

// TestRowAllocations checks that the steps that every node takes for each row and entry allocate nothing unless
// something new lives on.
func TestRowAllocations(t *testing.T) {
	b := newBench(t)
	b.entry(submitOp(jobSpec("a")))
	row, enc := b.JobTable.Get("a"), &state.Encoder{}
	state.HashRow(enc, state.TagJob, row) // the buffer is allocated once
	for name, f := range map[string]func(){
		"hashing a row":  func() { state.HashRow(enc, state.TagJob, row) },
		"encoding a row": func() { enc.B = enc.B[:0]; row.Canonical(enc) },
		"finding a row":  func() { b.JobTable.Get("a") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times, want none", name, n)
		}
	}
}
