//go:build plant_nonatomic_restore

package cluster

import (
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
)

// nonatomicRestore puts the state in place while its rows are still arriving.
func (plants) nonatomicRestore(rp *replica.Replica, l *fsm.Loader) {
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	rp.Machine = l.Unfinished()
}
