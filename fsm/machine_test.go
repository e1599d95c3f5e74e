package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"google.golang.org/protobuf/proto"
)

// bench drives a machine like a log and its leader, and a second one that gets the same bytes. After each entry
// digests, outcomes, events and the next rounds must be equal; at random the second machine is replaced by one that
// went through a snapshot. A test sees the first.
type bench struct {
	*Machine
	t      tester
	twin   *Machine
	chance *rand.Rand
	term   uint64
	now    rota.Clock
	// every is the number of entries between two checks of the invariants.
	every   int
	entries int
	log     [][]byte
	keepLog bool
	walls   []int64
	// moves follows the events if a test requires it.
	moves *moveWatch
}

// tester is the common part of testing.TB and rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

const startClock = 1_700_000_000_000

// newBench starts a cluster in term 1.
func newBench(t tester) *bench {
	b := emptyBench(t)
	b.lead()
	return b
}

func emptyBench(t tester) *bench {
	return &bench{t: t, Machine: New(), twin: New(), chance: rand.New(rand.NewPCG(1, 2)), every: 1, now: startClock}
}

// watchMoves compares events with the state after each entry; call it before there are jobs.
func (b *bench) watchMoves() {
	b.moves = &moveWatch{t: b.t, states: make(map[rota.JobID]rota.JobState)}
}

// lead begins the next term.
func (b *bench) lead() Applied {
	b.term++
	return b.entry(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: b.term, Node: "n1",
		Random: bytes.Repeat([]byte{byte(b.term)}, 32), ClusterId: "test", StartMs: startClock}}})
}

// entry stamps operations, applies them to both machines, and compares. Like a leader, it adds the payloads of revived
// jobs if it has them.
func (b *bench) entry(ops ...*fsmpb.Op) Applied {
	b.t.Helper()
	for _, op := range ops {
		if r := op.GetRetry(); r != nil && r.Spec == nil {
			r.Spec, r.Past = b.pastOf(r.Job)
			if job, ok := b.View.Job(rota.JobID(r.Job)); ok && job.State.Terminal() {
				r.Life = job.Life
			} else {
				r.Life = max(job.Life, 1) - 1
			}
		}
		if r := op.GetReportProof(); r != nil && r.Past == nil {
			spec, past := b.pastOf(r.Job)
			if r.Past = past; r.Spec == nil {
				r.Spec = spec
			}
		}
	}
	return b.stamped(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: ops, WallMs: b.walls}, b.term)
}

func (b *bench) stamped(e *fsmpb.Entry, logTerm uint64) Applied {
	b.t.Helper()
	data, err := entry.Seal(e, b.Header.Rules)
	if err != nil {
		b.t.Fatalf("seal: %v", err)
	}
	return b.apply(data, logTerm)
}

func (b *bench) apply(data []byte, logTerm uint64) Applied {
	b.t.Helper()
	if b.keepLog {
		b.log = append(b.log, data)
	}
	index := b.Header.Index + 1
	got, err := b.Machine.Apply(index, logTerm, data)
	if err != nil {
		b.t.Fatalf("apply: %v", err)
	}
	// The twin copies every row that it changes, as frozen rows must not change.
	b.twin.JobTable.Freeze()
	b.twin.leasing.leases.Freeze()
	b.twin.fleet.workers.Freeze()
	b.twin.QueueTable.Freeze()
	b.twin.admission.tenants.Freeze()
	b.twin.budgets.AccountRows.Freeze()
	want, err := b.twin.Apply(index, logTerm, data)
	if err != nil {
		b.t.Fatalf("apply to the twin: %v", err)
	}
	b.now = max(b.now, b.Header.Clock)
	b.compare(got, want)
	if b.moves != nil {
		b.moves.entry(&got, b.Machine)
	}
	b.entries++
	if b.entries%b.every == 0 {
		b.sound()
	}
	if b.chance.IntN(8*b.every) == 0 {
		b.twin = b.restored()
	}
	if b.chance.IntN(4) == 0 { // nodes flush at any time: only the twin does
		var seqs []uint64
		for _, s := range b.twin.View.Staged(1+b.chance.IntN(4), 1<<30) {
			seqs = append(seqs, s.Seq)
		}
		b.twin.View.Archived(seqs)
	}
	return got
}

