package sched

import (
	"math"
	"slices"
	"strings"
)

// Keyring answers questions about jobs' keys from the state (SPEC §19).
type Keyring interface {
	// Counts appends the names of the counts that limit a job of keys; most jobs have none. ok is false if the job
	// waits for its turn in a sequence. It is called when the job is filed.
	Counts(it *Item, to []string) (counts []string, ok bool)
	// Party returns a job's party where parties take turns (SPEC §19.4); "" is the party of jobs that name none.
	Party(it *Item) string
	// Turn returns the number of turns to file a party with when the job is the first of it to wait. least is the least
	// number of turns of the other waiting parties, if others is true; otherwise the party keeps its previous number.
	Turn(it *Item, least int64, others bool) int64
	// Full reports whether no job of a count may be assigned now.
	Full(count string) bool
}

// Keys holds the counts of jobs' keys over all queues. A full count removes its lanes from the index, like a tenant at
// its limit: rounds look at none of them, however many there are.
type Keys struct {
	ring Keyring
	rows map[string]*keyRow
	// room is a buffer for the names of one job's counts; spare are rows without lanes, for reuse.
	room  []string
	spare []*keyRow
	// All reports that jobs without keys may have counts too.
	All bool
}

// spareRows limits the spare rows: if each job has its own key, as many rows come and go as jobs wait. spareLanes
// limits the lane capacity of a spare row.
const (
	spareRows  = 1 << 10
	spareLanes = 8
)

// NewKeys returns Keys without any filed job.
func NewKeys(ring Keyring) *Keys { return &Keys{ring: ring, rows: map[string]*keyRow{}} }

// keyRow is one count that has lanes.
type keyRow struct {
	name string
	full bool
	// waits reports whether the row is for jobs whose turn in a sequence has not come.
	waits bool
	lanes []keyedLane
}

// keyedLane is a lane of a count and the queue's Pending that contains it; at is the index of the count in the lane.
type keyedLane struct {
	pending *Pending
	lane    *lane
	at      int
}

// laneKeys are the counts of a lane, nil if it has none; at is the lane's index in a count's list.
type laneKeys []laneCount

type laneCount struct {
	row *keyRow
	at  int
}

// waitsForTurn is the name of the count of all jobs that wait in a sequence.
const waitsForTurn = "\x00"

// SetKeys attaches the keys of a queue's jobs to its lanes. Call it before the first job is filed.
func (p *Pending) SetKeys(k *Keys) { p.keys, p.laneAt = k, map[*Item]*lane{} }

// countsOf joins the names of a job's counts into one text, for the key of its lane.
func (p *Pending) countsOf(it *Item) string {
	counts, ok := p.keys.ring.Counts(it, p.keys.room[:0])
	if !ok {
		return waitsForTurn
	}
	p.keys.room = counts
	return strings.Join(counts, waitsForTurn)
}

// returns queries the number of turns of a party that waits again.
func (k *Keys) returns(p *Pending, it *Item) int64 {
	least := p.least
	if !least.held {
		least = p.leastTurn()
	}
	return k.ring.Turn(it, least.turn, least.others)
}

// leastTurn is the least turn of the waiting parties; others reports whether any party waits.
type leastTurn struct {
	turn         int64
	others, held bool
}

func (p *Pending) leastTurn() (l leastTurn) {
	if first, any := p.groups.min(); any {
		l = leastTurn{turn: first.open, others: true}
	}
	return l
}

// minHold fixes the least turn, until minFree, to that of the parties that wait now. All parties whose lanes come
// back in between continue from there: the arbitrary order in which lanes come back must decide nothing.
func (p *Pending) minHold() {
	if p.grouped && !p.least.held {
		p.least = p.leastTurn()
		p.least.held = true
	}
}

func (p *Pending) minFree() { p.least = leastTurn{} }

