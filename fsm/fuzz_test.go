package fsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FuzzEnvelope checks that for any bytes Apply answers or halts; it never panics, and a halt changes nothing.
func FuzzEnvelope(f *testing.F) {
	for _, e := range []*fsmpb.Entry{{}, {Term: 1, NowMs: startClock, Ops: []*fsmpb.Op{submitOp(jobSpec("j")), {}}},
		{Term: 1, Ops: []*fsmpb.Op{sweepOp(), registerOp("w", 1, "s", true)}, WallMs: []int64{1, 2}}} {
		data, _ := entry.Seal(e, entry.FirstRules)
		f.Add(data)
	}
	f.Add([]byte("RTL1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBench(t)
		before := b.View.Head()
		_, err := b.Machine.Apply(before.Index+1, 1, data)
		if err != nil && b.View.Head() != before {
			t.Fatalf("a halt moved the head to %+v", b.View.Head())
		}
		// After the checksum the decoder is on its own.
		empty, _ := entry.Seal(&fsmpb.Entry{}, entry.FirstRules)
		sealed := append(empty, data...)
		sum := crc32.Update(crc32.Checksum(sealed[4:8], castagnoli), castagnoli, sealed[12:])
		binary.BigEndian.PutUint32(sealed[8:], sum)
		_, _ = b.Machine.Apply(before.Index+2, 1, sealed)
		if faults := b.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
	})
}

// TestApply_unknownOperation checks that an operation that this binary does not know halts it, and that it then
// continues as if nothing had happened.
func TestApply_unknownOperation(t *testing.T) {
	t.Parallel()
	m := New()
	unknown, _ := entry.Seal(&fsmpb.Entry{Ops: []*fsmpb.Op{{}}}, entry.FirstRules)
	_, err := m.Apply(1, 1, unknown)
	if halt, ok := err.(*entry.HaltError); !ok || !halt.NewerRules || halt.Error() == "" {
		t.Fatalf("an unknown operation: %v", err)
	}
	data, _ := entry.Seal(&fsmpb.Entry{Term: 1, Ops: []*fsmpb.Op{submitOp(jobSpec("j"))}}, entry.FirstRules)
	if _, err := m.Apply(1, 1, data); err != nil {
		t.Fatalf("after that: %v", err)
	}
}

// FuzzApplyOps applies valid protobuf with hostile fields. Nothing panics, both machines agree, and the invariants hold
// after every entry.
func FuzzApplyOps(f *testing.F) {
	for seed := range byte(8) {
		f.Add([]byte{seed, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		runHostile(newBench(t), &dice{data: data})
	})
}

// TestHostileOps is the same from fixed seeds, so that every run of the tests meets hostile fields by the hundred
// thousand.
func TestHostileOps(t *testing.T) {
	t.Parallel()
	long(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := make([]byte, 8000)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		b := newBench(t)
		b.every = 20
		runHostile(b, &dice{data: data})
	}
}

// dice makes choices from bytes; over reports that they are used up.
type dice struct {
	data []byte
	at   int
}

func (d *dice) over() bool { return d.at >= len(d.data) }

func (d *dice) roll(n int) int {
	if d.over() {
		return 0
	}
	v := int(d.data[d.at])
	d.at++
	return v % n
}

// number returns a number that is small, valid, or hostile.
func (d *dice) number() int64 {
	hostile := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt32 + 1, 1 << 46, 1 << 60, startClock, 1000}
	if k := d.roll(2 * len(hostile)); k < len(hostile) {
		return hostile[k]
	}
	return int64(d.roll(256)) * int64(1+d.roll(100))
}

func (d *dice) text() string {
	return []string{"", "a", "b", "w0", "w1", "default", "q", "..", "\x00", "é", "test"}[d.roll(11)]
}

func (d *dice) id(prefix string) string {
	if d.roll(12) == 0 {
		return d.text()
	}
	return fmt.Sprint(prefix, d.roll(5))
}