func (b *bench) pastOf(id string) (*fsmpb.JobSpec, *fsmpb.Past) {
	if s, ok := b.View.StagedJob(rota.JobID(id)); ok {
		job := s.Ended().Job
		return entry.SpecOp(&job.JobSpec), PastOp(&job)
	}
	return nil, nil
}

func (b *bench) compare(got, want Applied) {
	b.t.Helper()
	if got.Digest != want.Digest {
		b.t.Fatalf("entry %d: digest %s, the twin has %s", got.Index, got.Digest, want.Digest)
	}
	if !reflect.DeepEqual(got.Events, want.Events) || got.Sweep != want.Sweep {
		b.t.Fatalf("entry %d: events\n%+v\nthe twin's\n%+v", got.Index, got.Events, want.Events)
	}
	for i := range got.Outcomes {
		if !proto.Equal(got.Outcomes[i], want.Outcomes[i]) {
			b.t.Fatalf("entry %d: outcome %v, the twin's %v", got.Index, got.Outcomes[i], want.Outcomes[i])
		}
	}
}

// sound checks the invariants, and compares the pairs that both machines would match.
func (b *bench) sound() {
	b.t.Helper()
	if faults := b.Check(); len(faults) > 0 {
		b.t.Fatalf("entry %d: %q", b.Header.Index, faults)
	}
	if mine, its := fmt.Sprint(b.View.Decide(1000)), fmt.Sprint(b.twin.View.Decide(1000)); mine != its {
		b.t.Fatalf("entry %d: the rounds would be\n%s\nthe twin's\n%s", b.Header.Index, mine, its)
	}
}

// restored returns the state after a snapshot and back.
func (b *bench) restored() *Machine {
	b.t.Helper()
	m, err := reload(b.Machine)
	if err != nil {
		b.t.Fatalf("restore: %v", err)
	}
	m.flows.flowIndex.steps, m.flows.flowIndex.looks = b.flows.flowIndex.steps, b.flows.flowIndex.looks // a test may lower them
	return m
}

func reload(m *Machine) (*Machine, error) {
	f := m.Freeze()
	l, err := NewLoaderKnowing(f.Info(), m.Knows)
	if err != nil {
		return nil, err
	}
	if err := f.Records(func(kind byte, rec []byte) error { return l.Add(kind, rec) }); err != nil {
		return nil, err
	}
	return l.Finish()
}

// pass lets time pass like a leader: with sweeps every 250 ms.
func (b *bench) pass(ms rota.Clock) (events []rota.Event) {
	b.t.Helper()
	for end := b.now + ms; b.now < end; {
		b.now = min(b.now+250, end)
		a := b.entry(sweepOp())
		events = append(events, a.Events...)
		for a.Sweep.More {
			a = b.entry(sweepOp())
			events = append(events, a.Events...)
		}
	}
	return events
}

// ok applies one operation that must not be refused.
func (b *bench) ok(op *fsmpb.Op) *fsmpb.Outcome {
	b.t.Helper()
	o := b.entry(op).Outcomes[0]
	if err := entry.OutcomeError(o); err != nil {
		b.t.Fatalf("refused: %v", err)
	}
	return o
}

