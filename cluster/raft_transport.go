package cluster

import (
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// inLoop is raft's transport without its fast path for heartbeats. hashicorp/raft
// 1.7.3 handles a heartbeat on that path beside its main loop: one of a later term
// changes the term of a leader that was paused while that leader stores entries,
// which then carry a term that it never led. Another node's entry of that index and
// term is taken for the same one, and two nodes hold different committed entries.
// In the main loop a heartbeat waits for the write under way; an answered write
// counts as contact as well.
type inLoop struct {
	*raft.NetworkTransport
	n *Node
}

// SetHeartbeatHandler leaves heartbeats to the main loop.
func (inLoop) SetHeartbeatHandler(func(raft.RPC)) {}

// RequestVote asks for no vote while this node must not stand.
func (t inLoop) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	if t.n.silent() {
		return errMute
	}
	if err := t.NetworkTransport.RequestVote(id, meant(id, target), args, resp); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// RequestPreVote asks for none either, so that not even the term grows.
func (t inLoop) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	if t.n.silent() {
		return errMute
	}
	if err := t.NetworkTransport.RequestPreVote(id, meant(id, target), args, resp); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// InstallSnapshot sends a snapshot, and does not believe a term out of reach. While this
// node's state is wrong it sends none: those on its disk may be, too.
func (t inLoop) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.n.mend.active.Load() {
		return errMute
	}
	if err := t.NetworkTransport.InstallSnapshot(id, meant(id, target), args, resp, data); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// AppendEntries is silent where leadership could not be handed over.
func (t inLoop) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.n.mend.mute.Load() || t.n.dog.mute.Load() {
		return errMute
	}
	if held := t.n.stores.writer.ahead.clamp(args.LeaderCommitIndex); held < args.LeaderCommitIndex {
		lower := *args
		lower.LeaderCommitIndex = held
		args = &lower
	}
	if err := t.append(id, meant(id, target), args, resp); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// TimeoutNow hands over.
func (t inLoop) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, meant(id, target), args, resp)
}

// EncodePeer gives the address by which this node is known, bare: hashicorp/raft puts it
// into its requests, and receivers compare it with that of the leader that they know.
// Without this the address book's, with the id, would be sent, and only while gossip
// tells of this node.
func (inLoop) EncodePeer(_ raft.ServerID, address raft.ServerAddress) []byte { return []byte(address) }

// Consumer gives raft its requests, judged.
func (t inLoop) Consumer() <-chan raft.RPC {
	if t.n.guard == nil {
		return t.NetworkTransport.Consumer()
	}
	return t.n.guard.out
}

// meant is an address with the id of the node that is meant there. hashicorp/raft
// counts what comes back from an address as that server's word, and pools connections
// by address: where another node has taken a dead one's address over, it would vote
// and hold entries in both names, and two of three would be one.
func meant(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + address
}

// splitMeant undoes meant; the id is empty where nobody in particular is meant.
func splitMeant(target raft.ServerAddress) (id rota.NodeID, address string) {
	before, after, found := strings.Cut(string(target), "@")
	if !found {
		return "", before
	}
	return rota.NodeID(before), after
}

// addressBook lets raft dial by node id: an address that changed is found in
// gossip, though gossip alone never makes a member.
type addressBook struct{ n *Node }

// ServerAddr implements raft.ServerAddressProvider.
func (b addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if m, ok := b.n.member(rota.NodeID(id)); ok && m.Raft != "" {
		return meant(id, raft.ServerAddress(m.Raft)), nil
	}
	return "", fmt.Errorf("node %s is not in gossip", id)
}
