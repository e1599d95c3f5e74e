package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Explainer explains why a job waits or was placed as it was, also in the past.
type Explainer struct {
	n        *verbs.Host
	jobVerbs *verbs.JobVerbs
	Reader   *PastReader
	Ahead    *forecaster
}

// New returns an explainer that reads the past with p.
func New(h *verbs.Host, p *PastReader, jobs *verbs.JobVerbs) Explainer {
	return Explainer{n: h, jobVerbs: jobs, Reader: p, Ahead: newForecaster(h)}
}

// Why explains a job (SPEC §6.1, §7.7, §13.13): on the current state, or on a past one, replayed separately. Details
// about other workers in a decision need such a replay too.
func (ex *Explainer) Why(ctx context.Context, id rota.JobID, q rota.WhyQuery,
	opt peer.ReadOptions) (x rota.Explanation, seen rota.ReadAt,
	err error) {
	if seen, err = ex.n.Replica.Fresh(ctx, opt); err != nil {
		return x, seen, err
	}
	rd, err := ex.n.Replica.Reader(ctx)
	if err != nil {
		return x, seen, err
	}
	defer func() { rd.Explanation(&x) }()
	at, err := ex.indexOf(ctx, q)
	switch {
	case err != nil:
	case at > seen.Index:
		return x, seen, rota.Refusef(rota.KindOutOfRange, "at", "index %d is to come: the newest is %d", at, seen.Index)
	case at != 0:
		x, err = ex.whyThen(ctx, id, at, rd)
	default:
		x, err = ex.whyNow(ctx, id, seen.Index, rd)
	}
	if err == nil && q.Others && x.Decision != nil && rd.Has(rota.RightStatus, access.Everything, access.Everything) {
		err = ex.addOthers(ctx, id, x.Decision)
	}
	return x, seen, err
}

// maxAhead is how many milliseconds a caller's clock may be ahead.
const maxAhead = 60_000

// indexOf returns the index of the requested state, 0 for the current one.
func (ex *Explainer) indexOf(ctx context.Context, q rota.WhyQuery) (rota.Index, error) {
	switch {
	case q.AtDate == 0:
		return q.At, nil
	case q.At != 0:
		return 0, rota.Refusef(rota.KindInvalid, "at", "at is given as index %d and as moment %s: give one of them",
			q.At, q.AtDate)
	}
	if now := rota.DateOf(time.Now()); q.AtDate > now+maxAhead {
		return 0, rota.Refusef(rota.KindOutOfRange, "at",
			"at: got %s, want a date in the past; this node's clock is at %s", q.AtDate, now)
	}
	return ex.n.Events.IndexAt(ctx, q.AtDate)
}

// Past returns what reading a past state has to replay now. The answer is momentary: another reader may move the kept
// state in between.
func (ex *Explainer) Past(ctx context.Context, q rota.WhyQuery) (rota.Past, error) {
	at, err := ex.indexOf(ctx, q)
	if err != nil {
		return rota.Past{}, err
	}
	switch applied := rota.Index(ex.n.Replica.Applied.Load()); {
	case at == 0:
		return rota.Past{Index: applied, From: applied}, nil
	case at > applied:
		return rota.Past{}, rota.Refusef(rota.KindOutOfRange, "at", "index %d is to come: this node has applied %d", at,
			applied)
	}
	from, known := ex.n.Audit.Nearest(at)
	if !known {
		return rota.Past{}, rota.Refusef(rota.KindOutOfRange, "at", "index %d lies before what audit_retention keeps",
			at)
	}
	if has := rota.Index(ex.Reader.has.Load()); has <= at {
		from = max(from, has)
	}
	return rota.Past{Index: at, From: from, Entries: int64(at - from)}, nil
}

// whyNow explains a job in the current state, at the index that was read or later.
func (ex *Explainer) whyNow(ctx context.Context, id rota.JobID, seen rota.Index,
	rd *access.Reader) (rota.Explanation, error) {
	var x rota.Explanation
	var live bool
	var head fsm.Head
	hidden := false
	if err := ex.n.Replica.View(func(s *fsm.View) {
		if tenant, queue, ok := s.PlaceOfJob(id); ok && !rd.Reads(tenant, queue) {
			hidden = true
			return
		}
		x, live = s.WhyFor(id, limits.MaxDecide, rd)
		head = s.Head()
	}); err != nil {
		return x, err
	}
	if hidden {
		return x, verbs.UnknownJob(id)
	}
	if live && x.State == rota.JobBlocked && x.Decision == nil {
		if _, run := rota.SplitRunID(id); run { // it waits in its schedule: there is no job yet
			return x, nil
		}
	}
	job, _, err := ex.jobVerbs.Job(ctx, id, peer.ReadOptions{MinIndex: seen})
	if err != nil {
		return rota.Explanation{}, err
	}
	if !live {
		x = rota.Explanation{Job: id, State: job.State, Index: seen, Clock: head.Clock, Date: head.Date,
			Reasons: []rota.Why{{Reason: job.Reason.String()}}}
	}
	for i := range job.Attempts {
		a := &job.Attempts[i]
		x.Decisions = append(x.Decisions, rota.PlacedDecision{Decision: a.Decision, Worker: a.Worker,
			Attempt: a.Number})
	}
	if k := len(x.Decisions); !live && k > 0 {
		last := x.Decisions[k-1]
		x.Decision = &last
	}
	return x, nil
}

