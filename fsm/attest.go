package fsm

import "github.com/rotasched/rota"

// maxAttested bounds the expiry of an attestation, as rota.Attest does.
const maxAttested rota.Date = 1 << 46

// attestation is what an attestation says that was verified before the log
// (SPEC §6.5): zero for none.
type attestation struct {
	until rota.Date
	stake int64
}

// check refuses what no attestation says.
func (a attestation) check() error {
	if a.until < 0 || a.until > maxAttested {
		return rota.Refusef(rota.KindInvalid, "attested_until_ms", "attested_until_ms is %d: 0 to %d is wanted", a.until,
			int64(maxAttested))
	}
	if a.stake < 0 || a.stake > rota.MaxFee {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake is %d: 0 to %d is wanted", a.stake,
			int64(rota.MaxFee))
	}
	if a.stake > 0 && a.until == 0 {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake is %d without an attestation: 0 is wanted", a.stake)
	}
	return nil
}

// attest takes a worker's attestation; w is editable. Each registration says it anew:
// one without an attestation has none from then on. The stake stays in the row, for
// penalties: no worker escapes them by registering without.
func (fl *fleet) attest(w *workerRow, a attestation) {
	w.attestedUntil, w.lapsed = a.until, a.until != 0 && a.until <= fl.m.head.date()
	if a.until != 0 {
		w.attestedStake = a.stake
	}
}

// stakeLeft is the stake that was attested last without what was slashed.
func (r *workerRow) stakeLeft() int64 { return max(0, r.attestedStake-r.slashed) }

// stakeNow is what counts for min_stake: what is left, while the attestation holds.
// What a worker declares of itself counts for nothing.
func (r *workerRow) stakeNow() int64 {
	if !r.attested() {
		return 0
	}
	return r.stakeLeft()
}

// attested reports whether the worker's attestation holds, as of the last sweep.
func (r *workerRow) attested() bool { return r.attestedUntil != 0 && !r.lapsed }

// attestationEnds is when fireAttestation is due, on the date; 0 for never.
func (r *workerRow) attestationEnds() rota.Date {
	if r.lapsed {
		return 0
	}
	return r.attestedUntil
}

// fireAttestation notes that a worker's attestation has expired. It ends no lease
// (SPEC §8.5): the worker gets no more of queues that ask for one.
func (fl *fleet) fireAttestation(id string) {
	w := fl.workers.edit(rota.WorkerID(id))
	w.lapsed = true
	fl.restand(w)
}