func (d *dice) queue() string { return []string{"default", "q1", "q2", d.text()}[d.roll(4)] }

func runHostile(b *bench, d *dice) {
	seen := []rota.Lease{{}}
	for !d.over() {
		b.now += rota.Clock(d.roll(900))
		e := &fsmpb.Entry{Term: b.term, NowMs: int64(b.now)}
		for range 1 + d.roll(4) {
			e.Ops = append(e.Ops, hostileOp(b, d, seen))
		}
		logTerm := b.term
		switch d.roll(24) {
		case 0:
			e.Term, e.NowMs = uint64(d.number()), d.number()
		case 1:
			e.WallMs = []int64{d.number(), d.number(), startClock + d.number()%1e9}
		case 2:
			b.lead()
			logTerm = b.term
		case 3:
			e.Ops = append(e.Ops, &fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: uint64(d.number()), Node: d.text(), Random: make([]byte, d.roll(64)), ClusterId: d.text(), StartMs: d.number()}}})
		}
		for _, ev := range b.stamped(e, logTerm).Events {
			if a, ok := b.View.Assignment(ev.Lease); ok && ev.Kind == rota.EventJobAssigned {
				seen = append(seen, a.Lease)
			}
		}
		b.term = max(b.term, b.Header.Term)
	}
	b.sound()
}

