package fsm

// outcome is how a lease ended, or was treated, by its worker: what standing
// (SPEC §6.2), failure domains (§4.8) and statistics (§5.3) are kept from.
type outcome uint8

const (
	outcomeSuccess outcome = iota + 1
	outcomeFailure
	outcomeAckTimeout
	outcomeExpired
	outcomeProofInvalid
	outcomeDeclined
	outcomeLateRenewal
	outcomeTimedOut
)

// outcome tells all who keep count. It is called while the lease is open still.
func (fl *fleet) outcome(l *leaseRow, what outcome) {
	w := fl.workers.edit(l.Worker)
	switch what {
	case outcomeSuccess:
		w.completed++
	case outcomeFailure, outcomeProofInvalid, outcomeTimedOut:
		w.failed++
	}
	fl.countStanding(w, l, what)
	fl.m.typeStats.countType(l, what)
	fl.m.limits.countDomain(l, what)
}
