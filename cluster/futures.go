package cluster

import (
	"time"

	"github.com/hashicorp/raft"
)

// lastWord is how long a future may still bring its answer once raft has
// stopped: what was answered before then only has to be picked up.
const lastWord = 50 * time.Millisecond

// settled waits for one of raft's futures. hashicorp/raft never answers entries
// that were committed but had not reached the machine when it stopped: without
// this a proposal, and the node's own stopping, would wait for ever.
func (n *Node) settled(f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-n.raftDown:
	}
	late := time.NewTimer(lastWord)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return raft.ErrRaftShutdown
	}
}
