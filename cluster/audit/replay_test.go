package audit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// memoryLog is a log for an auditor to read, and the machine that the leader decided on as it grew. Entry 1 is raft's
// own configuration.
type memoryLog struct {
	t       *testing.T
	m       *fsm.Machine
	now     int64
	entries map[uint64]*fsmpb.Entry
	last    uint64
}

func newMemoryLog(t *testing.T) *memoryLog {
	l := &memoryLog{t: t, m: fsm.New(), now: 1_000, entries: make(map[uint64]*fsmpb.Entry), last: 1}
	l.commit(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 2, Node: "a", Random: make([]byte, 32),
		ClusterId: "audited", StartMs: 1_000}}})
	return l
}

func (l *memoryLog) GetLog(index uint64, into *raft.Log) error {
	if index == 1 {
		*into = raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration}
		return nil
	}
	data, err := entry.Seal(l.entries[index], entry.FirstRules)
	*into = raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: data}
	return err
}

func (l *memoryLog) commit(ops ...*fsmpb.Op) *fsm.Applied {
	l.t.Helper()
	l.last++
	l.now += 50
	l.entries[l.last] = &fsmpb.Entry{Term: 2, NowMs: l.now, Ops: ops}
	data, err := entry.Seal(l.entries[l.last], entry.FirstRules)
	if err != nil {
		l.t.Fatal(err)
	}
	applied, err := l.m.Apply(rota.Index(l.last), 2, data)
	if err != nil {
		l.t.Fatal(err)
	}
	return &applied
}

// match commits the leader's decision; a submission comes between the decision and its entry, as in production.
func (l *memoryLog) match(between *fsmpb.Op) {
	var ops []*fsmpb.Op
	for _, r := range l.m.Decide(limits.MaxDecide) {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
	}
	l.commit(between)
	if len(ops) > 0 {
		l.commit(ops...)
	}
}

func jobOp(id, tenant string) *fsmpb.Op {
	spec := rota.NewJobSpec("t", nil)
	spec.ID, spec.Tenant = rota.JobID(id), rota.TenantID(tenant)
	return &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}
}

// live runs jobs of three tenants over some workers.
func (l *memoryLog) live(rounds int) {
	for i := range 5 {
		spec := rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)), Queues: []rota.QueueName{rota.DefaultQueue},
			Slots: 2}
		hash := make([]byte, 32)
		hash[0] = byte(i + 1)
		l.commit(&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{Spec: entry.WorkerOp(&spec),
			SecretHash: hash}}})
	}
	for i := range rounds {
		for k := range 4 {
			l.commit(jobOp(fmt.Sprintf("j%d-%d", i, k), fmt.Sprint("tenant", k%3)))
		}
		l.match(jobOp(fmt.Sprintf("late%d", i), "tenant0"))
		var ends []*fsmpb.Op
		for _, w := range l.m.Workers() {
			for _, a := range l.m.Assignments(w.ID, w.Session) {
				ends = append(ends, entry.LeaseCommandOp(&peer.LeaseCommand{Verb: rota.VerbComplete, Lease: a.Lease.ID,
					Job: a.Lease.Job, Worker: w.ID, Session: w.Session}))
			}
		}
		if len(ends) > 0 {
			l.commit(ends...)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("proves_every_round", func(t *testing.T) {
		t.Parallel()
		l := newMemoryLog(t)
		l.live(40)
		report, err := stretch(ctx, fsm.New(), l, l.last, map[rota.Index]rota.Digest{rota.Index(l.last): l.m.Digest()})
		if err != nil || report.Difference != nil {
			t.Fatalf("%+v, %v", report.Difference, err)
		}
		if report.Rounds < 40 || report.Proved != report.Rounds || report.Operations < 200 {
			t.Fatalf("%+v", report)
		}
	})
	t.Run("finds_a_planted_pair", func(t *testing.T) {
		t.Parallel()
		l := newMemoryLog(t)
		l.live(40)
		planted := uint64(0)
		for i := l.last / 2; i <= l.last && planted == 0; i++ {
			for _, op := range l.entries[i].GetOps() {
				if pairs := op.GetRound().GetPairs(); len(pairs) > 1 && pairs[0].GetWorker() != pairs[1].GetWorker() {
					pairs[0].Worker, pairs[1].Worker = pairs[1].GetWorker(), pairs[0].GetWorker()
					planted = i
					break
				}
			}
		}
		report, err := stretch(ctx, fsm.New(), l, l.last, nil)
		if err != nil || report.Difference == nil || uint64(report.Difference.Index) != planted {
			t.Fatalf("planted at %d: %+v, %v", planted, report.Difference, err)
		}
		if report.Proved+1 != report.Rounds || !strings.Contains(report.Difference.Logged, "w") {
			t.Fatalf("%+v", report)
		}
	})
	t.Run("finds_a_planted_round_that_nobody_decided", func(t *testing.T) {
		t.Parallel()
		l := newMemoryLog(t)
		l.live(3)
		head := l.m.Head()
		l.commit(&fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Epoch: head.Epoch + 1, Height: uint64(head.Index),
			Queue: "default"}}})
		report, err := stretch(ctx, fsm.New(), l, l.last, nil)
		if err != nil || report.Difference == nil || report.Difference.Index != rota.Index(l.last) {
			t.Fatalf("%+v, %v", report.Difference, err)
		}
	})
	t.Run("finds_a_snapshot_with_another_digest", func(t *testing.T) {
		t.Parallel()
		l := newMemoryLog(t)
		l.live(3)
		report, err := stretch(ctx, fsm.New(), l, l.last, map[rota.Index]rota.Digest{7: {Hi: 1}})
		if err != nil || report.Difference == nil || report.Difference.Index != 7 {
			t.Fatalf("%+v, %v", report.Difference, err)
		}
	})
}

func BenchmarkAudit(b *testing.B) {
	t := &testing.T{}
	l := newMemoryLog(t)
	l.live(500)
	operations := uint64(0)
	for b.Loop() {
		report, err := stretch(context.Background(), fsm.New(), l, l.last, nil)
		if err != nil || report.Difference != nil {
			b.Fatal(report, err)
		}
		operations += report.Operations
	}
	b.ReportMetric(float64(operations)/b.Elapsed().Seconds(), "operations/s")
}
