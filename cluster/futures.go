package cluster

import (
	"context"
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

// settledWithin is settled for as long as a call waits: a transfer of leadership that is
// asked for as leadership is lost is one that raft may never answer (handOver).
func (n *Node) settledWithin(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- n.settled(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
