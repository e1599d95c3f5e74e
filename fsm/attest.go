package fsm

import "github.com/rotasched/rota"

// maxAttested bounds the expiry of an attestation, as rota.Attest does.
const maxAttested rota.Date = 1 << 46

// attest takes the expiry of an attestation that was verified before the log
// (SPEC §6.5); w is editable. Each registration says it anew: one without an
// attestation has none from then on.
func (m *Machine) attest(w *workerRow, until rota.Date) {
	w.attestedUntil, w.lapsed = until, until != 0 && until <= m.head.date()
}

// attestationEnds is when fireAttestation is due, on the date; 0 for never.
func (r *workerRow) attestationEnds() rota.Date {
	if r.lapsed {
		return 0
	}
	return r.attestedUntil
}

// fireAttestation notes that a worker's attestation has expired. It ends no lease
// (SPEC §8.5): the worker gets no more of queues that ask for one.
func (m *Machine) fireAttestation(id string) {
	w := m.workers.edit(rota.WorkerID(id))
	w.lapsed = true
	m.restand(w)
}