func hostileOp(b *bench, d *dice, seen []rota.Lease) *fsmpb.Op {
	if d.roll(5) == 0 {
		return by(rota.Principal(d.of("local", "anonymous", string(actorNamed("a")), string(actorNamed("b")),
			"cert:role/n", "node:n1", d.text())), hostileRight(b, d))
	}
	switch d.roll(22) {
	case 17, 18, 19:
		return hostileFlow(d)
	case 0, 1, 2:
		s := jobSpec(d.id("j"), func(s *rota.JobSpec) {
			s.Queue, s.Tenant, s.Priority = rota.QueueName(d.queue()), rota.TenantID(d.id("t")), int32(d.roll(11))
			if d.roll(2) == 0 {
				s.Domain = d.id("z")
			}
		})
		s.RetryOnInvalidProof = d.roll(2) == 0
		if d.roll(3) == 0 {
			s.Unique = hostileUnique(d)
		}
		for !d.over() && d.roll(3) == 0 { // also more than allowed, and names twice
			s.Keys = append(s.Keys, d.of("a:1", "a:2", "b:1", "c:1", ":", "", d.text()))
		}
		if d.roll(3) == 0 {
			s.Batch = rota.BatchID(d.id("b"))
		}
		if d.roll(3) == 0 { // refused names and values too
			s.Headers = map[string]string{d.of("traceparent", "", d.text()): d.text()}
		}
		op := submitOp(s)
		if d.roll(3) == 0 {
			p := op.GetSubmit().Spec
			p.Priority, p.Fee, p.SizeBytes, p.DelayMs = int32(d.number()), d.number(), d.number(), d.number()
			p.NotBeforeMs, p.TtlMs, p.MaxRuntimeMs, p.CpuMilli, p.MemoryBytes = d.number(), d.number(), d.number(), d.number(), d.number()
			p.IoBytesPerS = d.number()
			p.Requires, p.Worker, p.Units = []string{d.text()}, d.text(), d.number()
		} else if d.roll(2) == 0 {
			op.GetSubmit().Spec.DelayMs, op.GetSubmit().Spec.TtlMs = int64(d.roll(3000)), int64(d.roll(250))*40
		}
		return op
	case 3:
		if d.roll(2) == 0 {
			id := d.id("w")
			session, _ := b.View.Session(rota.WorkerID(id))
			return offerOp(id, session+rota.Session(d.roll(6)/5), uint64(d.roll(4)), int32(d.number()),
				b.now+rota.Clock(d.number()))
		}
		op := staking(registerOp(d.id("w"), int32(1+d.roll(4)), d.text(), d.roll(2) == 0, func(w *rota.WorkerSpec) {
			w.Queues = append(w.Queues, rota.QueueName(d.queue()))
			if d.roll(6) == 0 {
				w.Slots, w.Prefetch, w.CPUMilli, w.Stake = int32(d.number()), int32(d.number()), d.number(), d.number()
			}
		}), rota.Date(d.number()), pickOf[int64](d, 0, 100, d.number()))
		op.GetRegister().Polls = d.roll(3) == 0
		return op
	case 4, 5, 6:
		if rounds := b.View.Decide(1 + d.roll(9)); len(rounds) > 0 && d.roll(8) > 0 {
			return &fsmpb.Op{Op: &fsmpb.Op_Round{Round: rounds[0]}}
		}
		return &fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Epoch: b.Header.Epoch + uint64(d.roll(3)),
			Queue:  d.queue(),
			Height: uint64(d.number()), Pairs: []*fsmpb.Pair{{Job: d.id("j"), Worker: d.id("w"),
				Rule: uint32(d.number())},
				{}, {Job: d.id("j"), Worker: d.id("w"), Score: d.number(), Rank: int32(d.number()), Interleaved: true}},
			Holds: []*fsmpb.Hold{{Job: d.id("j"), Worker: d.id("w")}, {Job: d.id("j")},
				{Job: d.id("j"), Worker: d.id("w")}}}}}
	case 7, 8, 9:
		l := seen[max(0, len(seen)-1-d.roll(8))]
		return verb(rota.LeaseVerb(d.roll(9)), l, func(c *peer.LeaseCommand) {
			c.Ordinal, c.Fail, c.After, c.Progress = int32(d.roll(4)), peer.FailKind(d.roll(7)), millis.Duration(
				d.number()), int32(d.number())
			switch d.roll(9) {
			case 4:
				c.Costs = rota.Costs{d.of("u", d.text()): d.number()}
			case 0:
				c.Worker, c.Job = rota.WorkerID(d.id("w")), rota.JobID(d.id("j"))
			case 1:
				c.Session, c.Ordinal = rota.Session(d.number()), int32(d.number())
			case 2:
				c.OutputDigest = make([]byte, d.roll(40))
			case 3:
				c.Session, _ = b.View.Session(c.Worker)
			}
		})
	case 10:
		if d.roll(2) == 0 {
			return cancelOp(flowID(d) + "/" + fmt.Sprint("n", d.roll(6)))
		}
		return cancelOp(d.id("j"))
	case 11:
		switch d.roll(4) {
		case 0, 1:
			return hostileChange(b, d)
		case 2:
			if d.roll(4) == 0 {
				return &fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: uint64(d.number())}}}
			}
			return hostileDelete(b, d)
		}
		return retryOp(d.id("j"))
	case 12:
		if d.roll(2) == 0 {
			return statusOp(d.id("w"), rota.WorkerStatus(d.roll(8)), rota.Session(d.roll(3)))
		}
		id := d.id("w")
		s, _ := b.View.Session(rota.WorkerID(id))
		if d.roll(4) == 0 {
			return disconnectOp(id, s, uint64(pickOf[int64](d, 0, 1, 2, 3, d.number())))
		}
		if d.roll(3) == 0 {
			op := goneOp(id, s, d.text())
			if d.roll(4) == 0 {
				op.GetGone().Session, op.GetGone().SecretHash = uint64(d.number()), make([]byte, d.roll(40))
			}
			return op
		}
		return reachOp(id, s, d.roll(2) == 0, rota.Clock(d.number()))
	case 13:
		if d.roll(2) == 0 {
			return hostileKey(b, d)
		}
		keys := rota.PolicyKeys()
		return queueOp(d.queue(), keys[d.roll(len(keys))], fmt.Sprint(d.number()), "weight", fmt.Sprint(1+d.roll(200)))
	case 14:
		if d.roll(2) == 0 {
			return hostileReport(d, seen)
		}
		return &fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: d.id("n"), Identity: d.text(),
			Starts: uint64(d.number()), Removed: d.roll(4) == 0, Reason: d.text(), Voters: uint32(d.roll(11))}}}
	case 15:
		if d.roll(2) == 0 {
			return modeOp(rota.ModeNormal, d.text())
		}
		if d.roll(4) == 0 {
			return healthyOp(slices.Repeat([]string{d.id("n"), d.id("n"), d.id("n"), d.id("n")}, 1+d.roll(3))...)
		}
		return &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Mode: uint32(d.roll(5)), Reason: d.text(),
			Auto: d.roll(2) == 0, Holds: d.roll(2) == 0}}}
	case 16:
		if d.roll(4) == 0 {
			return clusterOp(d.of("state_bytes_max", "voters_wanted", "autopilot", "x"), fmt.Sprint(d.number()))
		}
		if d.roll(8) == 0 {
			op := backupOp(rota.Index(d.number()), d.text())
			op.GetBackupStored().Bytes, op.GetBackupStored().Sha256 = uint64(d.number()), make([]byte,
				pickOf(d, 0, 31, 32, 33))
			return op
		}
		if d.roll(8) == 0 {
			op := readSnapshotOp(rota.NodeID(d.id("n")), rota.Index(pickOf(d, int64(b.At), d.number())))
			return pickOf(d, op, by(rota.Local, op))
		}
		keys := rota.TenantKeys()
		return tenantOp(d.id("t"), keys[d.roll(len(keys))], fmt.Sprint(d.number()), "max_concurrent",
			fmt.Sprint(d.roll(4)))
	case 20:
		return hostilePlan(b, d)
	default:
		switch d.roll(4) {
		case 0:
			return hostileBatch(d)
		case 1:
			return hostileSchedule(b, d)
		case 2:
			return hostileHook(b, d)
		}
		return sweepOp()
	}
}

