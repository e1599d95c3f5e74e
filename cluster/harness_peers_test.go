package cluster

import (
	"context"
	"errors"
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// directPeers calls other nodes of the bench without a network.
type directPeers struct {
	b    *bench
	self rota.NodeID
	// identity and mayCall are the values set by Calls.
	identity string
	mayCall  func(rota.NodeID) error
}

func (p *directPeers) Calls(identity string, mayCall func(rota.NodeID) error) {
	p.identity, p.mayCall = identity, mayCall
}

// call finds a node for a call between members.
func (p *directPeers) call(id rota.NodeID) (*Node, error) {
	if err := p.mayCall(id); err != nil {
		return nil, err
	}
	return p.recorded(id)
}

// recorded finds a node for a call that it accepts only from members.
func (p *directPeers) recorded(id rota.NodeID) (*Node, error) {
	n, err := p.to(id)
	if err == nil {
		err = n.Recorded(p.self, p.identity)
	}
	return n, err
}

func (p *directPeers) to(id rota.NodeID) (*Node, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	n := p.b.nodes[id]
	if n == nil || p.b.cut[id] || p.b.cut[p.self] {
		return nil, &rota.Error{Kind: rota.KindUnavailable, Text: "node " + string(id) + " does not answer"}
	}
	return n, nil
}

// errDeaf is the error of a node whose answers the test blocks.
var errDeaf = errors.New("nothing comes back, by the test's will")

func (p *directPeers) kept(from map[rota.NodeID]bool) bool {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return from[p.self]
}

func (p *directPeers) Forward(ctx context.Context, to peer.NodeAddress, commands []byte) ([]byte, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return nil, err
	}
	answer, err := n.Forwarded(ctx, commands)
	p.b.mu.Lock()
	see := p.b.forwarded
	p.b.mu.Unlock()
	if err == nil && see != nil {
		if err := see(p.self, commands); err != nil {
			return nil, err
		}
	}
	return answer, err
}

func (p *directPeers) Beat(ctx context.Context, to peer.NodeAddress, beats []peer.Beat) (peer.BeatAnswer, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return peer.BeatAnswer{}, err
	}
	return n.Beats(ctx, beats)
}

func (p *directPeers) Barrier(ctx context.Context, to peer.NodeAddress) (rota.Index, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return 0, err
	}
	return n.Barrier(ctx)
}

func (p *directPeers) Log(_ context.Context, to peer.NodeAddress, lease rota.LeaseID,
	after uint64) (peer.NodeLog, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return peer.NodeLog{}, err
	}
	return n.LogHere(lease, after), nil
}

func (p *directPeers) Inspect(ctx context.Context, to peer.NodeAddress, at []rota.Index) (peer.Inspection, error) {
	p.b.mu.Lock()
	hung := p.b.hung[to.ID]
	p.b.mu.Unlock()
	if hung {
		<-ctx.Done()
		return peer.Inspection{}, ctx.Err()
	}
	n, err := p.to(to.ID)
	if err != nil || p.kept(p.b.deaf) {
		return peer.Inspection{}, errors.Join(err, errDeaf)
	}
	if err := n.Recorded(p.self, p.identity); err != nil && !unrecorded(err) {
		return peer.Inspection{}, err
	}
	return n.Inspect(ctx, at)
}

func (p *directPeers) CheckAt(ctx context.Context, to peer.NodeAddress, index rota.Index) (rota.NodeVerdict, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return rota.NodeVerdict{}, err
	}
	return n.CheckAt(ctx, index)
}

func (p *directPeers) State(ctx context.Context, to peer.NodeAddress, w io.Writer) error {
	n, err := p.call(to.ID)
	if err != nil || p.kept(p.b.starved) {
		return errors.Join(err, errDeaf)
	}
	p.b.mu.Lock()
	through := p.b.sending
	p.b.mu.Unlock()
	if through != nil {
		w = through(w)
	}
	return n.SaveState(ctx, w)
}

func (p *directPeers) EventRange(ctx context.Context, to peer.NodeAddress, r peer.EventRange) (peer.EventChunk, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return peer.EventChunk{}, err
	}
	return n.EventRange(ctx, r)
}

func (p *directPeers) ArchiveRange(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan, most int64) (
	peer.ArchiveSlice, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return peer.ArchiveSlice{}, err
	}
	return n.ArchiveRange(ctx, span, most)
}

func (p *directPeers) ArchiveRecords(ctx context.Context, to peer.NodeAddress,
	ids []rota.JobID) ([]peer.ArchiveRecord, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return nil, err
	}
	return n.ArchiveRecords(ctx, ids)
}

func (p *directPeers) ListArchived(ctx context.Context, to peer.NodeAddress, f rota.JobFilter,
	at rota.Index) (rota.JobPage, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return rota.JobPage{}, err
	}
	return n.ListArchived(ctx, f, at)
}

func (p *directPeers) ArchiveSums(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan,
	sum []byte) (bool, []peer.ArchiveRecord, error) {
	n, err := p.call(to.ID)
	if err != nil {
		return false, nil, err
	}
	return n.ArchiveSums(ctx, span, sum)
}

func (p *directPeers) Introduce(_ context.Context, to peer.NodeAddress, in peer.Introduction) error {
	n, err := p.to(to.ID)
	if err != nil {
		return err
	}
	if p.b.introduced != nil {
		if pass, err := p.b.introduced(to.ID); !pass {
			return err
		}
	}
	return n.Introduce(in)
}

func (p *directPeers) RemovePeer(ctx context.Context, to peer.NodeAddress, id rota.NodeID) error {
	find := p.call
	if id == p.self {
		find = p.recorded
	}
	n, err := find(to.ID)
	if err != nil {
		return err
	}
	return n.RemoveHere(ctx, id)
}

func (p *directPeers) TransferLeadership(ctx context.Context, at peer.NodeAddress,
	to rota.NodeID) (rota.NodeID, error) {
	n, err := p.call(at.ID)
	if err != nil {
		return "", err
	}
	return n.TransferHere(ctx, to)
}

func (p *directPeers) Close() error { return nil }
