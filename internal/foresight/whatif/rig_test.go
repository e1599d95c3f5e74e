package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// leader writes a log as a leader with its workers does. Entry 1 is raft's own.
type leader struct {
	t       testing.TB
	m       *fsm.Machine
	start   *fsm.Frozen // nil for the first entry
	first   rota.Index
	now     int64
	entries map[rota.Index][]byte
	last    rota.Index
	// due are workers' future reports, by time.
	due []saying
	// lag is how many ms pass until a round is logged.
	lag int64
	// renews is how often workers renew a lease, 0 for never; failing are jobs whose first attempt fails after a
	// second; ahead is by how much wall clocks are ahead.
	renews  int64
	failing map[rota.JobID]bool
	ahead   int64
	// filled counts the entries that assigned the room of their own completions again.
	filled int
}

type saying struct {
	at int64
	op *fsmpb.Op
}

const begins = 1_700_000_000_000

func newLeader(t testing.TB) *leader {
	l := &leader{t: t, m: fsm.New(), first: 1, now: begins, entries: make(map[rota.Index][]byte), last: 1}
	l.log(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 2, Node: "a", Random: make([]byte, 32),
		ClusterId: "rig", StartMs: begins}}})
	return l
}

// Base implements Log.
func (l *leader) Base() *fsm.Machine {
	if l.start == nil {
		return fsm.New()
	}
	m, err := l.start.Thaw()
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

func (l *leader) Last() rota.Index { return l.last }

func (l *leader) Entry(i rota.Index) (uint64, []byte, error) { return 2, l.entries[i], nil }

// forgetLog makes the log begin here.
func (l *leader) forgetLog() {
	l.start = l.m.Freeze()
	for i := range l.entries {
		delete(l.entries, i)
	}
}

// log logs an entry, and makes workers start the jobs it assigns to them.
func (l *leader) log(ops ...*fsmpb.Op) {
	l.t.Helper()
	l.last++
	e := &fsmpb.Entry{Term: 2, NowMs: l.now, Ops: ops, WallMs: []int64{l.now + l.ahead}}
	if ops[0].GetBeginTerm() != nil {
		e.WallMs = []int64{begins}
	}
	data, err := entry.Seal(e, l.m.Head().Rules)
	if err != nil {
		l.t.Fatal(err)
	}
	l.entries[l.last] = data
	a, err := l.m.Apply(l.last, 2, data)
	if err != nil {
		l.t.Fatal(err)
	}
	for i, o := range a.Outcomes {
		if err := entry.OutcomeError(o); err != nil {
			l.t.Fatalf("%v: %v", ops[i], err)
		}
	}
	for i := range a.Events {
		switch e := &a.Events[i]; e.Kind {
		case rota.EventJobAssigned:
			j, _ := l.m.Job(e.Job)
			l.say(l.now+3, rota.VerbAck, e, nil)
			runs, verb := 3+j.Simulate.Milliseconds(), rota.VerbComplete
			if l.failing[e.Job] && e.Attempt == 0 {
				runs, verb = 1_000, rota.VerbFail
			}
			for n := int64(1); l.renews > 0 && n*l.renews < runs; n++ {
				l.say(l.now+n*l.renews, rota.VerbRenew, e, nil)
				l.due[slices.IndexFunc(l.due, func(s saying) bool {
					return rota.LeaseVerb(s.op.GetLease().GetVerb()) == rota.VerbRenew &&
						s.op.GetLease().GetOrdinal() == 0
				})].op.GetLease().Ordinal = int32(n)
			}
			l.say(l.now+runs, verb, e, nil)
		case rota.EventLeaseRevoked:
			l.hush(e.Lease)
			l.say(l.now+2, rota.VerbDecline, e, nil)
		case rota.EventLeaseExpired, rota.EventLeaseCancelled:
			l.hush(e.Lease)
		}
	}
}

// hush stops a worker's reports on a lease.
func (l *leader) hush(lease rota.LeaseID) {
	l.due = slices.DeleteFunc(l.due,
		func(s saying) bool { return string(s.op.GetLease().GetLease()) == string(lease[:]) })
}

func (l *leader) say(at int64, verb rota.LeaseVerb, e *rota.Event, text []byte) {
	l.due = append(l.due, saying{at, &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{Verb: uint32(verb),
		Lease: slices.Clone(e.Lease[:]), Job: string(e.Job),
		Worker: string(e.Worker), Session: uint64(e.Session), Text: string(text)}}}})
	slices.SortStableFunc(l.due, func(a, b saying) int { return cmp.Compare(a.at, b.at) })
}