func flowID(d *dice) string { return d.id("wf") }

// hostileUnique often returns one that holds a key, and often none.
func hostileUnique(d *dice) *rota.Unique {
	u := &rota.Unique{Key: d.of("k", "l", "", d.text()), OnConflict: d.of("", "existing", "replace", "extend", "after",
		"collect", d.text())}
	switch d.roll(4) {
	case 0:
		u.By = []string{d.of("queue", "type", "args", d.text()), "args"}
	case 1:
		u.Scope, u.Keep = []string{"COMPLETED", d.of("PENDING", "RUNNING",
			d.text())}, millis.Duration(int64(d.roll(40_000)))
	case 2:
		u.Period, u.Keep, u.ExtendMax = millis.Duration(d.number()), millis.Duration(d.number()), millis.Duration(
			d.number())
	}
	return u
}

// hostileFlow returns an operation on a workflow: of one shape per id, so that uploads finish, or of none.
func hostileFlow(d *dice) *fsmpb.Op {
	id := flowID(d)
	shape := d.roll(2)
	dag := newDAG(id, [][][]uint32{{nil, {0}, {0}, {1, 2}, nil, {3, 4}}, {nil, nil, {0, 1}}}[shape], func(d *dag) {
		d.OnFailure = rota.FailurePolicy(shape)
		d.Nodes[2].Queue, d.Nodes[1].Delay, d.Nodes[1].Priority = "q1", 700*time.Millisecond, 9
		gateAt(0, rota.Gate{Timeout: time.Duration(shape) * time.Second, OnTimeout: rota.GateTimeout(shape)})(d)
	})
	switch d.roll(11) {
	case 0, 1:
		op := dag.open()
		if o := op.GetOpenWorkflow(); d.roll(4) == 0 {
			o.Nodes, o.Edges, o.OnFailure, o.Priority = uint32(d.number()), uint64(d.number()), uint32(d.roll(
				4)), int32(d.number())
			o.Queue, o.Tenant, o.Content = d.queue(), d.id("t"), make([]byte, d.roll(20))
			o.Shares = []*fsmpb.QueueShare{{Queue: d.queue(), Nodes: uint32(d.number())}}
		} else {
			o.Shares = nil
		}
		return op
	case 2, 3, 4:
		op := dag.add()[0]
		o := op.GetAddNodes()
		switch d.roll(6) {
		case 0:
			o.First, o.Content = uint32(d.number()), make([]byte, d.roll(20))
		case 1:
			n := o.Nodes[d.roll(len(o.Nodes))]
			n.Parents = []uint32{uint32(d.number()), uint32(d.number())}
			n.Gate = pickOf(d, nil, &fsmpb.Gate{TimeoutMs: d.number(), OnTimeout: uint32(d.number())})
			n.Spec.Id, n.Spec.Tenant, n.Spec.Queue, n.Spec.Priority = d.text(), d.text(), d.queue(), int32(d.number())
		case 2:
			o.Nodes[d.roll(len(o.Nodes))] = &fsmpb.WorkflowNode{}
		case 3:
			o.First = uint32(d.roll(3))
			o.Nodes = o.Nodes[o.First:]
		}
		return op
	case 5, 6, 7:
		op := dag.commit()
		if d.roll(8) == 0 {
			op.GetCommitWorkflow().Content = make([]byte, d.roll(20))
		}
		return op
	case 8:
		return dag.cancel()
	case 9:
		op := dag.signal(fmt.Sprint("n", d.roll(7)), d.id("s"), d.text())
		op.GetSignalWorkflow().Refuse = d.roll(3) == 0
		if d.roll(8) == 0 {
			op.GetSignalWorkflow().Payload = make([]byte, pickOf(d, rota.MaxSignalBytes, rota.MaxSignalBytes+1))
		}
		return op
	default:
		from := ""
		if d.roll(2) == 0 {
			from = fmt.Sprint("n", d.roll(7))
		}
		return dag.retry(from, int32(pickOf[int64](d, 1, 1, 1, 2, 3, d.number())))
	}
}

