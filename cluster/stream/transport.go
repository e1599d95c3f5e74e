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
	// callMost bounds one call of raft's to another node; a snapshot's takes longer.
	callMost = 10 * time.Second
	// rpcsInFlight of 1 turns raft's pipelined replication off. hashicorp/raft 1.7.3:
	// once a follower answers no, or knows a later term, the pipeline's decoder ends,
	// and its sender then waits for ever for a place: replication to that follower
	// stops until another leader comes, and Shutdown never returns. Entries that come
	// meanwhile share the next message, so little is lost.
	rpcsInFlight = 1
)

// ErrMute answers raft where this node must not be heard.
var ErrMute = errors.New("this node's state is wrong, or its applying stalls: it neither leads nor stands for election")

// TransportConfig is what a Transport has to know of its node. All functions are called
// concurrently, and must be quick.
type TransportConfig struct {
	// Layer makes the connections. The transport closes it.
	Layer *Layer
	// Logger receives raft's lines, and those on requests that are refused.
	Logger *slog.Logger
	// Address returns the address of a node where discovery knows a better one than
	// raft's configuration.
	Address func(id rota.NodeID) (address string, ok bool)
	// Silent reports that this node must not stand for election, Muted that it must not
	// be heard as a leader, Wrong that its state is wrong, and its snapshots may be.
	Silent, Muted, Wrong func() bool
	// OnDisk lowers an index to that of the last entry on this node's disk.
	OnDisk func(index uint64) uint64
	// Leads reports whether this node leads, and whether it is about to send an entry.
	Leads func() (leads, entrySoon bool)
	// Room returns how many bytes a snapshot may have, and false where nobody knows.
	Room func() (int64, bool)
	// Acknowledged is called for each answer of a follower that it holds this leader's entries up to an index, in a term.
	Acknowledged func(id raft.ServerID, term, index uint64)
	// Told is called for each message that only told a follower of a commit.
	Told func()
}

// Transport is raft's transport over a Layer: what it sends is what this node may
// say, and what it receives has passed the guard.
//
// It has no fast path for heartbeats. hashicorp/raft 1.7.3 handles a heartbeat on that
// path beside its main loop: one of a later term changes the term of a leader that was
// paused while that leader stores entries, which then carry a term that it never led.
// Another node's entry of that index and term is taken for the same one, and two nodes
// hold different committed entries. In the main loop a heartbeat waits for the write
// under way; an answered write counts as contact as well.
type Transport struct {
	*raft.NetworkTransport
	cfg   TransportConfig
	guard *guard
	news  commitNews
}

// NewTransport returns a transport that passes raft no request before Run and Begin.
func NewTransport(cfg TransportConfig) *Transport {
	t := &Transport{cfg: cfg}
	t.news.more = make(chan struct{}, 1)
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: cfg.Layer,
		MaxPool: connectionsKept, Timeout: callMost, Logger: logs.ForRaft(cfg.Logger), ServerAddressProvider: addressBook{cfg.Address},
		MaxRPCsInFlight: rpcsInFlight})
	t.guard = newGuard(t.NetworkTransport.Consumer(), cfg.Room, t.refused)
	return t
}

// Run judges requests and brings followers the news of commits, until ctx ends.
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

// Begin lets requests through, now that raft can be asked.
func (t *Transport) Begin(r RaftView) { t.guard.begin(r) }

// Applied notes that this node, which leads, has applied a committed entry.
func (t *Transport) Applied(log *raft.Log) { t.news.applied(log) }

// refused counts a refusal of the guard, with a log line once a minute and sender.
func (t *Transport) refused(from raft.RPCHeader, err error) {
	layer := t.cfg.Layer
	layer.count(func(c *Counts) { c.Guarded++ })
	id := string(from.ID[:min(len(from.ID), 64)])
	if layer.lines.Allow("guard/" + id) {
		t.cfg.Logger.Warn("raft request refused", "node", fmt.Sprintf("%q", id), "error", err)
	}
}

// SetHeartbeatHandler leaves heartbeats to the main loop.
func (*Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// RequestVote asks for no vote while this node must not stand.
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

// RequestPreVote asks for none either, so that not even the term grows.
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

// InstallSnapshot sends a snapshot, and does not believe a term out of reach. While this
// node's state is wrong it sends none: those on its disk may be, too.
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

// AppendEntries is silent where leadership could not be handed over.
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

// TimeoutNow hands over.
func (t *Transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, meant(id, target), args, resp)
}

// EncodePeer returns the address by which this node is known, bare: hashicorp/raft puts it
// into its requests, and receivers compare it with that of the leader that they know.
// Without this the address book's, with the id, would be sent, and only while gossip
// tells of this node.
func (*Transport) EncodePeer(_ raft.ServerID, address raft.ServerAddress) []byte {
	return []byte(address)
}

// Consumer returns the requests that the guard lets through.
func (t *Transport) Consumer() <-chan raft.RPC { return t.guard.out }

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

// addressBook lets raft dial by node id: an address that changed is found by discovery,
// though discovery alone never makes a member.
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
