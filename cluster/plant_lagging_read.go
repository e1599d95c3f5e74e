//go:build plant_lagging_read

package cluster

// laggingRead answers from what this node has applied, whatever was acknowledged.
func (plants) laggingRead() bool { return true }
