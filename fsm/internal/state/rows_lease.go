package state

import (
	"github.com/rotasched/rota"
)

// Began returns when the job is known to have started: at the acknowledgement, or at the assignment if only the
// completion reported it.
func (r *LeaseRow) Began() rota.Clock {
	if r.Acked.IsZero() || r.Implied {
		return r.Started.Clock
	}
	return r.Acked.Clock
}

// Words returns a lease in its public form, with its future times calculated from now.
func (r *LeaseRow) Words(now rota.Moment) rota.Lease {
	l := r.Lease
	for _, to := range []*rota.Moment{&l.AckBy, &l.RenewBy, &l.Deadline} {
		*to = now.At(to.Clock)
	}
	return l
}

// Outcome is how a lease ended, or was treated, by its worker: the input of reputation (SPEC §6.2), failure domains
// (§4.8) and statistics (§5.3).
type Outcome uint8

// The ends of leases that are counted.
const (
	OutcomeSuccess Outcome = iota + 1
	OutcomeFailure
	OutcomeAckTimeout
	OutcomeExpired
	OutcomeProofInvalid
	OutcomeDeclined
	OutcomeLateRenewal
	OutcomeTimedOut
)
