package transport

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// pollSettles bounds the time a poll takes to settle its work after it has waited.
const pollSettles = 10 * time.Second

// poll is one acquire call: it beats, offers, waits, withdraws, and acknowledges.
type poll struct {
	server  *Server
	session WorkerSession
	ask     *rest.Acquire
	holding held
	// number distinguishes this poll from others of its worker.
	number  uint64
	offered bool
}

func newPoll(server *Server, session WorkerSession, ask *rest.Acquire, holding held) *poll {
	return &poll{server: server, session: session, ask: ask, holding: holding, number: rand.Uint64() | 1}
}

func (p *poll) run(ctx context.Context) (rest.Acquired, error) {
	beating := startBeat(ctx, p.session)
	st, err := p.begin(ctx)
	if err != nil {
		return rest.Acquired{}, err
	}
	if p.offered && len(p.news(st.Leases)) == 0 {
		st, err = p.wait(ctx)
	}
	// Begun work is settled even if the caller has gone away.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollSettles)
	defer cancel()
	if err != nil || ctx.Err() != nil {
		p.abandon(settling)
		return rest.Acquired{}, orEnd(ctx, err)
	}
	if st.Offered > 0 && st.Poll == p.number {
		if err := p.session.Offer(settling, p.number, 0, 0); err != nil {
			return rest.Acquired{}, err
		}
	}
	if st, err = p.acknowledge(settling); err != nil {
		return rest.Acquired{}, err
	}
	clock, err := beating()
	if err != nil {
		return rest.Acquired{}, err
	}
	return p.answer(&st, clock), nil
}

// begin offers slots, unless there are leases that the caller does not know of: then an answer was lost, and the caller
// gets only those.
func (p *poll) begin(ctx context.Context) (peer.Standing, error) {
	st, err := p.session.Standing(ctx, here)
	if err == nil && (p.ask.WaitMs == 0 || len(p.news(st.Leases)) > 0) {
		st, err = p.session.Standing(ctx, fresh)
	}
	if err != nil || p.ask.WaitMs == 0 || len(p.news(st.Leases)) > 0 {
		return st, err
	}
	p.offered = true // the offer may have been accepted even if this fails
	if err := p.session.Offer(ctx, p.number, p.ask.Max, p.wanted()); err != nil {
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollSettles)
		defer cancel()
		p.abandon(settling)
		return st, err
	}
	return p.standing(ctx)
}

func (p *poll) wanted() time.Duration { return time.Duration(p.ask.WaitMs) * time.Millisecond }

// wait waits for a lease, up to the requested time, or until the node or the caller goes away.
func (p *poll) wait(ctx context.Context) (peer.Standing, error) {
	waiting, cancel := context.WithTimeout(ctx, p.wanted())
	defer cancel()
	stop := context.AfterFunc(p.server.draining, cancel)
	defer stop()
	for {
		st, err := p.standing(ctx)
		if err != nil || len(p.news(st.Leases)) > 0 || waiting.Err() != nil {
			return st, err
		}
		if err := p.session.Await(waiting); err != nil && waiting.Err() == nil {
			if _, taken := p.standing(ctx); taken != nil {
				return st, taken
			}
			return st, err
		}
		p.session.Take() // the result of standing has its notices too
	}
}

// standing returns the worker's state. It returns an error if another poll has taken this one's place.
func (p *poll) standing(ctx context.Context) (peer.Standing, error) {
	st, err := p.session.Standing(ctx, here)
	if err == nil && st.Poll != p.number {
		err = rota.Refusef(rota.KindConflict, "poll",
			"another poll of worker %s replaced this one: send one poll at a time, or give "+
				"each process its own worker id", p.ask.Worker.ID)
	}
	return st, err
}

// news returns the leases that the caller does not know of and could work on.
func (p *poll) news(leases []rota.Assignment) (all []*rota.Lease) {
	for i := range leases {
		if l := &leases[i].Lease; !p.holding.has(l.ID) && l.Revoked == rota.ReasonNone {
			all = append(all, l)
		}
	}
	return all
}

