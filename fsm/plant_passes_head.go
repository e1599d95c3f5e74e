//go:build plant_passes_head

package fsm

import "github.com/rotasched/rota"

// passesHead lets a sequence go on behind a head that waits for its date or its next attempt.
func (plants) passesHead(kr *keyring, p keyPlace) bool {
	j := kr.s.jobs.get(p.job)
	return j != nil && j.state == rota.JobDelayed
}
