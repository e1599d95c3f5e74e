package state

import (
	"github.com/rotasched/rota"
)

// Began is since when the job ran, as far as anybody knows: since the
// acknowledgement, or since the assignment where only the completion told of it.
func (r *LeaseRow) Began() rota.Clock {
	if r.Acked.IsZero() || r.Implied {
		return r.Started.Clock
	}
	return r.Acked.Clock
}

// Words returns a lease as now shows what is to come of it.
func (r *LeaseRow) Words(now rota.Moment) rota.Lease {
	l := r.Lease
	for _, to := range []*rota.Moment{&l.AckBy, &l.RenewBy, &l.Deadline} {
		*to = now.At(to.Clock)
	}
	return l
}
