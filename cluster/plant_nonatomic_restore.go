//go:build plant_nonatomic_restore

package cluster

import "github.com/rotasched/rota/fsm"

// nonatomicRestore puts the state in place while its rows are still coming.
func (plants) nonatomicRestore(n *Node, l *fsm.Loader) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machine = l.Unfinished()
}
