package fsm

import "github.com/rotasched/rota"

// admitRate refuses a submission beyond its tenant's rate (SPEC §4.5); it changes
// nothing.
func (m *Machine) admitRate(spec *rota.JobSpec, q *queueRow) error { return nil }

// chargeRate takes an admitted submission from its tenant's bucket.
func (m *Machine) chargeRate(spec *rota.JobSpec, q *queueRow) {}

// admitPressure refuses, and throttled hints, by the fill of the queue and of its
// workers (SPEC §4.6).
func (m *Machine) admitPressure(spec *rota.JobSpec, q *queueRow) error {
	if spec.Priority > 0 && q.pending()*1000 >= q.policy.QueueCap*q.policy.RejectThresholdPermille {
		return exhausted("queue", "queue %q holds %d pending jobs, %d permille of queue_cap %d: at reject_threshold only "+
			"priority 0 is taken", spec.Queue, q.pending(), q.policy.RejectThresholdPermille, q.policy.QueueCap)
	}
	return nil
}

func (m *Machine) throttled(q *queueRow) bool { return false }

// countWindow counts an assignment in its tenant's rolling window.
func (m *Machine) countWindow(l *leaseRow) {}

// fireMeter looks again at a meter whose bucket or window changes now.
func (m *Machine) fireMeter(key string) {}

// meters checks what is derived of the meters.
func (c *checker) meters() {}
