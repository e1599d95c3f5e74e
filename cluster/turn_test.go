package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestRoundTurn: an entry waits briefly for the round that its predecessor caused, and for no other.
func TestRoundTurn(t *testing.T) {
	ops := func(op *fsmpb.Op) *proposal {
		return &proposal{ops: []*fsmpb.Op{op}, size: 100, reply: make(chan reply, 1)}
	}
	round := &fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{}}}
	for _, c := range []struct {
		name string
		// before prepares the situation that the entry finds; during runs while it waits.
		before func(l *leadership)
		during func(l *leadership)
		wait   time.Duration
		want   int
	}{
		{name: "nothing is due", want: 1},
		{name: "a decision is due, and somebody decides", before: func(l *leadership) { l.n.replica.Hub.MatchSoon() },
			during: func(l *leadership) {
				time.Sleep(roundPatience / 4)
				l.turn.begin()
				l.n.replica.Hub.Due.Store(false)
				time.Sleep(roundPatience / 4)
				l.urgent <- ops(round)
				l.turn.queued()
			}, wait: roundPatience / 2, want: 2},
		{name: "there is nothing to place", before: func(l *leadership) { l.turn.begin() },
			during: func(l *leadership) {
				time.Sleep(roundPatience / 4)
				l.turn.rest()
			}, wait: roundPatience / 4, want: 1},
		{name: "no round is decided", before: func(l *leadership) { l.n.replica.Hub.MatchSoon() }, wait: roundPatience,
			want: 1},
		{name: "a round is in the log", before: func(l *leadership) { l.turn.queued(); l.n.replica.Hub.MatchSoon() },
			want: 1},
		{name: "a round has just applied", before: func(l *leadership) { l.turn.queued(); l.turn.landed() },
			during: func(l *leadership) { l.turn.rest() }, want: 1},
		{name: "deciding takes long", before: func(l *leadership) {
			l.turn.took.Store(int64(roundPatience) + 1)
			l.n.replica.Hub.MatchSoon()
		}, want: 1},
		{name: "the term ends", before: func(l *leadership) { l.n.replica.Hub.MatchSoon(); l.end() }, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := (&Node{base: base{replica: replica.Replica{Hub: replica.NewHub()}}}).wire()
				l := n.terms.newLeadership(3, 10_000)
				defer l.end()
				if c.before != nil {
					c.before(l)
				}
				if c.during != nil {
					go c.during(l)
				}
				start := time.Now()
				batch, _, carried := l.gather(ops(&fsmpb.Op{}))
				if took := time.Since(start); took != c.wait || len(batch) != c.want || carried != nil {
					t.Errorf("%d proposals after %v, want %d after %v", len(batch), took, c.want, c.wait)
				}
			})
		})
	}
}
