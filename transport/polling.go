package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// pollingService serves workers that have no stream (SPEC §13.17): it does in single calls, each possibly at another
// node, what a stream does over hours.
type pollingService struct {
	server *Server
	core   WorkerCore
}

// here reads the state that this node has applied, fresh a state that includes everything answered before.
var here, fresh = peer.ReadOptions{MinIndex: 1}, peer.ReadOptions{}

// Acquire implements web.Polling.
func (s *pollingService) Acquire(ctx context.Context, secret string, ask *rest.Acquire) (rest.Acquired, error) {
	if err := checkProof(secret); err != nil {
		return rest.Acquired{}, err
	}
	if err := checkAcquire(ask); err != nil {
		return rest.Acquired{}, err
	}
	holding, err := leasesOf(ask.Holding)
	if err != nil {
		return rest.Acquired{}, err
	}
	session, err := s.core.OpenWorker(ctx, ask.Worker, []byte(secret), ask.Takeover, nil, peer.WorkerLink{Polls: true})
	if err != nil {
		return rest.Acquired{}, err
	}
	defer session.Close()
	return newPoll(s.server, session, ask, holding).run(ctx)
}

// checkAcquire rejects an invalid poll request.
func checkAcquire(ask *rest.Acquire) error {
	if err := ask.Worker.CheckShape(); err != nil {
		return err
	}
	most := limits.MaxPoll.Milliseconds()
	switch room := ask.Worker.Slots + ask.Worker.Prefetch; {
	case ask.Max < 1:
		return rota.Refusef(rota.KindInvalid, "max", "max must be between 1 and %d, got %d; to take no lease, use beat",
			limits.MaxAcquire, ask.Max)
	case ask.Max > limits.MaxAcquire:
		return rota.Refusef(rota.KindInvalid, "max", "max must be at most %d, got %d; ask again for more leases",
			limits.MaxAcquire, ask.Max)
	case ask.Max > room:
		return rota.Refusef(rota.KindInvalid, "max",
			"max must be at most worker.slots (%d), got %d; raise slots, or lower max", ask.Worker.Slots, ask.Max)
	case ask.WaitMs < 0 || ask.WaitMs > most:
		return rota.Refusef(rota.KindInvalid, "wait_ms",
			"wait_ms must be between 0 and %d, got %d; a poll counts as one beat, so poll again after it", most,
			ask.WaitMs)
	}
	return nil
}

// Beat implements web.Polling: it is one beat, and renews those leases in holding that are due.
func (s *pollingService) Beat(ctx context.Context, id rota.WorkerID, secret string,
	beat *rest.WorkerBeat) (rest.WorkerBeaten, error) {
	holding, err := leasesOf(beat.Holding)
	if err != nil {
		return rest.WorkerBeaten{}, err
	}
	session, err := s.attach(ctx, id, secret)
	if err != nil {
		return rest.WorkerBeaten{}, err
	}
	beating := startBeat(ctx, session)
	st, err := session.Standing(ctx, fresh)
	if err != nil {
		return rest.WorkerBeaten{}, err
	}
	clock, err := beating()
	if err != nil {
		return rest.WorkerBeaten{}, err
	}
	if err := renewHeld(ctx, session, st.Leases, holding, clock); err != nil {
		return rest.WorkerBeaten{}, err
	}
	done := rest.WorkerBeaten{Status: st.Status, Leases: []rest.HeldLease{}, Revoked: []rest.RevokedLease{},
		Ended: holding.without(st.Leases)}
	for i := range st.Leases {
		l := &st.Leases[i].Lease
		switch {
		case hidden(&st.Leases[i], holding):
		case l.Revoked != rota.ReasonNone:
			done.Revoked = append(done.Revoked, revokedOf(l))
		case holding.has(l.ID):
			done.Leases = append(done.Leases, rest.HeldLease{Lease: l.ID, ValidMs: validMs(l, clock),
				Renewals: l.Renewals})
		}
	}
	return done, nil
}

// dueBefore returns how long before its renewal deadline a lease is renewed: the interval of a beat and one second, or
// a fifth of a lease that is shorter than five times that. An earlier renewal gains less, and renewals_max bounds their
// number.
func dueBefore(a *rota.Assignment) rota.Clock {
	return rota.Clock(min(6*time.Second, a.LeaseFor/5).Milliseconds())
}

