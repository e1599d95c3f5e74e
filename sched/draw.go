package sched

import "github.com/rotasched/rota"

// candidate is a drawn job. Those that tie on (key, Enqueued, Number) go in one group, and under
// fair share those of several tenants only as equals (matcher.draw).
type candidate struct {
	item *Item
	lane *lane
	// key orders and ties; score is shown.
	key   int64
	score int64
	// open leases by weight are its tenant's share under fair share before it was drawn; else
	// both are 0.
	open, weight int64
}

func (c candidate) ties(o candidate) bool {
	return c.key == o.key && c.item.Enqueued == o.item.Enqueued && c.item.Number == o.item.Number
}

// equals reports whether neither candidate's tenant had the lesser share.
func (c candidate) equals(o candidate) bool {
	return compareShares(c.open, c.weight, o.open, o.weight) == 0
}

// source gives a round its candidates in the order of its ranking. A job of a
// class without room, or of a lane that is shut, is passed over, which is for
// good: room and allowances only shrink.
type source interface {
	// peek returns the next candidate without drawing it.
	peek(r *rooms) (candidate, bool)
	// take draws the candidate that the last peek gave. Nothing may have
	// happened to the rooms in between.
	take()
	// group returns all of the group that the candidate of the last peek begins,
	// those passed over included: groups are cut in the ranking order, whatever
	// has room (SPEC §7.5). Under fair share there is no such order before the
	// draw, and ok is false: a group is a run of what is drawn.
	group(first candidate) (all []*Item, ok bool)
	// more says, after peek found nothing, that it is worth another try.
	more(r *rooms) bool
}

// pendingSource draws from a Pending without changing it: a merge of its
// ordered levels, in which only what was drawn from has a state of its own.
type pendingSource struct {
	pending *Pending
	draft   *Draft
	queue   rota.QueueName
	policy  *rota.QueuePolicy
	now     rota.Clock
	// groups walks those not yet drawn from, next is the first of them.
	groups cursor[*group]
	next   *group
	// turns holds the others.
	turns heap[*turn]
	// streamSlab and turnSlab are made but not yet given out; each is twice as large as the one before.
	streamSlab  []stream
	turnSlab    []turn
	streamsMade int
	turnsMade   int
	seats       seats
}

// slabMost bounds a slab. The first is of one: most rounds draw a job or two, and what is made
// is cleared.
const slabMost = 64

// turn is a group in the draw: its share so far and what is left of it.
type turn struct {
	open, weight int64
	streams      heap[*stream]
	last         lastScope
	// few is where the heap starts.
	few [2]*stream
}

// stream is a run of candidates in order, of which head is the first. It walks
// a group's cells, one cell's lanes, or one lane's items.
type stream struct {
	head  entry
	class ClassID
	cell  *cell // of cells: the one that head is of
	lane  *lane // else
	kind  streamKind
	cells cursor[*cell]
	lanes cursor[*lane]
	items cursor[entry]
}

type streamKind uint8

const (
	ofCells streamKind = iota
	ofLanes
	ofItems
)

func streamLess(a, b *stream) bool { return entryLess(a.head, b.head) }

func turnLess(a, b *turn) bool {
	if c := compareShares(a.open, a.weight, b.open, b.weight); c != 0 {
		return c < 0
	}
	return streamLess(a.streams.list[0], b.streams.list[0])
}

// gatherCells is how many cells with room are at most gathered one by one, so
// that a few jobs that can go are not looked for among many that cannot.
const gatherCells = 1024

// newPendingSource draws from all groups, or from only one.
func newPendingSource(p *Pending, r *rooms, in RoundInput, d *Draft, only *group) *pendingSource {
	s := &pendingSource{pending: p, draft: d, queue: in.Queue, policy: in.Policy, now: in.Now}
	s.turns.less = turnLess
	open := 0
	for i, d := range p.demands {
		if i < len(r.classes) && r.classes[i].open {
			open += len(d.cells)
		}
	}
	switch {
	case r.wide:
	case open <= d.gatherMost:
		s.gather(r, only)
		return s
	case only != nil:
		s.enter(only, r)
		return s
	}
	s.groups = p.groups.cursor()
	s.next, _ = s.groups.next()
	return s
}

// gather brings in exactly the groups that have a cell with room.
func (s *pendingSource) gather(r *rooms, only *group) {
	var turnOf map[*group]*turn // but of the first
	var turns []*turn
	var first *group
	for i, d := range s.pending.demands {
		if i >= len(r.classes) || !r.classes[i].open {
			continue
		}
		for _, c := range d.cells {
			if only != nil && c.group != only {
				continue
			}
			t := turnOf[c.group]
			switch {
			case c.group == first:
				t = turns[0]
			case t == nil:
				if t = s.turn(c.group); first == nil {
					first = c.group
				} else {
					put(&turnOf, c.group, t)
				}
				turns = append(turns, t)
			}
			s.walkLanes(t, c, c.lanes.cursor())
		}
	}
	for _, t := range turns {
		s.turns.push(t)
	}
}

// turn gives a group a new turn; they are made a slab at a time, like streams.
func (s *pendingSource) turn(g *group) *turn {
	if len(s.turnSlab) == 0 {
		s.turnsMade = min(max(2*s.turnsMade, 1), slabMost)
		s.turnSlab = make([]turn, s.turnsMade)
	}
	t := &s.turnSlab[0]
	s.turnSlab = s.turnSlab[1:]
	t.open, t.weight = g.open+s.draft.shares[g], g.weight
	t.streams = heap[*stream]{t.few[:0], streamLess}
	return t
}

