package fsm

// enterTier puts a job that becomes QUEUED at the back of its tier (SPEC §10.2);
// j is editable.
func (m *Machine) enterTier(j *jobRow, q *queueRow) {}

// firePromote lets the aged jobs of a queue rise (SPEC §10.3).
func (m *Machine) firePromote(queue string) {}
