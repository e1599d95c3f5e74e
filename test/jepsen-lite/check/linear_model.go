package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/rotasched/rota"
)

// The phases of a job, as coarse as users can tell them apart: no user can see when a lease runs out, so every job that
// is not over is live.
type phase uint8

const (
	absent phase = iota
	live
	completed
	dead
	cancelled
	expired
)

var phaseNames = []string{"absent", "live", "completed", "dead", "cancelled", "expired"}

// life is one state of a job. Its tokens are numbered in their order; holder is the newest token while its lease may be
// open, 0 if it is not.
type life struct {
	phase        phase
	last, holder uint16
}

func (l life) String() string {
	return fmt.Sprintf("%s, last token %d, open %d", phaseNames[l.phase], l.last, l.holder)
}

// nature describes the changes that may happen to a job without any request.
type nature struct {
	// mortal means that a lease that runs out may kill it. Its time to live may pass (expires).
	mortal, expires bool
	// node means that it belongs to a workflow, which may be cancelled, or fail, and end it too.
	node bool
}

// call is an operation on a job, with its token as a number: the model's input.
type call struct {
	*Op
	of *nature
	// token is the token of its lease, shown the token whose output was seen; 0 for none.
	token, shown uint16
}

// linearModel is one job as one queue would keep it. It is not deterministic: operations without a known outcome may
// have happened or not, and leases run out unseen.
var linearModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{life{}} },
	Step: func(state, input, _ any) []any {
		now, c := state.(life), input.(*call)
		next := step(now, c)
		for _, unseen := range c.of.unseen(now) {
			next = append(next, step(unseen, c)...)
		}
		all := make([]any, len(next))
		for i := range next {
			all[i] = next[i]
		}
		return all
	},
	Hash: func(state any) uint64 {
		l := state.(life)
		return (uint64(l.phase)<<32 | uint64(l.last)<<16 | uint64(l.holder)) * 0x9e3779b97f4a7c15
	},
	DescribeOperation: func(input, _ any) string { return input.(*call).describe() },
	DescribeState:     func(state any) string { return state.(life).String() },
}).ToModel()

// unseen returns the states that a job may have reached by itself.
func (n *nature) unseen(now life) (next []life) {
	if now.phase != live {
		return nil
	}
	if n.mortal { // the last attempt may have run out, or failed
		next = append(next, life{phase: dead, last: now.last})
	}
	if n.expires {
		next = append(next, life{phase: expired, last: now.last})
	}
	if n.node {
		next = append(next, life{phase: cancelled, last: now.last})
	}
	return next
}

// step returns the states that an operation may lead to, none if it cannot have
// had this outcome in this state. An open lease may have run out before it.
func step(now life, c *call) []life {
	switch c.Func {
	case OpSubmit:
		return submitted(now, c)
	case OpStart, OpGrant:
		return leased(now, c)
	case OpCancel:
		return cancelledBy(now, c)
	case opRetry:
		return retried(now, c)
	case OpReport:
		return reported(now, c)
	default:
		return seen(now, c)
	}
}

func submitted(now life, c *call) []life {
	switch {
	case c.Outcome == Refused && now.phase != absent && (c.Kind == "EXHAUSTED" || c.Kind == "MODE"):
		return nil // a known id is answered before admission is checked (SPEC §4.1)
	case c.Outcome == Refused:
		return []life{now}
	case now.phase == absent && c.Outcome == Unknown:
		return []life{now, {phase: live}}
	case now.phase == absent:
		// A call may have been made twice internally: existed is then its own first try.
		return []life{{phase: live}}
	case c.Outcome == OK && !c.Existed:
		return nil // made twice
	default:
		return []life{now}
	}
}

func leased(now life, c *call) []life {
	switch {
	case now.phase == live && c.token > now.last:
		return []life{{live, c.token, c.token}}
	case now.phase == live && c.token == now.last && now.holder == c.token:
		return []life{now}
	default:
		return nil
	}
}