// hostileChange returns a change of a job, or an impossible one.
func hostileChange(b *bench, d *dice) *fsmpb.Op {
	c := rota.JobChange{ID: rota.JobID(d.id("j"))}
	switch d.roll(8) {
	case 7:
		c.StartBy = to(time.Duration(d.roll(3)) * 5 * time.Second)
	case 5:
		op := InterruptOp(&b.View, c.ID, d.roll(2) == 0)
		if d.roll(3) == 0 {
			op.GetInterruptJob().Lease = []byte(d.text())
		}
		return op
	case 6:
		op := RunNowOp(&b.View, c.ID)
		op.GetRunJobNow().DueClockMs += d.number() * int64(d.roll(2))
		return op
	case 0:
		c.Priority = to(int32(d.roll(12)))
	case 1:
		c.Fee = to(d.number())
	case 2:
		c.TTL = to(time.Duration(d.roll(3)) * 5 * time.Second)
	case 3:
		c.Payload = to(rota.Blob(d.text()))
	case 4:
		c.Labels = map[string]string{d.text(): d.text()}
	}
	return ChangeJobOp(&c, int32(d.roll(3)), int32(d.roll(3)))
}

// hostileRight changes rights, with valid or invalid content.
func hostileRight(b *bench, d *dice) *fsmpb.Op {
	role := d.of("role", "root", "other", d.text())
	switch d.roll(13) {
	case 10:
		return by(pickOf(d, actorNamed("a"), actorNamed("b"), rota.CertPrincipal("role", "n")),
			sessionOp(d.of("s", "t", d.text()), func(o *fsmpb.OpenSession) {
				o.Link, o.UntilMs = d.roll(2) == 0, pickOf[int64](d, 0, 0, startClock+40_000, d.number())
			}))
	case 11:
		return by(sessionOf(d.of("s", "t"), d.of("a", "b")), claimOp(d.of("s", "t"), d.of("x", "y")))
	case 12:
		return by(pickOf(d, actorNamed("a"), sessionOf("s", "a")), endSessionOp(d.of("s", "t", "a", d.text())))
	case 8:
		if d.roll(3) == 0 {
			return noIssuerOp(d.of(idp, d.text()))
		}
		return issuerOp(d.of(idp, idp+"/x", d.text()), mapTo(d.of("sub", d.text()), d.of("ann", "a*", d.text()), role))
	case 9:
		return b.exchangeOp(byte(d.roll(3)), d.of("a", "b"), func(x *fsmpb.Exchange) {
			x.Claim, x.Value, x.Role, x.UntilMs = d.of("sub", d.text()), d.of("ann", d.text()), role, pickOf[int64](d,
				x.UntilMs, x.UntilMs, d.number())
		})
	case 0:
		op := roleOp(role, rota.Grant{Right: rota.Right(d.roll(18)), Tenant: d.of("*", "t*", "t1", d.text()),
			Queue: d.of("*", "default", "")}, rota.Grant{Right: rota.RightSubmit, Tenant: d.of("*", "t1"), Queue: "*"})
		op.GetSetRole().MaxWorkflows, op.GetSetRole().MaxWorkers = pickOf[int64](d, 0, 0, 1,
			d.number()), pickOf[int64](d, 0, 0, 0, d.number())
		return op
	case 1:
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: role}}}
	case 2, 3:
		wish := tokenWish(d.of("a", "b"), role)
		wish.Tenants, wish.ExpiresMs = []string{d.of("*", "t*", "t1")}, pickOf[int64](d, wish.ExpiresMs,
			startClock+40_000, d.number())
		if d.roll(3) == 0 {
			return initOp(wish, func(op *fsmpb.InitAuth) { op.Reset_ = d.roll(2) == 0 })
		}
		return tokenOp(wish)
	case 4:
		return revokeOp(d.of("a", "b"))
	case 5:
		return blockOp(role, d.of("n", d.text()), d.roll(2) == 0)
	case 6:
		return anonymousOp(role)
	default:
		return submitOp(jobSpec(d.id("j"), func(s *rota.JobSpec) { s.Tenant = rota.TenantID(d.id("t")) }))
	}
}

