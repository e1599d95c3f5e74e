package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Time is true time in milliseconds, which no process in the world can read.
type Time int64

// Options describes a world and the faults in it. The last options are bugs, planted to check that they are found.
type Options struct {
	Seed    uint64
	Nodes   int
	Workers int
	Jobs    int
	LeaseMs int64
	// Faults occur until the world is healed at Heal; it must then drain by End, or by four times that while a job is
	// running.
	Heal, End Time
	// Quiet disables random faults: a directed test brings its own.
	Quiet bool
	// Policy holds the queue's settings in addition to LeaseMs, in the form that `queue set` accepts.
	Policy []rota.Setting
	// Flows is the number of workflows submitted in addition to the jobs.
	Flows int
	// Ghosts: replaced processes keep sending, and proposals of deposed leaders arrive terms later.
	Ghosts bool
	// Guards: a worker that dies has a guard, which reports it to the cluster.
	Guards bool
	// Grace: workers number their connections and keep SPEC §16.7.
	Grace bool
	// IdleBeat is the interval of beats of workers without a lease, 0 for that of all others (SPEC §3.9).
	IdleBeat Time
	// Deletes: some jobs are deleted once they have ended.
	Deletes bool
	// Orders: some attempts are interrupted, and some jobs run before their time.
	Orders bool
	// Uniques: some jobs are unique by a key.
	Uniques bool
	// Logs: nodes deliver logs of attempts that expired.
	Logs bool
	// Plans: plans process some jobs.
	Plans bool
	// Keys: some jobs have keys with rules.
	Keys bool
	// Schedules: jobs that run on dates.
	Schedules bool
	// Turns: some of the keys take turns.
	Turns bool
	// Wide: a queue whose jobs request processors backfills.
	Wide bool
	// Polls: some workers get leases only while they poll.
	Polls bool
	// Batches: some jobs belong to batches, which end with callbacks.
	Batches bool
	// Edits: several clients that have read the same version of an object change it.
	Edits bool
	// Hooks: a webhook follows the events, decided by several leaders.
	Hooks bool
	// Removals: queues, tenants and workers are deleted, some queues drained first.
	Removals bool
	// Tokens: some callers present tokens, which are revoked while in use; some workers may work for some tenants only,
	// and those tenants change.
	Tokens bool
	// Apart: no round is in the entry of its submissions.
	Apart bool
	// Owners: principals of a role with small limits create and delete queues, tenants and tokens.
	Owners bool
	// Calm: no message is randomly lost, doubled or late.
	Calm bool
	// Skip holds the numbers of the faults that do not happen.
	Skip map[int]bool

	// StampUncapped: a leader stamps any distance ahead of the applied state.
	StampUncapped bool
	// ViewFromReceipt: a worker counts a deadline from the arrival of the answer (H28).
	ViewFromReceipt bool
	// NoAckBy: a worker believes in the deadline before its ack is known.
	NoAckBy bool
	// HearEnded: a node confirms beats of a connection that it has seen end.
	HearEnded bool
	// NoGrace: a worker claims to keep a lease's grace but does not.
	NoGrace bool
	// AnswerEarly: a leader answers a beat without waiting for a later entry.
	AnswerEarly bool
}

// actor is a process that may crash or pause.
type actor struct {
	name string
	// life grows with each crash: messages to an earlier life are lost.
	life        int
	down        bool
	pausedUntil Time
	// ppm is how much faster than true time its monotonic clock runs.
	ppm int64
	// offset is how far its clock is ahead of that: it stopped, or changed its pace.
	offset Time
}

func (a *actor) local(t Time) Time { return t + Time(int64(t)*a.ppm/1_000_000) + a.offset }

type event struct {
	at   Time
	seq  uint64
	who  *actor
	life int
	do   func()
	// slept means that it was due while its actor slept, and is postponed until it wakes.
	slept bool
}