func (s *pendingSource) peek(r *rooms) (candidate, bool) {
	for {
		if s.next != nil && s.nextIsFirst() {
			s.enter(s.next, r)
			s.next, _ = s.groups.next()
			continue
		}
		if len(s.turns.list) == 0 {
			return candidate{}, false
		}
		t := s.turns.list[0]
		first := t.streams.list[0]
		if s.draft.out(first.head.item) {
			s.step()
			continue
		}
		if !r.has(first.class) {
			t.advance(r)
			s.settle(t)
			continue
		}
		l := first.of()
		if s.draft.shut(s.queue, l) || r.barredNear(l, &t.last) {
			s.leave(l)
			continue
		}
		it := first.head.item
		c := candidate{item: it, lane: l, key: it.Key, score: ScoreAt(s.policy, it.Key, s.now)}
		if s.pending.fairShare {
			c.open, c.weight = t.open, t.weight
		}
		return c, true
	}
}

func (s *pendingSource) more(*rooms) bool { return false }

// of is the lane of a stream's head.
func (st *stream) of() *lane {
	if st.kind == ofCells {
		l, _ := st.cell.lanes.min()
		return l
	}
	return st.lane
}

// leave leaves all of the first candidate's lane behind, which is shut; under
// fair share all of the tenant's, if the tenant is.
func (s *pendingSource) leave(l *lane) {
	if s.pending.fairShare && !s.pending.grouped && s.draft.shutTenant(s.queue, l) {
		s.turns.pop()
		return
	}
	t := s.turns.list[0]
	first := t.streams.list[0]
	switch cell := first.cell; first.kind {
	case ofCells:
		lanes := cell.lanes.cursor()
		lanes.next()
		t.advance(nil)
		s.walkLanes(t, cell, lanes)
	case ofLanes:
		t.advance(nil)
	case ofItems:
		t.streams.pop()
	}
	s.settle(t)
}

// nextIsFirst reports whether the next group may come before every turn. Its head
// may be of a class without room; then it comes later than it says, never
// earlier.
func (s *pendingSource) nextIsFirst() bool {
	if len(s.turns.list) == 0 {
		return true
	}
	t := s.turns.list[0]
	if c := compareShares(s.next.open, s.next.weight, t.open, t.weight); c != 0 {
		return c < 0
	}
	return entryLess(s.next.head, t.streams.list[0].head)
}

// enter makes a group a turn, unless none of its cells has room.
func (s *pendingSource) enter(g *group, r *rooms) {
	cells := g.cells.cursor()
	for c, ok := cells.next(); ok; c, ok = cells.next() {
		if !r.has(c.demand.class) {
			continue
		}
		t := s.turn(g)
		st := s.stream()
		*st = stream{head: c.head, class: c.demand.class, cell: c, kind: ofCells, cells: cells}
		t.streams.push(st)
		s.turns.push(t)
		return
	}
}

// settle restores the order after the first turn changed.
func (s *pendingSource) settle(t *turn) {
	if len(t.streams.list) == 0 {
		s.turns.pop()
	} else {
		s.turns.sink()
	}
}

// take draws the first candidate of the first turn: its lease counts as open
// for the later draws (SPEC §4.11).
func (s *pendingSource) take() {
	if s.pending.fairShare {
		s.turns.list[0].open++
	}
	s.step()
}

// step leaves the first candidate behind.
func (s *pendingSource) step() {
	t := s.turns.list[0]
	first := t.streams.list[0]
	// The rest of the lane and the other lanes of the cell come in on their own;
	// the stream goes on behind them.
	switch first.kind {
	case ofCells:
		lanes := first.cell.lanes.cursor()
		l, _ := lanes.next()
		cell := first.cell
		t.advance(nil)
		s.walkLanes(t, cell, lanes)
		s.walkItems(t, l)
	case ofLanes:
		l := first.lane
		t.advance(nil)
		s.walkItems(t, l)
	case ofItems:
		t.advance(nil)
	}
	s.settle(t)
}

// walkLanes adds the rest of a cell's lanes to a turn.
func (s *pendingSource) walkLanes(t *turn, c *cell, lanes cursor[*lane]) {
	l, ok := lanes.next()
	if !ok {
		return
	}
	st := s.stream()
	*st = stream{head: l.head, class: c.demand.class, lane: l, kind: ofLanes, lanes: lanes}
	t.streams.push(st)
}

// walkItems adds a lane's items but the first to a turn.
func (s *pendingSource) walkItems(t *turn, l *lane) {
	items := l.items.cursor()
	items.next()
	head, ok := items.next()
	if !ok {
		return
	}
	st := s.stream()
	*st = stream{head: head, class: l.key.class, lane: l, kind: ofItems, items: items}
	t.streams.push(st)
}

// stream returns a new stream; they are made a slab at a time.
func (s *pendingSource) stream() *stream {
	if len(s.streamSlab) == 0 {
		s.streamsMade = min(max(2*s.streamsMade, 1), slabMost)
		s.streamSlab = make([]stream, s.streamsMade)
	}
	st := &s.streamSlab[0]
	s.streamSlab = s.streamSlab[1:]
	return st
}

// advance moves the first stream on, or drops it at its end. With rooms given,
// it is moved because its class has no room: past every cell without, and a
// stream of one class ends at once.
func (t *turn) advance(r *rooms) {
	st := t.streams.list[0]
	ok := false
	switch {
	case st.kind == ofCells:
		for st.cell, ok = st.cells.next(); ok; st.cell, ok = st.cells.next() {
			if r == nil || r.has(st.cell.demand.class) {
				st.head, st.class = st.cell.head, st.cell.demand.class
				break
			}
		}
	case r != nil:
	case st.kind == ofLanes:
		if st.lane, ok = st.lanes.next(); ok {
			st.head = st.lane.head
		}
	default:
		st.head, ok = st.items.next()
	}
	if ok {
		t.streams.sink()
	} else {
		t.streams.pop()
	}
}
