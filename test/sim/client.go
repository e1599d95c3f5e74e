package sim

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// OutcomeOK reports whether an operation was accepted.
func OutcomeOK(o *fsmpb.Outcome) bool { return entry.OutcomeError(o) == nil }

// forward carries one operation from an actor through its node to the leader, and the outcome back. Any leg may fail:
// then there is no answer.
func (w *World) forward(n *node, from *actor, open bool, op *fsmpb.Op, reply func(*fsmpb.Outcome)) {
	life := from.life
	w.send(open, &n.actor, func() {
		l := w.knownLeader(n)
		if l == nil {
			return
		}
		w.send(true, &l.node.actor, func() {
			l.propose(op, func(o *fsmpb.Outcome) {
				w.send(w.linked(n, l.node), &n.actor, func() {
					w.send(true, from, func() {
						if from.life == life { // not to a later process
							reply(o)
						}
					})
				})
			})
		})
	})
}

// knownLeader returns the leader according to a node: sometimes the previous one.
func (w *World) knownLeader(n *node) *leadership {
	l := w.leader
	if w.past != nil && !w.past.over && (l == nil || w.chance.IntN(8) == 0) {
		l = w.past
	}
	if l == nil || !w.linked(n, l.node) {
		return nil
	}
	return l
}

// client submits jobs under ids of its own, and repeats each until it is answered.
type client struct {
	actor
	w    *World
	next int
}

func newClient(w *World) *client {
	c := &client{w: w}
	c.name = "client"
	w.on(&c.actor, 100, c.submitNext)
	return c
}

func (c *client) submitNext() {
	w := c.w
	if c.next >= w.Jobs {
		return
	}
	s := rota.NewJobSpec("work", []byte("payload"))
	s.ID, s.Tenant = rota.JobID(fmt.Sprint("j", c.next)), rota.TenantID(fmt.Sprint("t", c.next%3))
	s.Priority = int32(w.chance.IntN(11))
	if w.chance.IntN(5) == 0 {
		s.Delay = millis.Duration(int64(w.chance.IntN(5_000)))
	}
	if w.chance.IntN(20) == 0 {
		s.TTL = millis.Duration(int64(5_000 + w.chance.IntN(60_000)))
	}
	s.Headers = headersOf(s.ID)
	w.audit.expires[s.ID] = w.audit.clock + rota.Clock(s.TTL.Milliseconds())
	c.next++
	c.submit(&s)
	w.on(&c.actor, Time(w.chance.IntN(400)), c.submitNext)
}

// headersOf returns the headers of a client's job, which some have: every lease of it must carry them.
func headersOf(id rota.JobID) map[string]string {
	if id[0] != 'j' || id[len(id)-1]%3 > 0 {
		return nil
	}
	return map[string]string{"of": string(id), "baggage": ""}
}

func (c *client) submit(s *rota.JobSpec) {
	w := c.w
	answered := false
	op := &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(s)}}}
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[w.chance.IntN(len(w.nodes))]
		w.forward(n, &c.actor, !n.down, op, func(o *fsmpb.Outcome) {
			if !answered && OutcomeOK(o) {
				w.audit.accepted[s.ID] = true
				answered = true
			}
		})
		w.on(&c.actor, 500, try)
	}
	try()
	if w.chance.IntN(15) == 0 { // and some are cancelled
		cancel := &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(s.ID)}}}
		w.on(&c.actor, Time(w.chance.IntN(20_000)), func() {
			n := w.nodes[w.chance.IntN(len(w.nodes))]
			w.forward(n, &c.actor, !n.down, cancel, func(*fsmpb.Outcome) {})
		})
	}
}
