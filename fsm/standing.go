package fsm

import "github.com/rotasched/rota"

// countStanding changes a worker's health and what it may get (SPEC §6.2); w is
// editable.
func (m *Machine) countStanding(w *workerRow, l *leaseRow, what outcome) {}

// takeUnits counts a job's units against its worker (SPEC §6.1); w is editable.
func (m *Machine) takeUnits(w *workerRow, l *leaseRow, units int64) {}

// fireStanding looks again at a worker whose cooldown, denial, jail, period or
// attestation ends now.
func (m *Machine) fireStanding(id string) {}

// standingAt is when fireStanding is due, 0 for never.
func (r *workerRow) standingAt() rota.Clock { return 0 }

// standing checks what is derived of the workers' standing.
func (c *checker) standing() {}
