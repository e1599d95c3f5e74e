package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

const (
	// connectionsKept is how many idle connections to one node are kept.
	connectionsKept = 4
	// maxCall bounds one call of raft to another node; sending a snapshot takes longer.
	maxCall = 10 * time.Second
	// rpcsInFlight of 1 disables raft's pipelined replication. In hashicorp/raft 1.7.3, once a follower rejects a
	// request or has a later term, the pipeline's decoder ends, and its sender then waits forever for a slot:
	// replication to that follower stops until there is another leader, and Shutdown never returns. Entries that arrive
	// meanwhile share the next message, so little is lost.
	rpcsInFlight = 1
)

// ErrMute is returned to raft when this node must not be heard.
var ErrMute = errors.New("this node's state is wrong, or its applying stalls: it neither leads nor starts elections")

// TransportConfig connects a Transport to its node. All functions are called concurrently, and must be quick.
type TransportConfig struct {
	// Layer provides the connections. The transport closes it.
	Layer *Layer
	// Logger receives raft's log lines, and those about rejected requests.
	Logger *slog.Logger
	// Address returns the address of a node if discovery knows a newer one than raft's configuration.
	Address func(id rota.NodeID) (address string, ok bool)
	// Silent reports that this node must not stand for election, Muted that it must not act as a leader, Wrong that its
	// state is wrong, and its snapshots may be.
	Silent, Muted, Wrong func() bool
	// OnDisk lowers an index to that of the last entry on this node's disk.
	OnDisk func(index uint64) uint64
	// Leads reports whether this node is the leader, and whether it is about to send an entry.
	Leads func() (leads, entrySoon bool)
	// Room returns how many bytes a snapshot may have, and false if that is unknown.
	Room func() (int64, bool)
	// Acknowledged is called for each answer in which a follower confirms that it holds this leader's entries up to an
	// index, in a term.
	Acknowledged func(id raft.ServerID, term, index uint64)
	// Notified is called for each message that only notified a follower of a commit.
	Notified func()
}

// Transport is raft's transport over a Layer: it sends only what this node is allowed to send, and everything it
// receives has passed the guard.
//
// It has no fast path for heartbeats. hashicorp/raft 1.7.3 handles a heartbeat on that path concurrently with its main
// loop. A heartbeat of a later term then changes the term of a leader that was paused, while that leader stores
// entries, which get a term that it never led. Another node's entry of that index and term is treated as the same one,
// and two nodes hold different committed entries. In the main loop a heartbeat waits for the write in progress; an
// answered write counts as contact too.
type Transport struct {
	*raft.NetworkTransport
	cfg   TransportConfig
	guard *guard
	news  commitNews
}

// NewTransport returns a transport that passes no request to raft before Run and Begin.
func NewTransport(cfg TransportConfig) *Transport {
	t := &Transport{cfg: cfg}
	t.news.more = make(chan struct{}, 1)
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: cfg.Layer,
		MaxPool: connectionsKept, Timeout: maxCall, Logger: logs.ForRaft(cfg.Logger),
		ServerAddressProvider: addressBook{cfg.Address},
		MaxRPCsInFlight:       rpcsInFlight})
	t.guard = newGuard(t.NetworkTransport.Consumer(), cfg.Room, t.refused)
	return t
}

// Run checks requests and notifies followers of commits, until ctx ends.
func (t *Transport) Run(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { t.guard.run(ctx) })
	for {
		select {
		case <-t.news.more:
			for _, f := range t.news.begun() {
				loops.Go(func() { t.tell(ctx, f) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// Begin lets requests through, now that raft can be queried.
func (t *Transport) Begin(r RaftView) { t.guard.begin(r) }

// Applied records that this node, as the leader, has applied a committed entry.
func (t *Transport) Applied(log *raft.Log) { t.news.applied(log) }

// refused counts a rejection by the guard, with at most one log line per minute and sender.
func (t *Transport) refused(from raft.RPCHeader, err error) {
	layer := t.cfg.Layer
	layer.count(func(c *Counts) { c.Guarded++ })
	id := string(from.ID[:min(len(from.ID), 64)])
	if layer.lines.Allow("guard/" + id) {
		t.cfg.Logger.Warn("raft request refused", "node", fmt.Sprintf("%q", id), "error", err)
	}
}

// SetHeartbeatHandler ignores the handler, which leaves heartbeats to the main loop.
func (*Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// RequestVote requests no vote while this node must not stand for election.
func (t *Transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	if t.cfg.Silent() {
		return ErrMute
	}
	if err := t.NetworkTransport.RequestVote(id, meant(id, target), args, resp); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// RequestPreVote requests none either, so that not even the term grows.
func (t *Transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	if t.cfg.Silent() {
		return ErrMute
	}
	if err := t.NetworkTransport.RequestPreVote(id, meant(id, target), args, resp); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// InstallSnapshot sends a snapshot, and rejects an answer with an implausible term. While this node's state is wrong it
// sends none: the snapshots on its disk may be wrong too.
func (t *Transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.cfg.Wrong() {
		return ErrMute
	}
	if err := t.NetworkTransport.InstallSnapshot(id, meant(id, target), args, resp, data); err != nil {
		return err
	}
	return checkTerm(args.Term, resp.Term)
}

// AppendEntries sends nothing while this node must not act as a leader, in case its leadership could not be handed
// over.
func (t *Transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if t.cfg.Muted() {
		return ErrMute
	}
	if held := t.cfg.OnDisk(args.LeaderCommitIndex); held < args.LeaderCommitIndex {
		lower := *args
		lower.LeaderCommitIndex = held
		args = &lower
	}
	if err := t.append(id, meant(id, target), args, resp); err != nil {
		return err
	}
	if resp.Success && t.cfg.Acknowledged != nil {
		t.cfg.Acknowledged(id, args.Term, args.PrevLogEntry+uint64(len(args.Entries)))
	}
	return checkTerm(args.Term, resp.Term)
}

// TimeoutNow hands leadership over.
func (t *Transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, meant(id, target), args, resp)
}

// EncodePeer returns this node's address without its id: hashicorp/raft puts it into its requests, and receivers
// compare it with that of the leader that they know. Otherwise the address book's form, with the id, would be sent, and
// only while gossip lists this node.
func (*Transport) EncodePeer(_ raft.ServerID, address raft.ServerAddress) []byte {
	return []byte(address)
}

// Consumer returns the requests that passed the guard.
func (t *Transport) Consumer() <-chan raft.RPC { return t.guard.out }

// meant combines an address with the id of the intended node. hashicorp/raft attributes answers from an address to that
// server, and pools connections by address. If another node took over a dead one's address, it would vote and hold
// entries under both names, and two of three would be a single one.
func meant(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + address
}

// splitMeant reverses meant; the id is empty if no particular node is intended.
func splitMeant(target raft.ServerAddress) (id rota.NodeID, address string) {
	before, after, found := strings.Cut(string(target), "@")
	if !found {
		return "", before
	}
	return rota.NodeID(before), after
}

// addressBook lets raft dial by node id: discovery finds an address that changed, though discovery alone never adds a
// member.
type addressBook struct {
	find func(id rota.NodeID) (address string, ok bool)
}

// ServerAddr implements raft.ServerAddressProvider.
func (b addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if address, ok := b.find(rota.NodeID(id)); ok {
		return meant(id, raft.ServerAddress(address)), nil
	}
	return "", fmt.Errorf("node %s is not in gossip", id)
}