func cancelledBy(now life, c *call) []life {
	gone := life{phase: cancelled, last: now.last}
	switch {
	case c.Outcome == Unknown && now.phase == live:
		return []life{gone, now}
	case c.Outcome == Unknown:
		return []life{now}
	case c.Outcome == OK && (now.phase == live || now.phase == cancelled):
		return []life{gone}
	case c.Outcome == Refused && (c.Kind == "NOT_FOUND") == (now.phase == absent) && now.phase != live:
		return []life{now}
	default:
		return nil
	}
}

// retried revives a job that ended without completing; a live job may have been revived earlier by the same call (SPEC
// §2.7, §9.1).
func retried(now life, c *call) []life {
	again := life{phase: live, last: now.last}
	over := now.phase != absent && now.phase != live && now.phase != completed
	switch {
	case c.Outcome == Unknown && over:
		return []life{again, now}
	case c.Outcome == Unknown:
		return []life{now}
	case c.Outcome == OK && over:
		return []life{again}
	case c.Outcome == OK && now.phase == live:
		return []life{now}
	case c.Outcome == Refused && c.Kind == "NOT_FOUND":
		return when(now, absent)
	case c.Outcome == Refused && (c.Kind != "CONFLICT" || now.phase == live || now.phase == completed):
		return []life{now}
	default:
		return nil
	}
}

// reported is a worker's outcome of its lease.
func reported(now life, c *call) []life {
	open := now.phase == live && now.holder == c.token
	same := now.phase == completed && c.Did == DidComplete && now.last == c.token
	after, done := life{phase: live, last: c.token}, []life(nil)
	switch c.Did {
	case DidComplete:
		after = life{phase: completed, last: c.token}
	case DidNoRetry:
		after = life{phase: dead, last: c.token}
	case DidCancel:
		after = life{phase: cancelled, last: c.token}
	}
	if open {
		done = append(done, after)
		if (c.Did == DidFail || c.Did == DidLater) && c.of.mortal {
			done = append(done, life{phase: dead, last: c.token})
		}
	}
	switch {
	case c.Outcome == OK && same:
		return []life{now}
	case c.Outcome == OK:
		return done
	case c.Outcome == Unknown:
		return append(done, now)
	case open: // refused: its lease must have run out
		return []life{{phase: live, last: now.last}}
	case now.phase == absent || same:
		return nil
	default:
		return []life{now}
	}
}

func when(now life, p phase) []life {
	if now.phase == p {
		return []life{now}
	}
	return nil
}

// seen is the result of a read.
func seen(now life, c *call) []life {
	if c.Outcome == Refused {
		if c.Kind != "NOT_FOUND" {
			return []life{now}
		}
		return when(now, absent)
	}
	switch c.State {
	case "BLOCKED", "DELAYED", "QUEUED":
		if now.phase != live {
			return nil
		}
		return []life{{phase: live, last: now.last}}
	case "ASSIGNED", "RUNNING":
		return leased(now, c)
	case "COMPLETED":
		if now.last == 0 || c.shown != now.last {
			return nil // another attempt was accepted
		}
		return when(now, completed)
	case "DEAD":
		return when(now, dead)
	case "CANCELLED":
		return when(now, cancelled)
	default:
		return when(now, expired)
	}
}

func (c *call) describe() string {
	words := []string{c.Func, c.Did, string(c.Outcome), c.State + c.Kind}
	if c.token > 0 {
		words = append(words, "token "+c.Token.String())
	}
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	return strings.Join(words, " ") + " by " + strings.TrimSpace(c.Process+" "+c.Node)
}

// numbered assigns numbers to tokens, from 1, in their order.
func numbered(ops []*Op) map[rota.Token]uint16 {
	var all []rota.Token
	for _, op := range ops {
		if !op.Token.IsZero() {
			all = append(all, op.Token)
		}
	}
	slices.SortFunc(all, func(a, b rota.Token) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Counter, b.Counter))
	})
	number := make(map[rota.Token]uint16, len(all))
	for i, t := range slices.Compact(all) {
		number[t] = uint16(i + 1)
	}
	return number
}
