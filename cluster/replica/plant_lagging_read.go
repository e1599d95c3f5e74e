//go:build plant_lagging_read

package replica

// laggingRead answers from what this node has applied, ignoring later acknowledged entries.
func (plants) laggingRead() bool { return true }
