package sched

import "github.com/rotasched/rota"

// candidate is a drawn job. Candidates with equal (key, Enqueued, Number) form one group; under fair share, those of
// several tenants only if their shares are equal (matcher.draw).
type candidate struct {
	item *Item
	lane *lane
	// key orders and ties; score is displayed.
	key   int64
	score int64
	// open (leases) and weight are its tenant's share under fair share before the draw; otherwise both are 0.
	open, weight int64
}

func (c candidate) ties(o candidate) bool {
	return c.key == o.key && c.item.Enqueued == o.item.Enqueued && c.item.Number == o.item.Number
}

// equals reports whether the tenants of both candidates have the same share.
func (c candidate) equals(o candidate) bool {
	return compareShares(c.open, c.weight, o.open, o.weight) == 0
}

// source returns a round's candidates in the order of its ranking. It skips a job of a class without room, or of a lane
// that is shut, for the rest of the round: room and allowances only shrink.
type source interface {
	// peek returns the next candidate without drawing it.
	peek(r *rooms) (candidate, bool)
	// take draws the candidate that the last peek returned. The rooms must not have changed since.
	take()
	// group returns the whole group that begins with the candidate of the last peek, including skipped jobs: groups are
	// cut in ranking order, regardless of room (SPEC §7.5). Under fair share there is no such order before the draw,
	// and ok is false: a group is then a run of drawn candidates.
	group(first candidate) (all []*Item, ok bool)
	// more reports, after peek found nothing, whether to try again.
	more(r *rooms) bool
}

// pendingSource draws from a Pending without changing it. It merges the ordered levels and keeps state only for the
// parts it drew from.
type pendingSource struct {
	pending *Pending
	draft   *Draft
	queue   rota.QueueName
	policy  *rota.QueuePolicy
	now     rota.Clock
	// groups iterates over the groups not drawn from yet; next is the first of them.
	groups cursor[*group]
	next   *group
	// turns holds the groups already drawn from.
	turns heap[*turn]
	// streamSlab and turnSlab are allocated but unused elements; each slab is twice as large as the one before.
	streamSlab  []stream
	turnSlab    []turn
	streamsMade int
	turnsMade   int
	seats       seats
}

// maxSlab is the maximum size of a slab. The first has one element: most rounds draw a job or two, and allocated
// memory has to be cleared.
const maxSlab = 64

// turn is a group in the draw: its share so far and its remaining candidates.
type turn struct {
	open, weight int64
	streams      heap[*stream]
	last         lastScope
	// few is the initial storage of the heap.
	few [2]*stream
}

// stream is an ordered run of candidates; head is the first. It iterates over a group's cells, one cell's lanes, or one
// lane's items.
type stream struct {
	head  entry
	class ClassID
	cell  *cell // for cells: the cell of head
	lane  *lane // otherwise
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

// gatherCells is the maximum number of cells with room that are gathered one by one, so that a few jobs with room are
// not searched for among many without.
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
	case open <= d.maxGather:
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

// gather adds exactly the groups that have a cell with room.
func (s *pendingSource) gather(r *rooms, only *group) {
	var turnOf map[*group]*turn // except the first
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

// turn creates a group's turn, allocated in slabs like streams.
func (s *pendingSource) turn(g *group) *turn {
	if len(s.turnSlab) == 0 {
		s.turnsMade = min(max(2*s.turnsMade, 1), maxSlab)
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

// of returns the lane of a stream's head.
func (st *stream) of() *lane {
	if st.kind == ofCells {
		l, _ := st.cell.lanes.min()
		return l
	}
	return st.lane
}

// leave skips the rest of the first candidate's lane, which is shut. Under fair share it skips all lanes of the tenant
// if the tenant is shut.
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

// nextIsFirst reports whether the next group may come before every turn. Its head may be of a class without room; the
// group then comes later than its head suggests, never earlier.
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

// enter creates a turn for a group, unless none of its cells has room.
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

// take draws the first candidate of the first turn: its lease counts as open for the later draws (SPEC §4.11).
func (s *pendingSource) take() {
	if s.pending.fairShare {
		s.turns.list[0].open++
	}
	s.step()
}

// step skips the first candidate.
func (s *pendingSource) step() {
	t := s.turns.list[0]
	first := t.streams.list[0]
	// The rest of the lane and the other lanes of the cell are added on their own; the stream continues after them.
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

// walkItems adds a lane's items except the first to a turn.
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

// stream returns a new stream, allocated in slabs.
func (s *pendingSource) stream() *stream {
	if len(s.streamSlab) == 0 {
		s.streamsMade = min(max(2*s.streamsMade, 1), maxSlab)
		s.streamSlab = make([]stream, s.streamsMade)
	}
	st := &s.streamSlab[0]
	s.streamSlab = s.streamSlab[1:]
	return st
}

// advance moves the first stream on, or drops it at its end. rooms is given when its class has no room: it then skips
// every cell without room, and a stream of one class ends at once.
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
