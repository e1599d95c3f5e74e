package cluster

import (
	"context"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Why explains a job (SPEC §6.1, §7.7): on the present state, or, where at is not
// 0, on the state at that index, replayed beside the present one from a snapshot
// and the log. What is said of other workers in a decision needs such a replay too.
func (ex *explainer) Why(ctx context.Context, id rota.JobID, at rota.Index, opt peer.ReadOptions) (x rota.Explanation, seen rota.ReadAt,
	err error) {
	if seen, err = ex.n.replica.fresh(ctx, opt); err != nil {
		return x, seen, err
	}
	rd, err := ex.n.replica.reader(ctx)
	if err != nil {
		return x, seen, err
	}
	defer func() { rd.Explanation(&x) }()
	switch {
	case at > seen.Index:
		return x, seen, rota.Refusef(rota.KindOutOfRange, "at", "index %d is to come: the newest is %d", at, seen.Index)
	case at != 0:
		x, err = ex.whyThen(ctx, id, at, rd)
	default:
		x, err = ex.whyNow(ctx, id, seen.Index, rd)
	}
	return x, seen, err
}

// whyNow explains a job as it stands, at the index that was read or later.
func (ex *explainer) whyNow(ctx context.Context, id rota.JobID, seen rota.Index, rd *access.Reader) (rota.Explanation, error) {
	var x rota.Explanation
	var live bool
	var head fsm.Head
	if err := ex.n.replica.view(func(s *fsm.View) {
		x, live = s.WhyFor(id, limits.DecideMost, rd)
		head = s.Head()
	}); err != nil {
		return x, err
	}
	job, _, err := ex.n.Job(ctx, id, peer.ReadOptions{MinIndex: seen})
	if err != nil {
		return rota.Explanation{}, err
	}
	if !live {
		x = rota.Explanation{Job: id, State: job.State, Index: seen, Clock: head.Clock, Date: head.Date,
			Reasons: []rota.Why{{Reason: job.Reason.String()}}}
	}
	for i := range job.Attempts {
		a := &job.Attempts[i]
		x.Decisions = append(x.Decisions, rota.PlacedDecision{Decision: a.Decision, Worker: a.Worker, Attempt: a.Number})
	}
	if k := len(x.Decisions); !live && k > 0 {
		last := x.Decisions[k-1]
		x.Decision = &last
	}
	if x.Decision != nil {
		ex.addOthers(ctx, id, x.Decision)
	}
	return x, nil
}

// whyThen explains a job as it stood at an index.
func (ex *explainer) whyThen(ctx context.Context, id rota.JobID, at rota.Index, rd *access.Reader) (rota.Explanation, error) {
	m, err := ex.replayTo(ctx, at)
	if err != nil {
		return rota.Explanation{}, err
	}
	if tenant, queue, ok := m.PlaceOfJob(id); ok && !rd.Reads(tenant, queue) {
		return rota.Explanation{}, rota.Refusef(rota.KindNotFound, "job", "job %q was not known at index %d", id, at)
	}
	x, live := m.WhyFor(id, limits.DecideMost, rd)
	if live {
		if x.Decision != nil {
			ex.addOthers(ctx, id, x.Decision)
		}
		return x, nil
	}
	if state := m.JobState(id); state != rota.JobNone {
		return rota.Explanation{Job: id, State: state, Index: at, Clock: m.Head().Clock, Date: m.Head().Date, Reasons: []rota.Why{}}, nil
	}
	return rota.Explanation{}, rota.Refusef(rota.KindNotFound, "job", "job %q was not known at index %d", id, at)
}

// addOthers replays the state that a decision was made on and adds who else was
// looked at; where that past is gone it says so.
func (ex *explainer) addOthers(ctx context.Context, id rota.JobID, d *rota.PlacedDecision) {
	m, err := ex.replayTo(ctx, d.Height)
	if err != nil {
		d.Note = fmt.Sprintf("the state at height %d cannot be looked at again: %v", d.Height, err)
		return
	}
	others, ok := m.Reenact(id, limits.DecideMost)
	if !ok {
		d.Note = "it was placed before the rounds, on a worker kept for it or whose turn it was: no other was looked at"
	}
	d.Others = others
}

// replayTo returns the state at an index, built beside the present one. One replay
// runs at a time: it costs a state's memory and a core.
func (ex *explainer) replayTo(ctx context.Context, index rota.Index) (*fsm.Machine, error) {
	select {
	case ex.replaying <- struct{}{}:
		defer func() { <-ex.replaying }()
	case <-ctx.Done():
		return nil, ctxError(ctx, "waiting for another replay of the past")
	}
	return ex.n.audit.Replay(ctx, ex.n.stores.Log, index)
}

// Events serves events as history does, of those that the caller may read: as the state says of
// its rights when they are sent.
func (n *Node) Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error {
	return n.events.Events(ctx, filter, func(b peer.EventBatch) error {
		rd, err := n.replica.reader(ctx)
		if err != nil {
			return err
		}
		b.Events = rd.Events(b.Events)
		return send(b)
	})
}
