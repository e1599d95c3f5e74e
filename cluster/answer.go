package cluster

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/failpoint"
)

// land waits for entries in the order in which they were proposed, and answers them.
func (l *leadership) land() {
	for f := range l.inFlight {
		if planted.ackBeforeCommit(f) {
			l.free()
			continue
		}
		err := l.n.settled(f.future)
		if slices.ContainsFunc(f.proposals, (*proposal).rounds) {
			l.turn.landed()
		}
		l.free()
		if err != nil {
			if err = classify(err); err != errNotLeader {
				l.n.measures.Unknown.Inc()
			}
			for _, p := range f.proposals {
				p.reply <- reply{err: err}
			}
			continue
		}
		a, ok := f.future.Response().(*fsm.Applied)
		if !ok {
			a = &fsm.Applied{} // the node halts; no caller gets a success
		}
		failpoint.Pass("commit-before-answer")
		l.settle(f.seq, a)
		took := time.Since(f.started)
		l.n.measures.Commit.Observe(took.Seconds())
		l.commits.Note(l.n.sinceBoot(), took)
		at := 0
		for _, p := range f.proposals {
			r := reply{index: a.Index, sweep: a.Sweep}
			if at+len(p.ops) > len(a.Outcomes) {
				r.err = fault.Unknown(nil)
			} else {
				r.outcomes = a.Outcomes[at : at+len(p.ops)]
				l.queues.note(p.ops, r.outcomes)
			}
			at += len(p.ops)
			p.reply <- r
		}
	}
	close(l.landed)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.beatWaits {
		close(w.done)
	}
	l.beatWaits = nil
}

// settle records that an own entry was applied, and answers waiting beats.
func (l *leadership) settle(seq uint64, a *fsm.Applied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.Stamped || a.Term != l.term {
		return
	}
	l.c, l.appliedSeq = a.Clock, seq
	l.beatWaits = slices.DeleteFunc(l.beatWaits, func(w beatWait) bool {
		if w.seq <= seq {
			w.done <- a.Clock
			return true
		}
		return false
	})
}

// classify maps the library's errors to the two classes that matter: definitely not applied, and unknown. Every unclear
// error is unknown.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader
	default:
		return fault.Unknown(err)
	}
}