type agenda []*event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(*event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// World is one run.
type World struct {
	Options
	chance *rand.Rand
	now    Time
	seq    uint64
	agenda agenda
	log    []logEntry
	term   uint64
	leader *leadership
	// past is the previous leadership, which may not have noticed its end.
	past    *leadership
	nodes   []*node
	workers []*worker
	client  *client
	// wires carries nodes' reports of ended connections.
	wires     actor
	flows     *flowClient
	deleter   *deleter
	keyer     *keyer
	scheduler *scheduler
	batcher   *batcher
	hooker    *hooker
	logs      *logKeeper
	audit     *auditor
	// entries holds the sealed entries, by the first byte of the sealed data.
	entries map[*byte]*fsmpb.Entry
	// switchAt is when a leader switches to the newest rules; negative means never.
	switchAt Time
	// ghostly is the random source of ghosts; faults counts and lists the faults of Break.
	ghostly *rand.Rand
	faults  []string
	// orphans holds entries of deposed leaders that may still be appended (H20).
	orphans []logEntry
}

type logEntry struct {
	term uint64
	data []byte
}

// node is a replica.
type node struct {
	actor
	machine  *fsm.Machine
	applied  int
	applying bool
	// snapshot is the last snapshot: the records and their index.
	snapshot *snapshot
	// lag is the time to apply one entry; isolatedUntil cuts it off from the others.
	lag           Time
	isolatedUntil Time
	conns         []*worker
	links         map[rota.WorkerID]*link
	index         int
}

type snapshot struct {
	info    rota.SnapshotInfo
	records []kindRecord
}

type kindRecord struct {
	kind byte
	rec  []byte
}

// NewWorld returns a world in which nothing has happened yet.
func NewWorld(o Options) *World {
	w := &World{Options: o, chance: rand.New(rand.NewPCG(o.Seed, 0x5eed)),
		ghostly: rand.New(rand.NewPCG(o.Seed, 0x6057)),
		entries: map[*byte]*fsmpb.Entry{}}
	w.audit = newAuditor(w)
	w.switchAt = switchTime(o)
	for i := range o.Nodes {
		n := &node{machine: fsm.New(), index: i, lag: 1, links: map[rota.WorkerID]*link{}}
		n.name, n.ppm = fmt.Sprint("n", i), int64(w.chance.IntN(401)-200)
		w.nodes = append(w.nodes, n)
	}
	for i := range o.Workers {
		w.workers = append(w.workers, newWorker(w, i))
	}
	if w.Grace {
		w.on(&w.wires, 0, func() { w.tellBroken(&w.wires) })
	}
	w.client = newClient(w)
	w.flows, w.deleter = newFlowClient(w), newDeleter(w)
	newOrderer(w)
	newUniquer(w)
	newWidener(w)
	w.keyer, w.scheduler = newKeyer(w), newScheduler(w)
	w.logs = newLogKeeper(w)
	newBulker(w)
	w.batcher = newBatcher(w)
	newClerk(w)
	newJanitor(w)
	newOwner(w)
	newEditor(w)
	w.hooker = newHooker(w)
	return w
}

// switchTime draws when a leader switches to the newest rules: at once, in the middle of a life, or never.
func switchTime(o Options) Time {
	dice := rand.New(rand.NewPCG(o.Seed, 0x2a1e5))
	switch n := dice.IntN(4); {
	case o.Quiet || n < 2:
		return 0
	case n == 2:
		return Time(dice.Int64N(int64(max(o.Heal, 1))))
	default:
		return -1
	}
}

// on runs an actor's action after a delay, unless it crashes meanwhile; a paused actor runs it when it wakes.
func (w *World) on(who *actor, after Time, do func()) {
	w.seq++
	heap.Push(&w.agenda, &event{at: w.now + max(after, 0), seq: w.seq, who: who, life: who.life, do: do})
}

// Run runs until the given time or the first violation.
func (w *World) Run(until Time) error {
	for len(w.agenda) > 0 && w.agenda[0].at <= until && w.audit.fault == nil {
		e := heap.Pop(&w.agenda).(*event)
		w.now = e.at
		switch {
		case e.life != e.who.life || e.who.down:
		case e.who.pausedUntil > w.now:
			w.seq++
			e.at, e.seq, e.slept = e.who.pausedUntil, w.seq, true
			heap.Push(&w.agenda, e)
		default:
			e.do()
		}
	}
	w.now = max(w.now, until)
	return w.audit.fault
}

func (w *World) healing() bool { return w.Quiet || w.now >= w.Heal }

// chanceOf returns true once in n, never once the world is healed.
func (w *World) chanceOf(n int) bool { return w.chance.IntN(n) == 0 && !w.healing() && !w.Calm }

// latency draws how long a message takes; some take very long.
func (w *World) latency() Time {
	switch {
	case w.chanceOf(150):
		return Time(w.chance.IntN(12_000))
	case w.chanceOf(20):
		return Time(w.chance.IntN(600))
	default:
		return Time(1 + w.chance.IntN(8))
	}
}

// send carries a message: it may be lost, late or duplicated.
func (w *World) send(open bool, to *actor, do func()) {
	if !open || w.chanceOf(40) {
		return
	}
	w.on(to, w.latency(), do)
	if w.chanceOf(40) {
		w.on(to, w.latency(), do)
	}
}

func (w *World) linked(a, b *node) bool {
	return a == b || a.isolatedUntil <= w.now && b.isolatedUntil <= w.now
}

// append adds an entry to the log and lets every node apply it.
func (w *World) append(e logEntry) {
	w.log = append(w.log, e)
	for _, n := range w.nodes {
		w.wake(n)
	}
}

func (w *World) wake(n *node) {
	if n.applying || n.down {
		return
	}
	n.applying = true
	w.on(&n.actor, w.lagOf(n), func() { w.applyOne(n) })
}

// lagOf returns a node's lag: an isolated node receives nothing new.
func (w *World) lagOf(n *node) Time {
	return max(n.lag, n.isolatedUntil-w.now)
}

func (w *World) applyOne(n *node) {
	n.applying = false
	if n.applied >= len(w.log) {
		return
	}
	if n.isolatedUntil > w.now {
		w.wake(n)
		return
	}
	e := w.log[n.applied]
	n.applied++
	a, err := n.machine.Apply(rota.Index(n.applied), e.term, e.data)
	if err != nil {
		w.audit.failf("node %s: %v", n.name, err)
		return
	}
	w.audit.applied(n, &a)
	w.publish(n, &a)
	if l := w.leader; l != nil && l.node == n {
		l.landed(n.applied, &a)
	}
	if n.applied < len(w.log) {
		w.wake(n)
	}
}

// publish pushes changes to the workers connected to the node.
func (w *World) publish(n *node, a *fsm.Applied) {
	for i := range a.Events {
		e := &a.Events[i]
		for _, k := range n.conns {
			if k.id != e.Worker || k.session != e.Session || k.conn != n {
				continue
			}
			w.logs.hears(n, e)
			switch e.Kind {
			case rota.EventJobAssigned:
				if given, ok := n.machine.Assignment(e.Lease); ok {
					w.send(k.reaches(n), &k.actor, func() { k.assigned(given) })
				}
			case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseRevoked:
				id, revoked := e.Lease, e.Kind == rota.EventLeaseRevoked
				w.send(k.reaches(n), &k.actor, func() { k.told(id, revoked) })
			}
		}
	}
}

// Snapshot saves the state from which the node restarts.
func (w *World) Snapshot(n *node) {
	f := n.machine.Freeze()
	s := &snapshot{info: f.Info()}
	if err := f.Records(func(kind byte, rec []byte) error {
		s.records = append(s.records, kindRecord{kind, append([]byte(nil), rec...)})
		return nil
	}); err != nil {
		w.audit.failf("node %s: snapshot: %v", n.name, err)
	}
	n.snapshot = s
}

func (s *snapshot) load() (*fsm.Machine, error) {
	l, err := fsm.NewLoader(s.info)
	if err != nil {
		return nil, err
	}
	for _, r := range s.records {
		if err := l.Add(r.kind, r.rec); err != nil {
			return nil, err
		}
	}
	return l.Finish()
}

// Crash stops a node; Restart brings it back from its snapshot and the log.
func (w *World) Crash(n *node) {
	n.life++
	n.down, n.applying = true, false
	n.links = map[rota.WorkerID]*link{}
	if w.leader != nil && w.leader.node == n {
		w.depose()
	}
}

// Restart brings a node back.
func (w *World) Restart(n *node) {
	if !n.down {
		return
	}
	n.down, n.machine, n.applied = false, fsm.New(), 0
	if n.snapshot != nil {
		m, err := n.snapshot.load()
		if err != nil {
			w.audit.failf("node %s: restart: %v", n.name, err)
			return
		}
		n.machine, n.applied = m, int(n.snapshot.info.Index)
	}
	w.wake(n)
}

// Elect makes a node leader of the next term and deposes the previous one.
func (w *World) Elect(n *node) {
	w.depose()
	w.term++
	w.leader = newLeadership(w, n, w.term)
	w.leader.begin()
}

// depose ends the leadership: entries in flight commit in their old place, are lost, or wait in a channel to be
// appended in a later term (H5, H20).
func (w *World) depose() {
	l := w.leader
	if l == nil {
		return
	}
	w.leader = nil
	w.audit.deposed(l)
	lost := false
	for _, f := range l.flying {
		switch lost = lost || w.chance.IntN(2) == 0; {
		case !lost:
			w.append(logEntry{l.term, f.data})
		case w.chance.IntN(3) == 0:
			w.orphans = append(w.orphans, logEntry{l.term, f.data})
		}
	}
	// It continues as before until it learns of it, but none of its proposals ever commits.
	l.dead, w.past = true, l
	if l.node.down {
		l.over = true
		return
	}
	w.on(&l.node.actor, Time(w.chance.IntN(1500)), func() { l.over = true })
}

// seal seals an entry with the rules that are in force at the leading node.
func seal(w *World, n *node, e *fsmpb.Entry) []byte {
	data, err := entry.Seal(e, n.machine.Head().Rules)
	if err != nil {
		w.audit.failf("seal: %v", err)
	}
	w.entries[&data[0]] = e
	return data
}