// whyThen explains a job in the state at an index.
func (ex *Explainer) whyThen(ctx context.Context, id rota.JobID, at rota.Index,
	rd *access.Reader) (rota.Explanation, error) {
	var x rota.Explanation
	var err error
	if past := ex.Reader.at(ctx, at, func(m *fsm.Machine) { x, err = whyIn(m, id, at, rd) }); past != nil {
		return x, past
	}
	return x, err
}

// whyIn explains a job in a past state.
func whyIn(m *fsm.Machine, id rota.JobID, at rota.Index, rd *access.Reader) (rota.Explanation, error) {
	if tenant, queue, ok := m.PlaceOfJob(id); ok && !rd.Reads(tenant, queue) {
		return rota.Explanation{}, rota.Refusef(rota.KindNotFound, "job", "job %q was not known at index %d", id, at)
	}
	if x, live := m.WhyFor(id, limits.MaxDecide, rd); live {
		return x, nil
	}
	if state := m.JobState(id); state != rota.JobNone {
		return rota.Explanation{Job: id, State: state, Index: at, Clock: m.Head().Clock, Date: m.Head().Date,
			Reasons: []rota.Why{}}, nil
	}
	return rota.Explanation{}, rota.Refusef(rota.KindNotFound, "job", "job %q was not known at index %d", id, at)
}

// addOthers replays the state that a decision was made on and adds the other candidates; if that past is gone, the
// explanation states this.
func (ex *Explainer) addOthers(ctx context.Context, id rota.JobID, d *rota.PlacedDecision) error {
	ok := false
	logged, err := audit.Round(ctx, ex.n.Stores.Log, d.Epoch, d.Height, rota.Index(ex.n.Replica.Applied.Load()))
	if err == nil {
		err = ex.Reader.at(ctx, d.Height, func(m *fsm.Machine) {
			d.Others, ok = m.Reenact(id, logged.With, limits.MaxDecide)
		})
	}
	switch kind := rota.KindOf(err); {
	case err != nil && (kind == rota.KindExhausted || kind == rota.KindTimeout || kind == rota.KindUnavailable):
		return err // it may be available later
	case err != nil:
		d.Note = fmt.Sprintf("the state at height %d cannot be looked at again: %v", d.Height, err)
	case !ok:
		d.Note = "it was placed before the rounds, on a worker kept for it or whose turn it was: no other was looked at"
	}
	return nil
}

// etaFresh is how long a forecast waits for a leader to confirm that the state is the newest.
const etaFresh = 2 * time.Second

// ETA forecasts when a job starts, on this node's state: it needs no leader, and reports how old the state is if there
// is none. A caller that names an index gets no older state, and waits for it.
func (ex *Explainer) ETA(ctx context.Context, id rota.JobID,
	opt peer.ReadOptions) (x rota.ETA, seen rota.ReadAt, err error) {
	stale := ""
	within, cancel := context.WithTimeout(ctx, etaFresh)
	if opt.MinIndex > 0 {
		within = ctx
	}
	seen, err = ex.n.Replica.Fresh(within, opt)
	cancel()
	if kind := rota.KindOf(err); opt.MinIndex == 0 && (kind == rota.KindUnavailable || kind == rota.KindTimeout) {
		opt = peer.ReadOptions{Stale: true}
		if seen, err = ex.n.Replica.Fresh(ctx, opt); err == nil {
			stale = fmt.Sprintf("no leader answers: the state is that of %d ms ago", seen.Age.Milliseconds())
		}
	}
	if err != nil {
		return x, seen, err
	}
	rd, err := ex.n.Replica.Reader(ctx)
	if err != nil {
		return x, seen, err
	}
	why, err := ex.whyNow(ctx, id, seen.Index, rd)
	if err != nil {
		return x, seen, err
	}
	rd.Explanation(&why)
	x = rota.ETA{Job: id, State: why.State, Index: why.Index, Clock: why.Clock, Date: why.Date}
	if stale != "" {
		x.Basis = append(x.Basis, stale)
	}
	if waits(why.State) {
		err = ex.Ahead.forecast(ctx, &x, &why, rd)
		return x, seen, err
	}
	job, _, err := ex.n.Archive.Job(ctx, id)
	if err != nil {
		return x, seen, err
	}
	switch {
	case job.Lease != nil:
		x.Started = job.Lease.Started.Date
	case len(job.Attempts) > 0:
		x.Started = job.Attempts[len(job.Attempts)-1].Started.Date
	}
	return x, seen, nil
}

func waits(s rota.JobState) bool {
	return s == rota.JobQueued || s == rota.JobDelayed || s == rota.JobBlocked
}
