package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// maxStreak is where a streak stops counting: no cool_after is beyond it.
const maxStreak = 1 << 30

// declineCools reports whether a decline bars its type. Else it costs its worker
// nothing, and its job waits a moment.
func declineCools(p *rota.QueuePolicy) bool { return p.DeclineCools && p.CoolAfter > 0 }

// cools counts a failure or a decline of a type, and bars the type where that is too
// many in a row for the queue, or a decline. It says whether a bar was set. Only a
// success begins the count anew: each failure after a cooldown cools down again.
func (r *workerRow) cools(typ rota.JobType, p *rota.QueuePolicy, now rota.Clock, cause rota.Reason) bool {
	if p.CoolAfter == 0 {
		return false
	}
	counted := streak{typ, 1}
	list := make([]streak, 0, len(r.failing)+1) // older copies of the row share the old one
	for _, s := range r.failing {
		if s.typ == typ {
			counted.n = min(s.n+1, maxStreak)
		} else {
			list = append(list, s)
		}
	}
	if len(list) >= limits.MaxTypesPerWorker {
		list = list[1:]
	}
	r.failing = append(list, counted)
	if counted.n < p.CoolAfter && cause != rota.ReasonDeclined {
		return false
	}
	r.cooling = bar(r.cooling, rota.TypeUntil{Type: typ, Until: rota.Moment{Clock: now + rota.Clock(p.CoolMs)}, Cause: cause})
	return true
}

// succeeds begins the count of a type's failures anew.
func (r *workerRow) succeeds(typ rota.JobType) {
	at := slices.IndexFunc(r.failing, func(s streak) bool { return s.typ == typ })
	if at >= 0 {
		r.failing = slices.Delete(slices.Clone(r.failing), at, at+1)
	}
}

// bar puts a type at the end of a list, until a moment; the oldest gives way. What
// bars the type already bars it no shorter. The list is a new one: older copies of
// the row share the old one.
func bar(list []rota.TypeUntil, b rota.TypeUntil) []rota.TypeUntil {
	barred := make([]rota.TypeUntil, 0, len(list)+1)
	for _, t := range list {
		switch {
		case t.Type != b.Type:
			barred = append(barred, t)
		case t.Until.Clock > b.Until.Clock:
			b = t
		}
	}
	if len(barred) >= limits.MaxTypesPerWorker {
		barred = barred[1:]
	}
	return append(barred, b)
}

// lasting are the bars that are not over; nil where none is.
func lasting(list []rota.TypeUntil, now rota.Clock) (left []rota.TypeUntil) {
	for _, t := range list {
		if t.Until.Clock > now {
			left = append(left, t)
		}
	}
	return left
}

// declineDelay is what a job waits that a worker declined, for the n-th time in its
// attempt (SPEC §16.1).
func declineDelay(n int32) rota.Clock {
	return min(limits.DeclineDelayMost, limits.DeclineDelay<<min(n-1, 20))
}
