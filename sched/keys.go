package sched

import (
	"slices"
	"strings"
)

// Keyring is what the rows say of jobs' keys (SPEC §19).
type Keyring interface {
	// Counts appends the names of the counts that hold a job of keys back, none for most; the job is
	// one that waits for its turn in a sequence if it is not ok. It is asked when the job is filed.
	Counts(it *Item, to []string) (counts []string, ok bool)
	// Party names the one that a job is of where parties take turns (SPEC §19.4); "" is that of the
	// jobs that name none.
	Party(it *Item) string
	// Turn returns how many turns the party of a job had that is the first of it to wait, where
	// others wait that had least at least; with none it had as many as before.
	Turn(it *Item, least int64, others bool) int64
	// Full reports whether no job of a count may be assigned now.
	Full(count string) bool
}

// Keys are the counts that jobs' keys stand in, over all queues. A full one takes its lanes
// out of the index, as a tenant at its limit does: a round looks at none of them, however
// many there are.
type Keys struct {
	ring Keyring
	rows map[string]*keyRow
	// room is for the names of one job's counts; spare are rows without lanes, to be used anew.
	room  []string
	spare []*keyRow
}

// spareRows bounds the spare rows: where each job has a key of its own, as many as wait come and go.
// spareLanes bounds the lanes that one has room for.
const (
	spareRows  = 1 << 10
	spareLanes = 8
)

// NewKeys starts with no job filed.
func NewKeys(ring Keyring) *Keys { return &Keys{ring: ring, rows: map[string]*keyRow{}} }

// keyRow is one count that has lanes.
type keyRow struct {
	name string
	full bool
	// waits says that it stands for the jobs whose turn in a sequence has not come.
	waits bool
	lanes []keyedLane
}

// keyedLane is a lane of a count, in the lanes of its queue; at is the count's place in it.
type keyedLane struct {
	pending *Pending
	lane    *lane
	at      int
}

// laneKeys are the counts of a lane, nil without; at is its place in a count's list.
type laneKeys []laneCount

type laneCount struct {
	row *keyRow
	at  int
}

// waitsForTurn is the name of the count of all jobs that wait in a sequence.
const waitsForTurn = "\x00"

// SetKeys gives the lanes of a queue the keys of its jobs, before the first job is filed.
func (p *Pending) SetKeys(k *Keys) { p.keys, p.laneAt = k, map[*Item]*lane{} }

// countsOf names the counts of a job in one text, as its lane's key has it.
func (p *Pending) countsOf(it *Item) string {
	counts, ok := p.keys.ring.Counts(it, p.keys.room[:0])
	if !ok {
		return waitsForTurn
	}
	p.keys.room = counts
	return strings.Join(counts, waitsForTurn)
}

// returns asks for the turns of a party that waits again.
func (k *Keys) returns(p *Pending, it *Item) int64 {
	least := p.least
	if !least.held {
		least = p.leastTurn()
	}
	return k.ring.Turn(it, least.turn, least.others)
}

// leastTurn is the least turn of the parties that wait; others says that any does.
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

// holdLeast has all parties whose lanes come back before freeLeast go on from the turns of those
// that wait now: which lane comes back first, of lanes in no order, must decide nothing.
func (p *Pending) holdLeast() {
	if p.grouped && !p.least.held {
		p.least = p.leastTurn()
		p.least.held = true
	}
}

func (p *Pending) freeLeast() { p.least = leastTurn{} }

// Parties calls yield with each party that waits, and how many turns it is filed with, in their
// order. It calls it for none where parties do not take turns.
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

// file enters a lane under one more of its counts.
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

// row returns one without lanes.
func (k *Keys) row() *keyRow {
	last := len(k.spare) - 1
	if last < 0 {
		return &keyRow{}
	}
	row := k.spare[last]
	k.spare = k.spare[:last]
	return row
}

// leave is the inverse of enter.
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

// SetFull takes the lanes of a count out of the index, or puts them back.
func (k *Keys) SetFull(count string, full bool) {
	row := k.rows[count]
	if row == nil || row.full == full {
		return
	}
	row.full = full
	for _, l := range row.lanes {
		l.pending.holdLeast()
		l.pending.settle(l.lane)
		l.pending.settleAge(l.lane)
	}
	for _, l := range row.lanes {
		l.pending.freeLeast()
	}
}

// Forget takes the lanes of a queue that is dropped, or filed anew, out of the counts.
func (p *Pending) Forget() {
	for _, lanes := range p.bands {
		for _, l := range lanes {
			if l.keys != nil {
				p.keys.leave(l)
			}
		}
	}
}

// full reports whether a count of the lane is.
func (k laneKeys) full() bool {
	return slices.ContainsFunc(k, func(c laneCount) bool { return c.row.full })
}

// key is what is left of a count.
func (a *allowance) key(row *keyRow) *int64 {
	left := a.ofKey[row]
	if left == nil {
		left = new(int64) // a turn that has not come leaves nothing
		if !row.waits {
			*left = a.caps.Key(row.name)
		}
		put(&a.ofKey, row, left)
	}
	return left
}
