package whatif

import (
	"encoding/json"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// Parting is the first moment at which two histories differ.
type Parting struct {
	Index  rota.Index `json:"index"`
	Date   rota.Date  `json:"date_ms"`
	Record Side       `json:"record"`
	WhatIf Side       `json:"what_if"`
}

// Side is what one of two histories does at that moment.
type Side struct {
	// What holds a sentence: a decision, or another event of a job.
	What   string        `json:"what"`
	Job    rota.JobID    `json:"job,omitempty"`
	Worker rota.WorkerID `json:"worker,omitempty"`
	// Reasoning is that of an assignment, as its event has it.
	Reasoning json.RawMessage `json:"reasoning,omitempty"`
	// Waits is why the job of the other history's event is pending here.
	Waits string `json:"waits,omitempty"`
}

// tied applies an entry of the log in parallel with the record, which has applied it, and returns how the two differ
// after it, nil if they do not. strict requires identical events and digests, as an unchanged policy gives.
func (l *life) tied(r *fsm.Machine, term uint64, e *fsmpb.Entry, theirs *fsm.Applied, strict bool) (*Parting, error) {
	a, err := l.put(theirs.Index, term, &fsmpb.Entry{Term: e.GetTerm(), NowMs: e.GetNowMs(), WallMs: e.GetWallMs(),
		Ops: l.redecided(e, false)})
	if err != nil {
		return nil, err
	}
	p := l.compare(r, theirs, &a, strict)
	l.m.Recycle(a.Events)
	for i := range theirs.Events {
		switch ev := &theirs.Events[i]; {
		case ev.Kind == rota.EventJobAssigned:
			l.theirs[ev.Job] = ev.Lease
		case ev.Job != "" && closes(ev.Kind):
			delete(l.theirs, ev.Job)
		}
	}
	l.again(e)
	if err := l.changes(); err != nil {
		return nil, err
	}
	if p == nil && !strict {
		p = l.wants(r)
	}
	if p != nil {
		p.Index, p.Date = theirs.Index, r.Head().Date
		return p, nil
	}
	return nil, l.prepare()
}

// compare finds the first event that only one of two histories has.
func (l *life) compare(r *fsm.Machine, theirs, own *fsm.Applied, strict bool) *Parting {
	a, b := l.telling(theirs.Events, strict), l.telling(own.Events, strict)
	for i := range max(len(a), len(b)) {
		var x, y *rota.Event
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != nil && y != nil && (strict && *x == *y || !strict && same(x, y)) {
			continue
		}
		return &Parting{Record: sideOf(r, x, y), WhatIf: sideOf(l.m, y, x)}
	}
	if strict && theirs.Digest != own.Digest {
		return &Parting{Record: Side{What: "digest " + theirs.Digest.String()},
			WhatIf: Side{What: "digest " + own.Digest.String()}}
	}
	return nil
}

// telling returns the events that concern a job's course, without those of a tenant that is left out.
func (l *life) telling(events []rota.Event, strict bool) (list []*rota.Event) {
	for i := range events {
		e := &events[i]
		if !strict {
			switch {
			case e.Job == "" || l.left.tenant != "" && l.left.theirs(string(e.Tenant)):
				continue
			case e.Kind == rota.EventJobProgress || e.Kind == rota.EventLeaseRenewed:
				continue
			}
		}
		list = append(list, e)
	}
	return list
}

func same(x, y *rota.Event) bool {
	return x.Kind == y.Kind && x.Job == y.Job && x.Worker == y.Worker && x.Attempt == y.Attempt && x.Reason == y.Reason
}

// wants finds a decision that this history makes now where the record has none: its leaders logged nothing, so no entry
// of the log has a place for it.
func (l *life) wants(r *fsm.Machine) *Parting {
	if !l.asked || !l.m.Waiting() {
		return nil
	}
	l.asked = false
	rounds := l.m.Decide(limits.MaxDecide)
	if len(rounds) == 0 || len(r.Decide(limits.MaxDecide)) > 0 {
		l.asked = len(rounds) > 0 // the record is about to decide
		return nil
	}
	p := &Parting{Record: Side{What: "nothing is decided"}, WhatIf: Side{What: "a hold or a preemption is decided"}}
	for _, round := range rounds {
		for _, pair := range round.GetPairs() {
			id := rota.JobID(pair.GetJob())
			why, _ := json.Marshal(reasoned{json.RawMessage(rota.Reasoning{Rule: rota.ReasoningRule(pair.GetRule()),
				N: pair.GetN(), Of: pair.GetOf()}.AppendJSON(nil,
				rota.WorkerID(pair.GetWorker()))), pair.GetScore(), pair.GetRank()})
			p.WhatIf = Side{What: fmt.Sprintf("job %s goes to worker %s", id, pair.GetWorker()), Job: id,
				Worker: rota.WorkerID(pair.GetWorker()), Reasoning: why}
			p.Record.Waits = waits(r, id)
			return p
		}
	}
	return p
}

// reasoned is the reasoning of a pair, as the event of an assignment has it.
type reasoned struct {
	Reasoning json.RawMessage `json:"reasoning"`
	Score     int64           `json:"score"`
	Rank      int32           `json:"rank"`
}

// sideOf describes an event, and why the job of the other history's event is pending.
func sideOf(m *fsm.Machine, e, other *rota.Event) (s Side) {
	switch {
	case e == nil:
		s.What = "nothing of the kind"
	case e.Kind == rota.EventJobAssigned:
		s = Side{What: fmt.Sprintf("job %s goes to worker %s", e.Job, e.Worker), Reasoning: json.RawMessage(e.Payload)}
	case e.Reason != rota.ReasonNone:
		s.What = fmt.Sprintf("job %s: %s (%s)", e.Job, e.Kind, e.Reason)
	case e.Job != "":
		s.What = fmt.Sprintf("job %s: %s", e.Job, e.Kind)
	default:
		s.What = e.Kind.String()
	}
	if e != nil {
		s.Job, s.Worker = e.Job, e.Worker
	}
	if other != nil && other.Kind == rota.EventJobAssigned && (e == nil || e.Job != other.Job) {
		s.Waits = waits(m, other.Job)
	}
	return s
}

// waits returns why a job is pending in a state.
func waits(m *fsm.Machine, id rota.JobID) string {
	x, ok := m.Why(id, limits.MaxDecide)
	switch {
	case !ok:
		return fmt.Sprintf("job %s is not there", id)
	case x.Decision != nil:
		return fmt.Sprintf("job %s is at worker %s", id, x.Decision.Worker)
	case len(x.Reasons) == 0:
		return fmt.Sprintf("job %s is %s", id, x.State)
	}
	w := x.Reasons[0]
	if w.Detail == "" {
		return fmt.Sprintf("job %s waits: %s", id, w.Reason)
	}
	return fmt.Sprintf("job %s waits: %s: %s", id, w.Reason, w.Detail)
}
