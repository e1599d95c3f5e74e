package words

import (
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// leaseIDToWire converts a lease id to 32 bytes, the zero id to no bytes.
func leaseIDToWire(id *rota.LeaseID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// LeaseIDFromWire converts 32 bytes, or none for no lease.
func LeaseIDFromWire(w []byte) (rota.LeaseID, error) {
	switch len(w) {
	case 0:
		return rota.LeaseID{}, nil
	case len(rota.LeaseID{}):
		return rota.LeaseID(w), nil
	default:
		return rota.LeaseID{}, rota.Refusef(rota.KindInvalid, "lease_id", "lease_id: got %d bytes, want 32",
			len(w))
	}
}

func tokenToWire(t rota.Token) string {
	if t.IsZero() {
		return ""
	}
	var room [41]byte
	return string(writeToken(room[:0], t))
}

func writeToken(b []byte, t rota.Token) []byte {
	b = append(strconv.AppendUint(b, t.Incarnation, 10), '.')
	return strconv.AppendUint(b, t.Counter, 10)
}

func tokenFromWire(s string) (t rota.Token, err error) {
	if s == "" {
		return t, nil
	}
	if a, b, ok := strings.Cut(s, "."); ok {
		incarnation, bad := strconv.ParseUint(a, 10, 64)
		counter, worse := strconv.ParseUint(b, 10, 64)
		if bad == nil && worse == nil {
			return rota.Token{Incarnation: incarnation, Counter: counter}, nil
		}
	}
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return rota.Token{}, rota.Refusef(rota.KindInvalid, "token", "token: got %q; use INCARNATION.COUNTER", shown(s))
	}
	return t, nil
}

// LeaseToWire converts an open lease with the decision that made it.
func LeaseToWire(l *rota.Lease) *rotav1.Lease { return fillLease(new(rotav1.Lease), l) }

func fillLease(w *rotav1.Lease, l *rota.Lease) *rotav1.Lease {
	w.Id, w.Token, w.Job, w.Worker = leaseIDToWire(&l.ID), tokenToWire(l.Token), string(l.Job), string(l.Worker)
	w.Session, w.Attempt, w.State = uint64(l.Session), l.Attempt, leaseStates.text(l.State)
	w.StartedMs, w.StartedClockMs = int64(l.Started.Date), int64(l.Started.Clock)
	w.AckByMs, w.AckByClockMs = int64(l.AckBy.Date), int64(l.AckBy.Clock)
	w.AckedMs, w.AckedClockMs = int64(l.Acked.Date), int64(l.Acked.Clock)
	w.RenewByMs, w.RenewByClockMs = int64(l.RenewBy.Date), int64(l.RenewBy.Clock)
	w.DeadlineMs, w.DeadlineClockMs, w.Renewals = int64(l.Deadline.Date), int64(l.Deadline.Clock), l.Renewals
	w.Revoked = reasons.text(l.Revoked)
	d := &l.Decision
	w.Epoch, w.Height, w.Score, w.Rank = d.Epoch, uint64(d.Height), int64(d.Score), d.Rank
	w.Reasoning, w.ReasoningN, w.ReasoningOf = rules.text(d.Reasoning.Rule), d.Reasoning.N, d.Reasoning.Of
	w.Seed = d.Seed
	return w
}

// decisionToWire converts the decision of an attempt; the zero decision becomes nil. An open lease has its decision's
// fields in itself: it is the hot path's message.
func decisionToWire(d *rota.Decision) *rotav1.Decision {
	if d.Epoch == 0 && d.Height == 0 && d.Score == 0 && d.Rank == 0 && d.Reasoning == (rota.Reasoning{}) &&
		len(d.Seed) == 0 {
		return nil
	}
	return &rotav1.Decision{
		Epoch: d.Epoch, Height: uint64(d.Height), Score: int64(d.Score), Rank: d.Rank,
		Reasoning: rules.text(d.Reasoning.Rule), ReasoningN: d.Reasoning.N, ReasoningOf: d.Reasoning.Of, Seed: d.Seed,
	}
}

func decisionFromWire(w *rotav1.Decision) (rota.Decision, error) {
	rule, err := rules.value(w.GetReasoning())
	return rota.Decision{
		Epoch: w.GetEpoch(), Height: rota.Index(w.GetHeight()), Score: rota.Score(w.GetScore()), Rank: w.GetRank(),
		Reasoning: rota.Reasoning{Rule: rule, N: w.GetReasoningN(), Of: w.GetReasoningOf()}, Seed: w.GetSeed(),
	}, err
}

// LeaseFromWire is the inverse of LeaseToWire.
func LeaseFromWire(w *rotav1.Lease) (rota.Lease, error) {
	if w == nil {
		return rota.Lease{}, rota.Refusef(rota.KindInvalid, "lease", "a lease is missing")
	}
	l := rota.Lease{
		Job: rota.JobID(w.Job), Worker: rota.WorkerID(w.Worker), Session: rota.Session(w.Session),
		Attempt: w.Attempt,
		Started: moment(w.StartedMs, w.StartedClockMs), AckBy: moment(w.AckByMs, w.AckByClockMs),
		Acked:   moment(w.AckedMs, w.AckedClockMs),
		RenewBy: moment(w.RenewByMs, w.RenewByClockMs), Deadline: moment(w.DeadlineMs, w.DeadlineClockMs),
		Renewals: w.Renewals,
		Decision: rota.Decision{
			Epoch: w.Epoch, Height: rota.Index(w.Height), Score: rota.Score(w.Score), Rank: w.Rank,
			Reasoning: rota.Reasoning{N: w.ReasoningN, Of: w.ReasoningOf}, Seed: w.Seed,
		},
	}
	var err error
	if l.ID, err = LeaseIDFromWire(w.Id); err != nil {
		return l, err
	}
	if l.Token, err = tokenFromWire(w.Token); err != nil {
		return l, err
	}
	if l.State, err = leaseStates.value(w.State); err != nil {
		return l, err
	}
	if l.Revoked, err = reasons.value(w.Revoked); err != nil {
		return l, err
	}
	l.Decision.Reasoning.Rule, err = rules.value(w.Reasoning)
	return l, err
}

// assignmentRoom holds the three messages of an assignment in one allocation.
type assignmentRoom struct {
	assignment rotav1.Assignment
	lease      rotav1.Lease
	spec       jobSpecRoom
}

// AssignmentToWire converts a lease and its job.
func AssignmentToWire(a *rota.Assignment) *rotav1.Assignment {
	room := new(assignmentRoom)
	w := &room.assignment
	w.Lease, w.Spec = fillLease(&room.lease, &a.Lease), room.spec.fill(&a.Spec)
	w.RenewEveryMs, w.LeaseMs, w.RenewalsMax, w.MaxRuntimeMs = a.RenewEvery.Milliseconds(), a.LeaseFor.Milliseconds(), a.RenewalsMax, a.MaxRuntime.Milliseconds()
	w.GraceMs = a.Grace.Milliseconds()
	return w
}

// AssignmentFromWire is the inverse of AssignmentToWire.
func AssignmentFromWire(w *rotav1.Assignment) (rota.Assignment, error) {
	lease, err := LeaseFromWire(w.GetLease())
	return rota.Assignment{
		Lease: lease, Spec: JobSpecFromWire(w.GetSpec()), RenewEvery: millis.Duration(w.GetRenewEveryMs()),
		LeaseFor: millis.Duration(w.GetLeaseMs()), RenewalsMax: w.GetRenewalsMax(),
		MaxRuntime: millis.Duration(w.GetMaxRuntimeMs()),
		Grace:      millis.Duration(w.GetGraceMs()),
	}, err
}

// LeaseCommandToWire converts one command. Worker and Session are omitted: the stream that carries the command implies
// them (SPEC §6.4).
func LeaseCommandToWire(c *peer.LeaseCommand) *rotav1.LeaseCommand {
	return &rotav1.LeaseCommand{
		Verb: rotav1.LeaseVerb(c.Verb), LeaseId: leaseIDToWire(&c.Lease), Job: string(c.Job), Ordinal: c.Ordinal,
		Output: c.Output, OutputDigest: c.OutputDigest, Text: clean(c.Text), Progress: c.Progress,
		Fail: rotav1.FailKind(c.Fail), AfterMs: millis.Of(c.After), Meta: c.Meta, Children: c.Children, Log: c.Log,
		Costs: c.Costs, PauseKey: c.PauseKey,
	}
}

// LeaseCommandFromWire is the inverse of LeaseCommandToWire; Worker and Session are left empty. The numbers of the
// verbs are the same on both sides, which a test checks.
func LeaseCommandFromWire(w *rotav1.LeaseCommand) (peer.LeaseCommand, error) {
	if w == nil {
		return peer.LeaseCommand{}, rota.Refusef(rota.KindInvalid, "commands", "a command is missing")
	}
	c := peer.LeaseCommand{
		Verb: rota.LeaseVerb(w.Verb), Job: rota.JobID(w.Job), Ordinal: w.Ordinal, Output: w.Output,
		OutputDigest: w.OutputDigest, Text: w.Text, Progress: w.Progress, After: millis.Duration(w.AfterMs),
		Meta: w.Meta, Children: w.Children, Log: w.Log, Costs: w.Costs,
		PauseKey: w.PauseKey,
	}
	if _, err := verbFromWire(int32(w.Verb)); err != nil {
		return c, err
	}
	var err error
	if c.Fail, err = failFromWire(int32(w.Fail)); err != nil {
		return c, err
	}
	c.Lease, err = LeaseIDFromWire(w.LeaseId)
	return c, err
}

func unknownVerb(verb int32) error {
	return rota.Refusef(rota.KindInvalid, "verb", "verb %d is unknown to this version: "+
		"use ACK, RENEW, COMPLETE, FAIL, DECLINE or PROGRESS", verb)
}

// LeaseAnswerToWire converts the outcome of one command.
func LeaseAnswerToWire(a *peer.LeaseAnswer) *rotav1.LeaseAnswer {
	return &rotav1.LeaseAnswer{
		Refusal: RefusalToWire(a.Err), DeadlineClockMs: int64(a.Deadline), Renewals: a.Renewals,
		JobState: jobStates.text(a.JobState), Index: uint64(a.Index),
	}
}

// LeaseAnswerFromWire is the inverse of LeaseAnswerToWire.
func LeaseAnswerFromWire(w *rotav1.LeaseAnswer) (peer.LeaseAnswer, error) {
	state, err := jobStates.value(w.GetJobState())
	return peer.LeaseAnswer{
		Err: RefusalFromWire(w.GetRefusal()), Deadline: rota.Clock(w.GetDeadlineClockMs()), Renewals: w.GetRenewals(),
		JobState: state, Index: rota.Index(w.GetIndex()),
	}, err
}

// LeaseEndToWire converts the reference to a lease that is over or must end.
func LeaseEndToWire(e *peer.LeaseEnd) *rotav1.LeaseEnd {
	return &rotav1.LeaseEnd{LeaseId: leaseIDToWire(&e.Lease), Job: string(e.Job), Reason: reasons.text(e.Reason)}
}

// LeaseEndFromWire is the inverse of LeaseEndToWire.
func LeaseEndFromWire(w *rotav1.LeaseEnd) (peer.LeaseEnd, error) {
	e := peer.LeaseEnd{Job: rota.JobID(w.GetJob())}
	var err error
	if e.Lease, err = LeaseIDFromWire(w.GetLeaseId()); err != nil {
		return e, err
	}
	e.Reason, err = reasons.value(w.GetReason())
	return e, err
}

// NoticesToWire converts many notices into one message, grouped by kind. A lease is assigned once, then perhaps
// revoked, then ended, so the order assigned, revoked, ended loses nothing that a worker could see.
func NoticesToWire(notices []peer.Notice) *rotav1.Notices {
	w := new(rotav1.Notices)
	for i := range notices {
		n := &notices[i]
		switch {
		case n.Assigned != nil:
			w.Assigned = append(w.Assigned, AssignmentToWire(n.Assigned))
		case n.Ended != nil:
			w.Ended = append(w.Ended, LeaseEndToWire(n.Ended))
		case n.Revoked != nil:
			w.Revoked = append(w.Revoked, LeaseEndToWire(n.Revoked))
		case n.Draining:
			w.Draining = true
		}
	}
	return w
}

// NoticesFromWire returns the notices in the order assigned, revoked, ended,
// draining.
func NoticesFromWire(w *rotav1.Notices) ([]peer.Notice, error) {
	notices := make([]peer.Notice, 0, len(w.GetAssigned())+len(w.GetRevoked())+len(w.GetEnded())+1)
	for _, a := range w.GetAssigned() {
		assigned, err := AssignmentFromWire(a)
		if err != nil {
			return nil, err
		}
		notices = append(notices, peer.Notice{Assigned: &assigned})
	}
	for _, e := range w.GetRevoked() {
		end, err := LeaseEndFromWire(e)
		if err != nil {
			return nil, err
		}
		notices = append(notices, peer.Notice{Revoked: &end})
	}
	for _, e := range w.GetEnded() {
		end, err := LeaseEndFromWire(e)
		if err != nil {
			return nil, err
		}
		notices = append(notices, peer.Notice{Ended: &end})
	}
	if w.GetDraining() {
		notices = append(notices, peer.Notice{Draining: true})
	}
	return notices, nil
}
