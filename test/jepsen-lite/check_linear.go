package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// The phases of a job, as coarse as users can tell them apart: when a lease
// runs out is nobody's to see, so what is not over is live.
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

// life is one state of a job: TESTING §5.1 with tokens as numbers, in their
// order. holder is the newest token while its lease may be open, 0 if it is not.
type life struct {
	phase        phase
	last, holder uint16
}

// linearMost bounds the operations on one job, stepsMost the search.
const (
	linearMost = 64
	stepsMost  = 2_000_000
)

// checkLinear searches, for each job by itself, an order of its operations that
// one queue could have done, each between its invocation and its return.
func checkLinear(v *view) (found []Anomaly) {
	long, deep := 0, 0
	for _, id := range v.ids {
		s := newSearch(v, id)
		if len(s.ops) > linearMost {
			long++
			continue
		}
		ok := s.from(0, life{})
		v.linearSteps += s.steps
		switch {
		case s.steps > stepsMost:
			deep++
		case !ok:
			found = append(found, Anomaly{IDs: []string{id}, At: s.stuckAt(), Text: fmt.Sprintf(
				"no order explains job %s: %s", id, s.tell())})
		}
	}
	if long+deep > 0 {
		v.undecided = append(v.undecided, fmt.Sprintf("linear: %d jobs had too many operations, %d too many orders",
			long, deep))
	}
	v.figures["linear_jobs"], v.figures["linear_steps"] = len(v.ids)-long-deep, v.linearSteps
	return found
}

// search is the search for one job.
type search struct {
	ops    []*Op
	tokens []rota.Token
	// mortal: a lease that runs out may kill the job.
	mortal bool
	tried  map[tried]struct{}
	steps  int
	// best is the most operations that were in order at once.
	best     uint64
	bestLife life
}

type tried struct {
	done uint64
	life life
}

func newSearch(v *view, id string) *search {
	s := &search{mortal: v.Queues[v.queue[id]].AttemptMax < 100, tried: make(map[tried]struct{})}
	for _, op := range v.jobs[id] {
		if judged(op) {
			s.ops = append(s.ops, op)
			if !op.Token.IsZero() && !slices.Contains(s.tokens, op.Token) {
				s.tokens = append(s.tokens, op.Token)
			}
		}
	}
	slices.SortFunc(s.tokens, func(a, b rota.Token) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Counter, b.Counter))
	})
	return s
}

// judged says whether an operation tells or changes anything. A decline does
// neither: a lease may end at any moment as it is.
func judged(op *Op) bool {
	switch op.Func {
	case opSubmit, opCancel, opReport:
		return op.Did != didDecline
	case opStart, opGrant:
		return true
	case opGet, opWait:
		return op.Outcome != Unknown
	default:
		return false
	}
}

// invoked is when an operation may have happened first. What a worker was given
// was decided some time before it saw it.
func invoked(op *Op) int64 {
	if op.Func == opStart || op.Func == opGrant {
		return 0
	}
	return op.Invoke
}

// from tries all orders of what is left.
func (s *search) from(done uint64, now life) bool {
	if done == 1<<len(s.ops)-1 {
		return true
	}
	if s.steps++; s.steps > stepsMost {
		return false
	}
	at := tried{done, now}
	if _, again := s.tried[at]; again {
		return false
	}
	s.tried[at] = struct{}{}
	if ones(done) >= ones(s.best) {
		s.best, s.bestLife = done, now
	}
	first := never
	for i, op := range s.ops {
		if done&(1<<i) == 0 {
			first = min(first, op.Return)
		}
	}
	if first == never { // only what may never have happened is left
		return true
	}
	for i, op := range s.ops {
		if done&(1<<i) != 0 || invoked(op) > first {
			continue
		}
		for _, next := range s.step(now, op) {
			if s.from(done|1<<i, next) {
				return true
			}
		}
	}
	return false
}

func ones(mask uint64) (n int) {
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// stuckAt is when the first operation that found no place returned.
func (s *search) stuckAt() int64 {
	first := never
	for i, op := range s.ops {
		if s.best&(1<<i) == 0 {
			first = min(first, op.Return)
		}
	}
	return first
}

// tell words the longest order and what did not fit after it.
func (s *search) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "after %d of %d operations it is %s (last token %d, open %d); left are", ones(s.best), len(s.ops),
		phaseNames[s.bestLife.phase], s.bestLife.last, s.bestLife.holder)
	told := 0
	for i, op := range s.ops {
		if s.best&(1<<i) == 0 && told < 6 {
			told++
			fmt.Fprintf(&b, " [%s %s %s %s %s by %s at %s, %s]", op.Func, op.Did, op.Outcome, op.State+op.Kind,
				op.Token, op.Process, op.Node, times(op))
		}
	}
	return b.String()
}

func times(op *Op) string {
	if op.Return == never {
		return seconds(op.Invoke) + " …"
	}
	return seconds(op.Invoke) + " to " + seconds(op.Return)
}
