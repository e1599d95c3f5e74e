package sched

// seats follows the ranking order of a queue without fair share during the draw, to determine where groups are cut:
// after every sixteenth of the tied jobs, counted from the first of them, whether they have room or not (SPEC §7.5). It
// reads only runs that hold a candidate with room, each at most once a round.
type seats struct {
	walk cursor[seat]
	// next is the first seat after the last group, zero at the end.
	next seat
	all  []*Item
}

// group returns the group that a candidate is in.
func (s *pendingSource) group(first candidate) (all []*Item, ok bool) {
	if s.pending.fairShare {
		return nil, false
	}
	run := seat{entry: entryOf(first.item)}
	if s.seats.next.item == nil || !run.ties(s.seats.next) {
		start := run
		start.item = &Item{Number: first.item.Number}
		s.seats.walk = s.pending.seats.from(start, seatLess)
		s.seats.step(s.draft)
	}
	for {
		s.seats.all = s.seats.all[:0]
		found := false
		for len(s.seats.all) < groupMax && s.seats.next.item != nil && run.ties(s.seats.next) {
			found = found || s.seats.next.item == first.item
			s.seats.all = append(s.seats.all, s.seats.next.item)
			s.seats.step(s.draft)
		}
		if found || len(s.seats.all) == 0 {
			return s.seats.all, true
		}
	}
}

// step moves to the next seat whose lane is not throttled and whose job is neither assigned nor withheld.
func (s *seats) step(d *Draft) {
	for {
		var ok bool
		if s.next, ok = s.walk.next(); !ok {
			return
		}
		if s.next.lane.head.item != nil && !d.out(s.next.item) {
			return
		}
	}
}

func (s seat) ties(o seat) bool {
	return s.key == o.key && s.age == o.age && s.item.Number == o.item.Number
}
