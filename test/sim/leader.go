package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	startClock  = 1_700_000_000_000
	sweepEvery  = 250
	inFlight    = 4
	backupTicks = 40
)

// leadership is one term of a node as leader (SPEC §3.3–3.10).
type leadership struct {
	w    *World
	node *node
	term uint64
	// dead means that its proposals no longer commit; over means that it knows.
	dead, over bool
	// ready means that its own BeginTerm has applied.
	ready     bool
	lastStamp rota.Clock
	lastAt    Time
	c         rota.Clock
	stamped   int
	settled   int
	began     rota.Clock
	waiting   []*proposal
	flying    []*flight
	sweeping  bool
	matching  bool
	ticks     int
	beats     []beatWait
	heard     map[rota.WorkerID]rota.Clock
	next      map[rota.WorkerID]Time // the time until the next beat
	asked     map[rota.WorkerID]bool
}

type proposal struct {
	op    *fsmpb.Op
	reply func(*fsmpb.Outcome)
}

type flight struct {
	data      []byte
	proposals []*proposal
	index     int // in the log, once committed
	number    int
}

type beatWait struct {
	number int
	reply  func(rota.Clock)
}

func newLeadership(w *World, n *node, term uint64) *leadership {
	return &leadership{w: w, node: n, term: term, heard: map[rota.WorkerID]rota.Clock{}, next: map[rota.WorkerID]Time{},
		asked: map[rota.WorkerID]bool{}}
}

// begin proposes BeginTerm; nothing else happens before that has applied here.
func (l *leadership) begin() {
	w := l.w
	var random [8]byte
	binary.BigEndian.PutUint64(random[:], w.chance.Uint64())
	seed := sha256.Sum256(random[:])
	entry := &fsmpb.Entry{Term: l.term, NowMs: int64(w.chance.Uint64N(1 << 45)),
		Ops: []*fsmpb.Op{{Op: &fsmpb.Op_BeginTerm{
			BeginTerm: &fsmpb.BeginTerm{Term: l.term, Node: l.node.name, Random: seed[:], ClusterId: "sim",
				StartMs: startClock}}}}}
	data := seal(w, l.node, entry)
	w.on(&l.node.actor, w.latency(), func() {
		if l.dead {
			return
		}
		w.append(logEntry{l.term, data})
		// Entries of deposed leaders may still arrive, under this term.
		waiting := w.orphans
		w.orphans = nil
		for _, o := range waiting {
			if w.Ghosts && w.ghostly.IntN(2) == 0 { // not yet: terms later
				w.orphans = append(w.orphans, o)
				continue
			}
			w.append(logEntry{l.term, o.data})
		}
	})
}

// landed handles an entry applied on the leader's own node.
func (l *leadership) landed(index int, a *fsm.Applied) {
	w := l.w
	if !l.ready {
		if a.Term != l.term {
			return
		}
		l.ready, l.c, l.began = true, a.Clock, a.Clock
		l.lastStamp, l.lastAt = a.Clock, l.node.local(w.now)
		w.audit.ready(l)
		set := []*fsmpb.Label{{Key: "lease_ms", Value: fmt.Sprint(l.w.LeaseMs)}}
		for _, s := range l.w.Policy {
			set = append(set, &fsmpb.Label{Key: s.Key, Value: s.Value})
		}
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "default", Set: set}}}, nil)
		w.on(&l.node.actor, 0, l.tick)
		return
	}
	if l.dead || len(l.flying) == 0 || l.flying[0].index != index {
		return
	}
	f := l.flying[0]
	l.flying = l.flying[1:]
	l.c, l.settled = a.Clock, f.number
	for i, p := range f.proposals {
		if p.reply != nil {
			p.reply(a.Outcomes[i])
		}
	}
	rest := l.beats[:0]
	for _, b := range l.beats {
		if b.number <= f.number {
			b.reply(a.Clock)
		} else {
			rest = append(rest, b)
		}
	}
	l.beats = rest
	l.launch()
}

// propose accepts a command; pending commands share the next entry.
func (l *leadership) propose(op *fsmpb.Op, reply func(*fsmpb.Outcome)) {
	if l.over || !l.ready {
		return
	}
	l.waiting = append(l.waiting, &proposal{op, reply})
	l.launch()
}

// refilled removes the rounds from an entry if other rounds can replace them that use the capacity freed by its
// completions.
func (l *leadership) refilled(f *flight, entry *fsmpb.Entry) bool {
	isRound := func(op *fsmpb.Op) bool { return op.GetRound() != nil }
	rest := slices.DeleteFunc(slices.Clone(entry.GetOps()), isRound)
	if slices.ContainsFunc(rest, func(op *fsmpb.Op) bool { return op.GetSubmit() != nil }) ||
		l.node.machine.DecideWith(&fsm.Arrivals{Ops: rest, Now: rota.Clock(entry.GetNowMs())}, 64) == nil {
		return false
	}
	var last func(*fsmpb.Outcome)
	f.proposals = slices.DeleteFunc(slices.Clone(f.proposals), func(p *proposal) bool {
		if isRound(p.op) {
			last = p.reply
		}
		return isRound(p.op)
	})
	entry.Ops = rest
	f.proposals = append(f.proposals, &proposal{reply: last}) // it is answered by the first of the others
	l.w.audit.Refilled++
	return true
}