// hostileDelete deletes a job by the number of its end, or by another number.
func hostileDelete(b *bench, d *dice) *fsmpb.Op {
	id := rota.JobID(d.id("j"))
	seq, _, _ := b.View.Tombstone(id)
	if d.roll(3) == 0 {
		seq = uint64(d.roll(30))
	}
	return DeleteJobOp(id, seq)
}

// hostileReport is a verifier's report, on a given lease or on nothing.
func hostileReport(d *dice, seen []rota.Lease) *fsmpb.Op {
	l := seen[max(0, len(seen)-1-d.roll(8))]
	r := &fsmpb.ReportProof{Job: string(l.Job), Lease: l.ID[:], Reason: d.text()}
	switch d.roll(6) {
	case 0:
		r.Job, r.Lease = d.id("j"), make([]byte, d.roll(40))
	case 1:
		r.Spec = entry.SpecOp(jobSpec(d.id("j"), func(s *rota.JobSpec) {
			s.RetryOnInvalidProof, s.Queue, s.Priority = true, rota.QueueName(d.queue()), int32(d.number())
		}))
	}
	return &fsmpb.Op{Op: &fsmpb.Op_ReportProof{ReportProof: r}}
}

// FuzzRecord checks that a loader that is given any record rejects it or keeps a sound state.
func FuzzRecord(f *testing.F) {
	b := busyBench(f)
	b.run(diamond("wf"))
	b.upload(diamond("open"))
	gates := newDAG("gates", [][]uint32{nil, nil, {0, 1}}, gateAt(0, rota.Gate{}),
		gateAt(1, rota.Gate{Timeout: time.Hour}), gateAt(2, rota.Gate{}))
	b.run(gates)
	b.ok(gates.signal("n0", "s", "out"))
	b.ok(gates.signal("n2", "early", "kept"))
	b.run(newDAG("ended", make([][]uint32, 3)))
	b.ok(entry.CancelWorkflowOp("ended"))
	grows := newDAG("grows", [][]uint32{nil, {0}})
	b.run(grows)
	b.worker("spare", 100)
	b.grows(grows, "n0", children("a", "b", "c<a"))
	frozen := b.Freeze()
	_ = frozen.Records(func(kind byte, rec []byte) error { f.Add(kind, append([]byte(nil), rec...)); return nil })
	f.Fuzz(func(t *testing.T, kind byte, rec []byte) {
		l, err := NewLoader(frozen.Info())
		if err != nil {
			t.Fatal(err)
		}
		if l.Add(kind, rec) != nil {
			return
		}
		// Every accepted input is derived and checked as if its digest were right.
		m := l.m
		m.Header.Hash = state.HashRow(&m.Ledger.Enc, state.TagHeader, &m.Header)
		m.Ledger.Add(m.Header.Hash)
		l.want.Digest, l.want.Index, l.want.ClusterID = m.Ledger.Sum, m.Header.Index, m.Header.Cluster
		if m, err = l.Finish(); err != nil {
			return
		}
		data, _ := entry.Seal(&fsmpb.Entry{Term: m.Header.Term, NowMs: int64(m.Header.Clock),
			Ops: []*fsmpb.Op{sweepOp(), submitOp(jobSpec("j"))}}, entry.FirstRules)
		if _, err := m.Apply(m.Header.Index+1, m.Header.Term, data); err != nil {
			t.Fatal(err)
		}
	})
}

