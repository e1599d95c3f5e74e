//go:build plant_passes_head

package keys

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// passesHead lets a sequence continue past a head that waits for its date or its next attempt.
func (plants) passesHead(kr *Keyring, p state.KeyPlace) bool {
	j := kr.s.JobTable.Get(p.Job)
	return j != nil && j.State == rota.JobDelayed
}
