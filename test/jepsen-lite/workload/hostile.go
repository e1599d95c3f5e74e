package workload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// beHostile plays two workers that lie: they complete twice, differently, too late, each other's leases, and leases
// that never existed.
func beHostile(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("hostile-%d", r.IntN(1_000_000))
	for life := 0; drain.Err() == nil; life++ {
		a, err := dialRaw(drain, w, w.Someone(r), fmt.Sprintf("%s-a%d", name, life), r)
		if err != nil {
			if !fault.Rest(drain, time.Second) {
				return
			}
			continue
		}
		b, err := dialRaw(drain, w, w.Someone(r), fmt.Sprintf("%s-b%d", name, life), r)
		if err == nil {
			h := &hostile{w: w, r: r, sessions: [2]*rawSession{a, b}}
			h.haunt(ctx, drain)
			b.close()
		}
		a.close()
		if !fault.Rest(drain, 300*time.Millisecond) {
			return
		}
	}
}

type hostile struct {
	w        *trial
	r        *rand.Rand
	sessions [2]*rawSession
}

// haunt runs until one of the two streams breaks.
func (h *hostile) haunt(ctx, drain context.Context) {
	for {
		var a *rotav1.Assignment
		own, other := h.sessions[0], h.sessions[1]
		select {
		case a = <-own.assigned:
		case a = <-other.assigned:
			own, other = other, own
		case <-own.ctx.Done():
			return
		case <-other.ctx.Done():
			return
		case <-drain.Done():
			return
		}
		trick := h.r.IntN(7)
		if ctx.Err() != nil {
			trick = 0
		}
		if !h.play(drain, trick, own, other, a) {
			return
		}
	}
}

// play does one trick with a lease that own holds. It reports whether the streams still answer.
func (h *hostile) play(ctx context.Context, trick int, own, other *rawSession, a *rotav1.Assignment) bool {
	completing := func() *rotav1.LeaseCommand { return completion(a) }
	switch trick {
	case 0, 1: // done, and done again, then with another outcome
		first := h.report(own, a, completing(), check.DidComplete)
		again := h.repeat(own, a, completing(), "same", first)
		lie := completing()
		lie.Output, lie.OutputDigest = []byte(check.Lie), nil
		return h.repeat(own, a, lie, "other", first) && again
	case 2: // another's lease
		if !h.forge(other, a, completing(), "another worker's lease") {
			return false
		}
		return h.report(own, a, completing(), check.DidComplete) != check.Unknown
	case 3: // a lease that never existed
		forged := completing()
		forged.LeaseId = make([]byte, 32)
		for i := range forged.LeaseId {
			forged.LeaseId[i] = byte(h.r.Uint32())
		}
		if !h.forge(own, a, forged, "a lease that never was") {
			return false
		}
		return h.report(own, a, completing(), check.DidComplete) != check.Unknown
	case 4: // given back, then completed all the same
		back := &rotav1.LeaseCommand{Verb: rotav1.LeaseVerb_LEASE_VERB_DECLINE, LeaseId: a.Lease.Id, Job: a.Lease.Job}
		if h.report(own, a, back, check.DidDecline) != check.OK {
			return false
		}
		return h.forge(own, a, completing(), "a lease given back")
	case 5: // renewals out of order
		leap := &rotav1.LeaseCommand{Verb: rotav1.LeaseVerb_LEASE_VERB_RENEW, LeaseId: a.Lease.Id, Job: a.Lease.Job,
			Ordinal: 1_000_000}
		if !h.forge(own, a, leap, "a renewal from the future") {
			return false
		}
		return h.report(own, a, completing(), check.DidComplete) != check.Unknown
	default: // neither acknowledged nor done in time, perhaps
		if !fault.Rest(ctx, time.Duration(h.r.IntN(6000))*time.Millisecond) {
			return false
		}
		return h.report(own, a, completing(), check.DidComplete) != check.Unknown
	}
}

// completion completes an assignment as its worker should.
func completion(a *rotav1.Assignment) *rotav1.LeaseCommand {
	output := fmt.Sprintf("%s/%s", a.GetSpec().GetId(), a.GetLease().GetToken())
	sum := sha256.Sum256([]byte(output))
	return &rotav1.LeaseCommand{Verb: rotav1.LeaseVerb_LEASE_VERB_COMPLETE, LeaseId: a.Lease.Id,
		Job: a.Lease.Job, Output: []byte(output), OutputDigest: sum[:]}
}

// opAbout begins an operation on a lease.
func (h *hostile) opAbout(s *rawSession, what string, a *rotav1.Assignment) check.Op {
	op := check.Op{Process: s.name, Func: what, Job: a.GetLease().GetJob(), Node: s.node, Invoke: h.w.Rec.Now(),
		Attempt: a.GetLease().GetAttempt(), Lease: fmt.Sprintf("%x", a.GetLease().GetId())}
	_ = op.Token.UnmarshalText([]byte(a.GetLease().GetToken())) // none stays zero
	return op
}

// ask sends a command and records the answer.
func (h *hostile) ask(s *rawSession, op check.Op, c *rotav1.LeaseCommand) check.Op {
	answer, err := s.ask(c)
	op.State = answer.GetJobState()
	if refusal := answer.GetRefusal(); refusal != nil && err == nil {
		err = refusalError(refusal)
	}
	return op.Done(h.w.Rec, err)
}

// report is the honest part: the worker's own outcome of its own lease.
func (h *hostile) report(s *rawSession, a *rotav1.Assignment, c *rotav1.LeaseCommand, did string) check.Outcome {
	op := h.opAbout(s, check.OpReport, a)
	op.Did, op.Output = did, string(c.Output)
	op = h.ask(s, op, c)
	h.w.Rec.Add(op)
	return op.Outcome
}

// repeat sends a completion again: the same must get the same answer as the first, another must be refused.
func (h *hostile) repeat(s *rawSession, a *rotav1.Assignment, c *rotav1.LeaseCommand, did string,
	first check.Outcome) bool {
	op := h.opAbout(s, check.OpRepeat, a)
	op.Did = did + " after " + string(first)
	op = h.ask(s, op, c)
	h.w.Rec.Add(op)
	return op.Outcome != check.Unknown
}

// forge sends a command that must be refused.
func (h *hostile) forge(s *rawSession, a *rotav1.Assignment, c *rotav1.LeaseCommand, did string) bool {
	op := h.opAbout(s, check.OpForge, a)
	op.Did = did
	op = h.ask(s, op, c)
	h.w.Rec.Add(op)
	return op.Outcome != check.Unknown
}

// refusalError makes an error of a refusal on the wire.
func refusalError(r *rotav1.Refusal) error {
	for k := rota.KindNone; k <= rota.KindUnauthenticated; k++ {
		if k.String() == r.GetKind() {
			return rota.Refusef(k, r.GetSubject(), "%s", r.GetText())
		}
	}
	return rota.Refusef(rota.KindInternal, r.GetSubject(), "%s: %s", r.GetKind(), r.GetText())
}