// hostileBatch opens or seals a batch.
func hostileBatch(d *dice) *fsmpb.Op {
	if d.roll(3) == 0 {
		return entry.SealOp(rota.BatchID(d.id("b")))
	}
	return batchOp(d.id("b"), pickOf[int64](d, 0, 1, 2, d.number()), func(s *rota.JobSpec) {
		s.Queue, s.Tenant, s.Priority = rota.QueueName(d.queue()), rota.TenantID(d.id("t")), int32(d.roll(12))
		if d.roll(6) == 0 {
			s.ID, s.Batch = rota.JobID(d.text()), rota.BatchID(d.text())
		}
	})
}

// hostileSchedule does something with a schedule.
func hostileSchedule(b *bench, d *dice) *fsmpb.Op {
	name := d.id("s")
	switch d.roll(7) {
	case 0:
		return pauseOp(name, d.roll(2) == 0, d.roll(2) == 0)
	case 1:
		return triggerOp(name, d.id("x"))
	case 2:
		return backfillOp(name, uint64(d.roll(3)), rota.Overlap(d.roll(6)), rota.Date(d.number()),
			b.Header.Date()-rota.Date(d.roll(9)))
	case 3:
		return unscheduleOp(name)
	case 5:
		op := tzdataOp(d.of("2026f", "2026g", "x"))
		op.GetSetTzdata().Data = make([]byte, pickOf(d, 0, 1, 2, rota.MaxTZDataBytes+1))
		return op
	case 4:
		due, _ := DueOf(&b.View, rota.ScheduleName(name))
		from, until := int64(due.Through), int64(b.Header.Date())
		return &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: &fsmpb.Fire{Name: name, Version: due.Version,
			FromMs:  pickOf(d, from, from, d.number()),
			UntilMs: pickOf(d, until, until, d.number()), DatesMs: []int64{from + 1,
				pickOf(d, until, until-1, d.number())}[:d.roll(3)],
			Missed: uint64(pickOf(d, 0, 0, d.number())), Tzdata: pickOf(d, installedName(b), installedName(b), "")}}}
	}
	return scheduleOp(name, func(s *rota.ScheduleSpec) {
		s.Overlap, s.Limit, s.Jitter = rota.Overlap(d.roll(6)), pickOf[int64](d, 0, 2,
			d.number()), millis.Duration(pickOf[int64](d, 0, 500, d.number()))
		s.Job.Queue, s.Job.Tenant = rota.QueueName(d.queue()), rota.TenantID(d.id("t"))
		s.PauseOnFailure = d.roll(2) == 0
	})
}