// unacked returns the commands for news that are not acknowledged yet.
func (p *poll) unacked(leases []rota.Assignment, verb rota.LeaseVerb) (commands []peer.LeaseCommand) {
	for _, l := range p.news(leases) {
		if l.Acked.IsZero() && len(commands) < limits.MaxBatchJobs {
			commands = append(commands, peer.LeaseCommand{Verb: verb, Lease: l.ID, Job: l.Job})
		}
	}
	return commands
}

// acknowledge acknowledges the worker's leases, including those that arrived while it withdrew.
func (p *poll) acknowledge(ctx context.Context) (peer.Standing, error) {
	refused, applied := make(map[rota.LeaseID]bool), here.MinIndex
	for {
		st, err := p.session.Standing(ctx, peer.ReadOptions{MinIndex: applied})
		if err != nil {
			return st, err
		}
		var left []peer.LeaseCommand
		for _, c := range p.unacked(st.Leases, rota.VerbAck) {
			if !refused[c.Lease] {
				left = append(left, c)
			}
		}
		if len(left) == 0 {
			return st, nil
		}
		answers, err := p.session.Do(ctx, left)
		if err != nil {
			return st, err
		}
		if err := checkLengths("commands", len(left), len(answers)); err != nil {
			return st, err
		}
		for i, a := range answers {
			applied = max(applied, a.Index)
			refused[left[i].Lease] = refused[left[i].Lease] || a.Err != nil
		}
	}
}

// abandon withdraws the offer of a poll whose caller gets no answer, and returns the leases assigned to it meanwhile,
// unless another poll has taken its place. It is best effort: an offer expires, and so does an unacknowledged lease.
func (p *poll) abandon(ctx context.Context) {
	if !p.offered {
		return
	}
	if err := p.session.Offer(ctx, p.number, 0, 0); err != nil {
		p.server.log.Debug("what a poll offered could not be withdrawn", "worker", string(p.ask.Worker.ID), "error",
			err)
		return
	}
	st, err := p.standing(ctx)
	if err != nil {
		return
	}
	back := p.unacked(st.Leases, rota.VerbDecline)
	for i := range back {
		back[i].Text = "the caller disconnected before it received the lease"
	}
	if len(back) > 0 {
		_, err = p.session.Do(ctx, back)
	}
	if err != nil {
		p.server.log.Debug("leases that no worker received could not be given back", "worker", string(p.ask.Worker.ID),
			"error", err)
	}
}

// orEnd returns an error, or that the call's time is over.
func orEnd(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// answer returns the caller's answer, with as many leases as fit a message, and at least one.
func (p *poll) answer(st *peer.Standing, clock rota.Clock) rest.Acquired {
	got := rest.Acquired{Status: st.Status, Leases: []rest.GivenLease{}, Revoked: []rest.RevokedLease{},
		Ended: p.holding.without(st.Leases)}
	room := limits.MaxMessageBytes
	for i := range st.Leases {
		a := &st.Leases[i]
		switch {
		case hidden(a, p.holding):
		case a.Lease.Revoked != rota.ReasonNone:
			got.Revoked = append(got.Revoked, revokedOf(&a.Lease))
		case p.holding.has(a.Lease.ID) || a.Lease.Acked.IsZero():
		case len(got.Leases) > 0 && room < len(a.Spec.Payload):
			got.More = true
		default:
			room -= len(a.Spec.Payload)
			got.Leases = append(got.Leases, rest.GivenLease{Lease: a.Lease.ID, Token: a.Lease.Token,
				ValidMs: validMs(&a.Lease, clock),
				Attempt: a.Lease.Attempt, MaxRuntimeMs: a.MaxRuntime.Milliseconds(), Job: a.Spec})
		}
	}
	return got
}