func (l *leadership) launch() {
	if len(l.waiting) == 0 || len(l.flying) >= inFlight || l.over {
		return
	}
	w := l.w
	f := &flight{proposals: l.waiting}
	l.waiting = nil
	entry := &fsmpb.Entry{Term: l.term, NowMs: int64(l.stamp()), WallMs: w.walls()}
	for _, p := range f.proposals {
		entry.Ops = append(entry.Ops, p.op)
	}
	rounds := slices.ContainsFunc(entry.Ops, func(op *fsmpb.Op) bool { return op.GetRound() != nil })
	if m := l.node.machine; !w.Apart && len(l.flying) == 0 &&
		l.matching == rounds { // as SPEC §2.3 has it: in the entry itself
		if rounds && l.refilled(f, entry) {
			rounds = false
		}
		for _, r := range m.DecideWith(&fsm.Arrivals{Ops: entry.GetOps(), Now: rota.Clock(entry.GetNowMs())}, 64) {
			entry.Ops = append(entry.Ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
			w.audit.With++
			if rounds {
				w.audit.Beside++
			}
		}
	}
	f.data, f.number = seal(w, l.node, entry), l.stamped
	l.flying = append(l.flying, f)
	if l.dead && w.Ghosts && w.ghostly.IntN(3) == 0 { // it has not noticed: this arrives terms later
		w.orphans = append(w.orphans, logEntry{l.term, f.data})
	}
	var commit func()
	commit = func() {
		switch {
		case l.dead || f.index != 0:
			return
		case l.node.isolatedUntil > w.now: // no majority
			w.on(&l.node.actor, l.node.isolatedUntil-w.now, commit)
			return
		}
		for _, g := range l.flying { // in their order
			if g.index == 0 {
				w.append(logEntry{l.term, g.data})
				g.index = len(w.log)
			}
			if g == f {
				return
			}
		}
	}
	w.on(&l.node.actor, w.latency(), commit)
}

// stamp calculates the stamp of SPEC §3.3.
func (l *leadership) stamp() rota.Clock {
	at := l.node.local(l.w.now)
	now := l.lastStamp + rota.Clock(at-l.lastAt)
	if !l.w.StampUncapped {
		now = min(now, l.c+limits.StampLeadMax)
	}
	now = max(now, l.c)
	l.lastStamp, l.lastAt = now, at
	l.stamped++
	return now
}

// tick performs the leader's periodic work: a sweep, a round, silence.
func (l *leadership) tick() {
	if l.over {
		return
	}
	w, m := l.w, l.node.machine
	l.silence(m)
	company := false // the rounds wait for commands that share their entry
	if !l.matching && m.Waiting() {
		if rounds := m.Decide(64); len(rounds) > 0 {
			l.matching = true
			company = len(l.flying) == 0 && len(l.waiting) == 0 && w.chance.IntN(3) == 0
			for i, r := range rounds {
				last := i == len(rounds)-1
				l.waiting = append(l.waiting, &proposal{&fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}},
					func(*fsmpb.Outcome) { l.matching = l.matching && !last }})
			}
			if !company {
				l.launch()
			}
		}
	}
	if !l.sweeping && !company { // after everything already pending
		l.sweeping = true
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}, func(*fsmpb.Outcome) { l.sweeping = false })
	}
	l.planStep(m)
	l.fireDates(m)
	l.turnBudgets(m)
	if w.switchAt >= 0 && w.now >= w.switchAt && m.Head().Rules < entry.RulesVersion {
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: entry.RulesVersion}}},
			nil)
	}
	if l.ticks++; l.ticks%backupTicks == 0 {
		l.storedBackup(m.Head().Index)
	}
	w.on(&l.node.actor, sweepEvery, l.tick)
}

// storedBackup reports a backup of the state at an index.
func (l *leadership) storedBackup(at rota.Index) {
	name := fmt.Sprintf("sim-%d-%d", l.term, at)
	sum := sha256.Sum256([]byte(name))
	l.propose(&fsmpb.Op{Op: &fsmpb.Op_BackupStored{BackupStored: &fsmpb.BackupStored{Index: uint64(at), Name: name,
		Sha256: sum[:], Bytes: uint64(at)}}}, nil)
}

// silence proposes UNREACHABLE 8 s of cluster clock after the next sign of life was due.
func (l *leadership) silence(m *fsm.Machine) {
	for _, k := range m.Workers() {
		sign := max(l.heard[k.ID], l.began)
		next, known := l.next[k.ID]
		if !known { // another leader may have received it
			next = max(beatEvery, l.w.IdleBeat)
		}
		if (k.Status != rota.WorkerActive && k.Status != rota.WorkerDraining) || l.asked[k.ID] ||
			m.Head().Clock < max(sign, k.StatusSince.Clock)+rota.Clock(next)+limits.SilenceBeyond {
			continue
		}
		id := k.ID
		l.asked[id] = true
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: string(id), Session: uint64(k.Session),
			LastSignMs: int64(max(sign, k.StatusSince.Clock))}}}, func(*fsmpb.Outcome) { delete(l.asked, id) })
	}
}

// beat accepts a worker's sign of life. The answer waits for the first entry that is stamped from now on and has
// applied; that of an UNREACHABLE worker waits for the entry that clears it (SPEC §3.9, §3.10).
func (l *leadership) beat(id rota.WorkerID, session rota.Session, next Time, reply func(rota.Clock, bool)) {
	if l.over || !l.ready {
		return
	}
	live, status := l.node.machine.Session(id)
	if live != session || status == rota.WorkerRetired {
		reply(0, false)
		return
	}
	l.heard[id], l.next[id] = max(l.heard[id], l.node.machine.Head().Clock), next
	if status == rota.WorkerUnreachable || l.asked[id] {
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: string(id), Session: uint64(session),
			Reachable: true}}}, func(o *fsmpb.Outcome) {
			if entry.OutcomeError(o) == nil {
				reply(l.node.machine.Head().Clock, true)
			}
		})
		return
	}
	if l.w.AnswerEarly {
		reply(l.node.machine.Head().Clock, true)
		return
	}
	l.beats = append(l.beats, beatWait{l.stamped + 1, func(c rota.Clock) { reply(c, true) }})
}
