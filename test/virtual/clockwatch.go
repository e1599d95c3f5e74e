package virtual

import (
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// clockWatch checks the cluster clock twice a second: that it never goes back on a node, how long it stopped, and that
// leases of dead workers end in time.
type clockWatch struct {
	life *life
	// last holds the last clock of each process.
	last map[*process]rota.Clock
	// index is the latest entry seen applied. slow is the smallest lead of the clock over real time so far, and leapt
	// the number of leaps at that moment.
	index rota.Index
	slow  time.Duration
	leapt int64

	mu   sync.Mutex
	left []*orphan
}

// orphan is a lease whose worker died.
type orphan struct {
	belief
	died time.Time
	// stood is for how long the clock has stopped since, short for how long a leadership was younger than
	// shortLeadership.
	stood, short time.Duration
}

const (
	watchEvery = 500 * time.Millisecond
	// shortLeadership is the length of a leadership that may not have counted a worker's silence (SPEC §3.11).
	shortLeadership = 15 * time.Second
	// silenceEnds is how long after its last sign a worker's leases end (SPEC §3.10).
	silenceEnds = 40 * time.Second
	// stampLead is the most that one leap may add to the clock, rateSlack the most that commits add.
	stampLead = time.Duration(limits.StampLeadMax) * time.Millisecond
	rateSlack = 1500 * time.Millisecond
	// orphanSlack is the rest of the bound of SPEC §3.11.
	orphanSlack = 10 * time.Second
)

func newClockWatch(l *life) *clockWatch {
	return &clockWatch{life: l, last: make(map[*process]rota.Clock)}
}

// abandoned records the leases that a dead worker leaves behind.
func (w *clockWatch) abandoned(left []belief) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range left {
		w.left = append(w.left, &orphan{belief: b, died: time.Now()})
	}
}

func (w *clockWatch) run() {
	furthest, term, since := rota.Clock(0), uint64(0), time.Now()
	for w.life.pause(watchEvery) {
		w.life.keepWorkers(false)
		w.monotone()
		clock, now, index := w.life.furthest()
		w.rate(clock, index)
		if now != term {
			term, since = now, time.Now()
		}
		stood := clock <= furthest
		furthest = max(furthest, clock)
		w.orphans(stood, time.Since(since) < shortLeadership)
	}
}

// rate checks that the clock never runs away (SPEC §3.3): however far monotonic clocks leap, no more than stampLead
// enters it. A lagging node has an old clock, so only the newest entry counts.
func (w *clockWatch) rate(clock rota.Clock, index rota.Index) {
	if index < w.index || index == 0 {
		return
	}
	took := time.Since(w.life.began)
	ahead := time.Duration(clock)*time.Millisecond - took - took/100
	leaps := w.life.leaps.Load()
	if w.index == 0 || ahead < w.slow {
		w.slow, w.leapt = ahead, leaps
	}
	w.index = index
	if most := w.slow + rateSlack + time.Duration(leaps-w.leapt)*stampLead; ahead > most {
		w.life.violate("the cluster clock does not run away", "it is %s further than it may be, after %d leaps",
			ahead-most, leaps-w.leapt)
		w.slow, w.leapt = ahead, leaps
	}
}

// monotone compares each process's clock with its previous value.
func (w *clockWatch) monotone() {
	for _, s := range w.life.servers {
		p, node := s.serving() // together: the next process has yet to read its state
		if node == nil {
			continue
		}
		head, _ := node.Pulse()
		if head.Clock < w.last[p] {
			w.life.violate("the cluster clock never goes back", "on %s from %d to %d", s.id(), w.last[p], head.Clock)
		}
		w.last[p] = head.Clock
	}
}

// furthest returns the latest clock that any node has applied, with its term and index.
func (l *life) furthest() (clock rota.Clock, term uint64, index rota.Index) {
	for _, s := range l.servers {
		if n := s.node(); n != nil {
			head, _ := n.Pulse()
			if head.Index > index {
				clock, term, index = head.Clock, head.Term, head.Index
			}
		}
	}
	return clock, term, index
}

// orphans checks whether the leases of dead workers have ended, and measures how long that took.
func (w *clockWatch) orphans(stood, short bool) {
	w.mu.Lock()
	left := w.left
	w.left = nil
	w.mu.Unlock()
	var still []*orphan
	for _, o := range left {
		if stood {
			o.stood += watchEvery
		}
		if short {
			o.short += watchEvery
		}
		if w.ended(o) {
			w.life.figures.orphans(time.Since(o.died) - 3*o.stood)
			continue
		}
		if bound := silenceEnds + o.short + 3*o.stood + orphanSlack; time.Since(o.died) > bound {
			w.life.violate("an abandoned lease ends",
				"lease %s of job %s is open %s after its worker %s died: %s is the bound",
				o.lease, o.job, time.Since(o.died), o.run.id, bound)
			continue
		}
		still = append(still, o)
	}
	w.mu.Lock()
	w.left = append(w.left, still...)
	w.mu.Unlock()
}

// ended reports whether some node knows that the lease is over. Its worker's id may have resumed it in another process.
func (w *clockWatch) ended(o *orphan) bool {
	l := w.life
	l.ledger.mu.Lock()
	taken := len(l.ledger.holders[o.job]) > 0
	l.ledger.mu.Unlock()
	if taken {
		return true
	}
	for _, s := range l.servers {
		n := s.node()
		if n == nil {
			continue
		}
		job, _, err := n.Job(l.ctx, o.job, peer.ReadOptions{Stale: true})
		if err == nil && (job.Lease == nil || job.Lease.ID != o.lease) {
			return true
		}
	}
	return false
}