// refuses applies one operation that must be refused, naming kind and subject, and must change only the header.
func (b *bench) refuses(kind rota.Kind, subject string, op *fsmpb.Op) *fsmpb.Outcome {
	b.t.Helper()
	before := b.rowsDigest()
	o := b.entry(op).Outcomes[0]
	err := entry.OutcomeError(o)
	if err == nil || err.Kind != kind || err.Subject != subject {
		b.t.Fatalf("outcome %v, want a refusal %s of %q", o, kind, subject)
	}
	if before != b.rowsDigest() {
		b.t.Fatalf("the refusal %v changed the state", err)
	}
	return o
}

// existed applies one operation that was applied before, and must change only the header.
func (b *bench) existed(op *fsmpb.Op) {
	b.t.Helper()
	before := b.rowsDigest()
	if o := b.ok(op); !o.GetExisted() {
		b.t.Fatalf("outcome %v: the job existed before", o)
	}
	if before != b.rowsDigest() {
		b.t.Fatal("the repetition changed the state")
	}
}

// rowsDigest returns the digest without the header.
func (b *bench) rowsDigest() rota.Digest {
	d := b.View.Digest()
	d.Hi, d.Lo = d.Hi-b.Header.Hash.Hi, d.Lo-b.Header.Hash.Lo
	return d
}

// submit submits a job to the default queue, with a 1-byte payload.
func (b *bench) submit(id string, change ...func(*rota.JobSpec)) {
	b.t.Helper()
	b.ok(submitOp(jobSpec(id, change...)))
}

// worker registers a worker for the default queue.
func (b *bench) worker(id string, slots int32, change ...func(*rota.WorkerSpec)) rota.Session {
	b.t.Helper()
	return rota.Session(b.ok(registerOp(id, slots, id, false, change...)).GetSession())
}

// match decides and applies rounds, and returns the lease of each job placed.
func (b *bench) match() map[rota.JobID]rota.Lease {
	b.t.Helper()
	leases := make(map[rota.JobID]rota.Lease)
	rounds := b.View.Decide(1000)
	if len(rounds) == 0 {
		return leases
	}
	for _, e := range b.entry(opsOf(rounds)...).Events {
		if e.Kind == rota.EventJobAssigned {
			a, ok := b.View.Assignment(e.Lease)
			if !ok {
				b.t.Fatalf("lease %s was assigned and is not open", e.Lease)
			}
			leases[e.Job] = a.Lease
		} else if e.Kind == rota.EventAssignmentDropped {
			b.t.Fatalf("assignment dropped: %+v", e)
		}
	}
	return leases
}

func opsOf(rounds []*fsmpb.Round) []*fsmpb.Op {
	ops := make([]*fsmpb.Op, len(rounds))
	for i, r := range rounds {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
	}
	return ops
}

// roundOps returns the next entry of rounds.
func roundOps(b *bench) []*fsmpb.Op { return opsOf(b.View.Decide(1000)) }

// roundOp returns a round of one pair that no leader decided.
func roundOp(b *bench, job, worker string) *fsmpb.Op {
	return opsOf([]*fsmpb.Round{{Epoch: b.Header.Epoch + 1, Queue: "default",
		Pairs: []*fsmpb.Pair{{Job: job, Worker: worker}}}})[0]
}

// inOrder returns leases in the order in which they were made.
func inOrder(leases map[rota.JobID]rota.Lease) []rota.Lease {
	return slices.SortedFunc(maps.Values(leases), func(a, b rota.Lease) int {
		return cmp.Compare(a.Token.Counter, b.Token.Counter)
	})
}

// leased submits a job and returns its lease at a new worker.
func (b *bench) leased(job, worker string, change ...func(*rota.JobSpec)) rota.Lease {
	b.t.Helper()
	b.worker(worker, 100)
	b.submit(job, change...)
	l, ok := b.match()[rota.JobID(job)]
	if !ok {
		b.t.Fatalf("job %s was not placed", job)
	}
	return l
}

func (b *bench) state(id string, want rota.JobState) rota.Job {
	b.t.Helper()
	j, _ := b.View.Job(rota.JobID(id))
	if j.State != want {
		b.t.Fatalf("job %s is %s (%s), want %s", id, j.State, j.Reason, want)
	}
	return j
}