// until lets time pass: workers report everything due, sweeps run every 250 ms, and rounds after each entry.
func (l *leader) until(at int64) {
	for l.now < at {
		next := min(at, l.now+250)
		if len(l.due) > 0 {
			next = min(next, max(l.due[0].at, l.now))
		}
		l.now = next
		var ops []*fsmpb.Op
		for len(l.due) > 0 && l.due[0].at <= l.now {
			ops = append(ops, l.due[0].op)
			l.due = l.due[1:]
		}
		if len(ops) == 0 {
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}})
		}
		if rounds := l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(l.now)}, limits.MaxDecide); rounds != nil {
			ops = append(ops, roundOps(rounds)...)
			l.filled++
		}
		l.log(ops...)
		l.decide()
	}
}

// decide logs rounds until nothing is left to decide.
func (l *leader) decide() {
	for l.m.Waiting() {
		rounds := l.m.Decide(limits.MaxDecide)
		if len(rounds) == 0 {
			return
		}
		l.now += l.lag
		l.log(roundOps(rounds)...)
	}
}

// submit submits a job, as a leader does: with its round if no job is pending.
func (l *leader) submit(specs ...rota.JobSpec) {
	var ops []*fsmpb.Op
	for i := range specs {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&specs[i])}}})
	}
	if !l.m.Waiting() {
		ops = append(ops, roundOps(l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(l.now)},
			limits.MaxDecide))...)
	}
	l.log(ops...)
	l.decide()
}

func (l *leader) worker(id rota.WorkerID, slots int32) {
	spec := rota.WorkerSpec{ID: id, Queues: []rota.QueueName{rota.DefaultQueue}, Slots: slots}
	hash := make([]byte, 32)
	copy(hash, id)
	l.log(&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{Spec: entry.WorkerOp(&spec), SecretHash: hash}}})
}

func (l *leader) set(settings ...string) {
	set := &fsmpb.SetQueue{Name: string(rota.DefaultQueue)}
	for i := 0; i < len(settings); i += 2 {
		set.Set = append(set.Set, &fsmpb.Label{Key: settings[i], Value: settings[i+1]})
	}
	l.log(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}})
}

// change parses changes in the form of the flags.
func change(t testing.TB, set []string, workers ...string) (c Change) {
	t.Helper()
	for _, text := range set {
		if err := c.ParseSet(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range workers {
		if err := c.ParseWorkers(text); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// load submits jobs of three tenants for 8 slots, at times more than they can run.
func (l *leader) load(jobs int) {
	for i := range 4 {
		l.worker(rota.WorkerID(fmt.Sprint("w", i)), 2)
	}
	for i := range jobs {
		l.until(l.now + int64(i*7919%401))
		spec := jobSpec(fmt.Sprintf("j%d", i), int64(200+i*6007%2_500))
		spec.Tenant, spec.Priority = rota.TenantID(fmt.Sprint("t", i%3)), int32(i%4)
		l.submit(spec)
	}
	l.until(l.now + 30_000)
}

// plantWorker makes the last entry's round name another worker.
func plantWorker(t *testing.T, l *leader, worker rota.WorkerID) {
	t.Helper()
	e, err := entry.Open(l.last, l.entries[l.last], entry.RulesVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range e.GetOps() {
		for _, p := range op.GetRound().GetPairs() {
			p.Worker = string(worker)
		}
	}
	if l.entries[l.last], err = entry.Seal(e, entry.FirstRules); err != nil {
		t.Fatal(err)
	}
}