// Parties calls yield with each waiting party and its number of turns, in their order. It yields nothing if parties do
// not take turns.
func (p *Pending) Parties(yield func(party string, turn int64) bool) {
	if !p.grouped {
		return
	}
	walk := p.groups.cursor()
	for g, ok := walk.next(); ok && yield(g.party, g.open); g, ok = walk.next() {
	}
}

// enter files a lane under its counts.
func (k *Keys) enter(p *Pending, l *lane) {
	if l.key.counts == waitsForTurn {
		l.keys = make(laneKeys, 0, 1)
		k.file(p, l, waitsForTurn)
		return
	}
	l.keys = make(laneKeys, 0, 1+strings.Count(l.key.counts, waitsForTurn))
	for name := range strings.SplitSeq(l.key.counts, waitsForTurn) {
		k.file(p, l, name)
	}
}

// file enters a lane under one count.
func (k *Keys) file(p *Pending, l *lane, name string) {
	row := k.rows[name]
	if row == nil {
		row = k.row()
		row.name, row.waits = name, name == waitsForTurn
		row.full = row.waits || k.ring.Full(name)
		k.rows[name] = row
	}
	row.lanes = append(row.lanes, keyedLane{p, l, len(l.keys)})
	l.keys = append(l.keys, laneCount{row, len(row.lanes) - 1})
}

// row returns an empty row.
func (k *Keys) row() *keyRow {
	last := len(k.spare) - 1
	if last < 0 {
		return &keyRow{}
	}
	row := k.spare[last]
	k.spare = k.spare[:last]
	return row
}

// leave removes a lane from its counts.
func (k *Keys) leave(l *lane) {
	for _, c := range l.keys {
		row, last := c.row, len(c.row.lanes)-1
		moved := row.lanes[last]
		row.lanes[c.at] = moved
		moved.lane.keys[moved.at].at = c.at
		row.lanes[last] = keyedLane{}
		if row.lanes = row.lanes[:last]; last > 0 {
			continue
		}
		delete(k.rows, row.name)
		if row.name = ""; len(k.spare) < spareRows && cap(row.lanes) <= spareLanes {
			k.spare = append(k.spare, row)
		}
	}
}

// SetFull removes the lanes of a count from the index, or puts them back.
func (k *Keys) SetFull(count string, full bool) {
	row := k.rows[count]
	if row == nil || row.full == full {
		return
	}
	row.full = full
	for _, l := range row.lanes {
		l.pending.minHold()
		l.pending.settle(l.lane)
		l.pending.settleAge(l.lane)
	}
	for _, l := range row.lanes {
		l.pending.minFree()
	}
}

// Forget removes the lanes of a queue that is dropped or filed again from the counts.
func (p *Pending) Forget() {
	for _, lanes := range p.bands {
		for _, l := range lanes {
			if l.keys != nil {
				p.keys.leave(l)
			}
		}
	}
}

// full reports whether a count of the lane is full.
func (k laneKeys) full() bool {
	return slices.ContainsFunc(k, func(c laneCount) bool { return c.row.full })
}

// key returns the rest of a count.
func (a *allowance) key(row *keyRow) *keyLeft {
	left := a.ofKey[row]
	if left == nil {
		left = &keyLeft{amount: &unbounded} // a turn that has not come leaves no job
		if !row.waits {
			m := a.caps.Amount(row.name)
			left.jobs, left.amount, left.least = a.caps.Key(row.name), &unbounded, m.Least
			if m.Left != math.MaxInt64 {
				left.amount, left.pooled = a.pool(m), m.Pool != ""
			}
		}
		put(&a.ofKey, row, left)
	}
	return left
}

// unbounded is the rest of an amount without a bound; it never changes.
var unbounded int64 = math.MaxInt64

// pool returns the rest of an amount, shared by the counts that name the same pool.
func (a *allowance) pool(m Amount) *int64 {
	if m.Pool == "" {
		return &m.Left
	}
	left := a.pools[m.Pool]
	if left == nil {
		left = &m.Left
		put(&a.pools, m.Pool, left)
	}
	return left
}
