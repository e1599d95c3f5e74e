package fsm

import "github.com/rotasched/rota"

// declareType keeps how long jobs of a type should take (SPEC §5.3).
func (m *Machine) declareType(spec *rota.JobSpec, q *queueRow) {}

// countType counts an outcome in the statistics of the job's type.
func (m *Machine) countType(l *leaseRow, what outcome) {}