func jobSpec(id string, change ...func(*rota.JobSpec)) *rota.JobSpec {
	s := rota.NewJobSpec("work", []byte("x"))
	s.ID, s.Tenant = rota.JobID(id), rota.DefaultTenant
	for _, f := range change {
		f(&s)
	}
	return &s
}

func submitOp(s *rota.JobSpec) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(s)}}}
}

func registerOp(id string, slots int32, secret string, takeover bool, change ...func(*rota.WorkerSpec)) *fsmpb.Op {
	w := &rota.WorkerSpec{ID: rota.WorkerID(id), Queues: []rota.QueueName{rota.DefaultQueue}, Slots: slots}
	for _, f := range change {
		f(w)
	}
	hash := make([]byte, 32)
	copy(hash, secret)
	return &fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{Spec: entry.WorkerOp(w), SecretHash: hash,
		Takeover: takeover}}}
}

// verb is the command of a lease's own worker, modified by change.
func verb(v rota.LeaseVerb, l rota.Lease, change ...func(*peer.LeaseCommand)) *fsmpb.Op {
	c := &peer.LeaseCommand{Verb: v, Lease: l.ID, Job: l.Job, Worker: l.Worker, Session: l.Session,
		Ordinal: l.Renewals + 1}
	for _, f := range change {
		f(c)
	}
	return entry.LeaseCommandOp(c)
}

// failAs draws, from a number below 10, how an attempt fails.
func failAs(i int) (peer.FailKind, time.Duration) {
	switch i {
	case 0, 1, 2, 3:
		return peer.FailNoRetry, 0
	case 4:
		return peer.FailRetryAfter, 5 * time.Second
	case 5:
		return peer.FailSnooze, 3 * time.Second
	case 6:
		return peer.FailCancel, 0
	}
	return peer.FailRetry, 0
}

func sweepOp() *fsmpb.Op { return &fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}} }

func cancelOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: id}}}
}

func retryOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: id}}}
}

func statusOp(id string, s rota.WorkerStatus, session rota.Session) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{Worker: id, Status: uint32(s),
		Session: uint64(session)}}}
}

// linked makes a registration number its connection and support the grace of its leases.
func linked(op *fsmpb.Op, connection uint64) *fsmpb.Op {
	op.GetRegister().Connection, op.GetRegister().Grace = connection, true
	return op
}

func disconnectOp(id string, session rota.Session, connection uint64) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Disconnect{Disconnect: &fsmpb.Disconnect{Worker: id, Session: uint64(session),
		Connection: connection}}}
}

// polling makes a worker register as polling.
func polling(op *fsmpb.Op) *fsmpb.Op {
	op.GetRegister().Polls = true
	return op
}

func offerOp(id string, session rota.Session, poll uint64, free int32, until rota.Clock) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: id, Session: uint64(session), Poll: poll,
		Free: free, UntilMs: int64(until)}}}
}

// goneOp is the report of a guard with a secret as registerOp writes it.
func goneOp(id string, session rota.Session, secret string) *fsmpb.Op {
	hash := registerOp(id, 1, secret, false).GetRegister().GetSecretHash()
	return &fsmpb.Op{Op: &fsmpb.Op_Gone{Gone: &fsmpb.Gone{Worker: id, Session: uint64(session), SecretHash: hash}}}
}

func reachOp(id string, session rota.Session, reachable bool, sign rota.Clock) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: id, Session: uint64(session), Reachable: reachable,
		LastSignMs: int64(sign)}}}
}

// queueOp sets keys given as key, value, key, value.
func queueOp(name string, pairs ...string) *fsmpb.Op {
	op := &fsmpb.SetQueue{Name: name}
	for i := 0; i+1 < len(pairs); i += 2 {
		op.Set = append(op.Set, &fsmpb.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: op}}
}