// renewHeld renews the leases that are held and due, and updates them. A lease that can no longer be renewed continues
// to its deadline.
func renewHeld(ctx context.Context, session WorkerSession, leases []rota.Assignment, holding held,
	clock rota.Clock) error {
	var commands []peer.LeaseCommand
	var due []*rota.Lease
	for i := range leases {
		l := &leases[i].Lease
		if holding.has(l.ID) && l.Revoked == rota.ReasonNone &&
			(clock+dueBefore(&leases[i]) >= l.RenewBy.Clock || l.Acked.IsZero()) {
			due = append(due, l)
			commands = append(commands, peer.LeaseCommand{Verb: rota.VerbRenew, Lease: l.ID, Job: l.Job,
				Ordinal: l.Renewals + 1})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	answers, err := session.Do(ctx, commands)
	if err != nil {
		return err
	}
	if err := checkLengths("commands", len(commands), len(answers)); err != nil {
		return err
	}
	for i, a := range answers {
		if a.Err == nil {
			due[i].Deadline.Clock, due[i].Renewals = a.Deadline, a.Renewals
		} else if a.Err.Kind != rota.KindConflict { // it is over, or not this caller's, which must not continue
			due[i].Deadline.Clock = clock
		}
	}
	return nil
}

// Unregister implements web.Polling.
func (s *pollingService) Unregister(ctx context.Context, id rota.WorkerID, secret string) error {
	session, err := s.attach(ctx, id, secret)
	if err != nil {
		return err
	}
	return session.Bye(ctx)
}

func (s *pollingService) attach(ctx context.Context, id rota.WorkerID, secret string) (WorkerSession, error) {
	if err := rota.CheckID("id", id); err != nil {
		return nil, err
	}
	if err := checkProof(secret); err != nil {
		return nil, err
	}
	return s.core.AttachWorker(ctx, id, []byte(secret))
}

// checkProof rejects a header that holds no worker's secret.
func checkProof(secret string) error {
	if n := len(secret); n < minSecret || n > maxSecret {
		return rota.Refusef(rota.KindInvalid, "rota-worker-secret",
			"header Rota-Worker-Secret: got %d bytes, want %d to %d; make one with "+
				"openssl rand -hex 16", n, minSecret, maxSecret)
	}
	return nil
}

// held lists the leases that a caller claims to hold, in its order.
type held struct {
	order []rota.LeaseID
	known map[rota.LeaseID]bool
}

func (h held) has(id rota.LeaseID) bool { return h.known[id] }

// without returns the held leases that are not among the open ones.
func (h held) without(open []rota.Assignment) []string {
	there := make(map[rota.LeaseID]bool, len(open))
	for i := range open {
		there[open[i].Lease.ID] = true
	}
	ended := []string{}
	for _, id := range h.order {
		if !there[id] {
			ended = append(ended, id.String())
		}
	}
	return ended
}

// leasesOf parses the leases that a caller holds.
func leasesOf(texts []string) (h held, err error) {
	if n := len(texts); n > limits.MaxBatchJobs {
		return h, rota.Refusef(rota.KindInvalid, "holding", "too many leases in holding: got %d, maximum %d", n,
			limits.MaxBatchJobs)
	}
	h.known = make(map[rota.LeaseID]bool, len(texts))
	for i, text := range texts {
		id, err := leaseOf(fmt.Sprintf("holding[%d]", i), text)
		if err != nil {
			return h, err
		}
		if !h.known[id] {
			h.order = append(h.order, id)
		}
		h.known[id] = true
	}
	return h, nil
}

func leaseOf(field, text string) (id rota.LeaseID, err error) {
	if err := id.UnmarshalText([]byte(text)); err != nil || id.IsZero() {
		return id, rota.Refusef(rota.KindInvalid, field,
			"%s: got %.80q; use the 64 hex digits of a lease that acquire returned", field, text)
	}
	return id, nil
}

// hidden reports whether an open lease belongs to a job that the caller may not work on, and is not among the leases it
// claims to hold.
func hidden(a *rota.Assignment, holding held) bool {
	return a.Spec.ID == "" && !holding.has(a.Lease.ID)
}

func revokedOf(l *rota.Lease) rest.RevokedLease {
	return rest.RevokedLease{Lease: l.ID, Token: l.Token, Job: l.Job, Reason: l.Revoked}
}

// validMs returns how long a lease may be worked on, from the sending of the beat that was answered with a clock (SPEC
// §3.9): never longer than the time that may pass without an answered beat.
func validMs(l *rota.Lease, clock rota.Clock) int64 {
	left := int64(l.Deadline.Clock-clock) - limits.ViewMargin.Milliseconds()
	return max(0, min(left, limits.BeatLost.Milliseconds()))
}

// startBeat starts a beat, and returns a function that waits for its answer.
func startBeat(ctx context.Context, session WorkerSession) func() (rota.Clock, error) {
	type answer struct {
		clock rota.Clock
		err   error
	}
	done := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	go func() {
		defer cancel()
		beaten, err := session.Beat(ctx, 0) // a poll is one beat
		done <- answer{beaten.Clock, err}
	}()
	return func() (rota.Clock, error) {
		a := <-done
		return a.clock, a.err
	}
}
