package stream

import (
	"context"
	"io"

	"github.com/hashicorp/raft"
)

// installed returns the answer to a snapshot of nothing that this node lacks, nil where
// raft has to take it. hashicorp/raft 1.7.3 restores whatever the leader of its term
// offers: one that comes late over a slow link, or again as its answer was lost, puts the
// state, the configuration and what raft calls applied back, and raft panics where the log
// begins after it. What is committed stays committed, so the snapshot counts as installed.
//
// raft hears a heartbeat of the same leadership first. When it has answered it is done with
// every earlier request, this guard is the only one to bring it more, and only a later term,
// in which it refuses this snapshot, lets it commit more by itself: the indices compared
// stand still.
func (g *guard) installed(ctx context.Context, c *raft.InstallSnapshotRequest) *raft.InstallSnapshotResponse {
	answers := make(chan raft.RPCResponse, 1)
	if !g.hand(ctx, raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: c.RPCHeader, Term: c.Term}, RespChan: answers}) {
		return nil
	}
	select {
	case answer := <-answers:
		beat, ok := answer.Response.(*raft.AppendEntriesResponse)
		// A state that begins with a snapshot has applied what raft does not call committed yet.
		known := max(g.raft.CommitIndex(), g.raft.AppliedIndex())
		if !ok || !beat.Success || c.LastLogIndex > known {
			return nil
		}
		return &raft.InstallSnapshotResponse{RPCHeader: beat.RPCHeader, Term: beat.Term, Success: true}
	case <-ctx.Done():
		return nil
	}
}

// answerOverBody answers a snapshot when all of it has come, as raft does: its sender looks
// for the answer no earlier, and repeats what it could not send.
func answerOverBody(rpc raft.RPC, answer *raft.InstallSnapshotResponse) {
	_, _ = io.Copy(io.Discard, rpc.Reader)
	rpc.Respond(answer, nil)
}
