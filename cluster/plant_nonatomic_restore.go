//go:build plant_nonatomic_restore

package cluster

import "github.com/rotasched/rota/fsm"

// nonatomicRestore puts the state in place while its rows are still arriving.
func (plants) nonatomicRestore(n *Node, l *fsm.Loader) {
	n.replica.Mu.Lock()
	defer n.replica.Mu.Unlock()
	n.replica.Machine = l.Unfinished()
}
