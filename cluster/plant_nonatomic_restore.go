//go:build plant_nonatomic_restore

package cluster

import "github.com/rotasched/rota/fsm"

// nonatomicRestore puts the state in place while its rows are still arriving.
func (plants) nonatomicRestore(n *Node, l *fsm.Loader) {
	n.replica.mu.Lock()
	defer n.replica.mu.Unlock()
	n.replica.machine = l.Unfinished()
}
