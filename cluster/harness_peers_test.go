package cluster

import (
	"context"
	"errors"
	"io"

	"github.com/rotasched/rota"
)

// directPeers calls other nodes of the bench without a network.
type directPeers struct {
	b    *bench
	self rota.NodeID
}

func (p directPeers) to(id rota.NodeID) (*Node, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	n := p.b.nodes[id]
	if n == nil || p.b.cut[id] || p.b.cut[p.self] {
		return nil, &rota.Error{Kind: rota.KindUnavailable, Text: "node " + string(id) + " does not answer"}
	}
	return n, nil
}

// errDeaf is what a node hears that the test keeps answers from.
var errDeaf = errors.New("nothing comes back, by the test's will")

func (p directPeers) kept(from map[rota.NodeID]bool) bool {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return from[p.self]
}

func (p directPeers) Forward(ctx context.Context, to rota.NodeAddress, commands []byte) ([]byte, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return nil, err
	}
	answer, err := n.Forwarded(ctx, p.self, commands)
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

func (p directPeers) Beat(ctx context.Context, to rota.NodeAddress, beats []rota.Beat) (rota.BeatAnswer, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return rota.BeatAnswer{}, err
	}
	return n.Beats(ctx, p.self, beats)
}

func (p directPeers) Barrier(ctx context.Context, to rota.NodeAddress) (rota.Index, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return 0, err
	}
	return n.Barrier(ctx, p.self)
}

func (p directPeers) Inspect(ctx context.Context, to rota.NodeAddress, at []rota.Index) (rota.Inspection, error) {
	n, err := p.to(to.ID)
	if err != nil || p.kept(p.b.deaf) {
		return rota.Inspection{}, errors.Join(err, errDeaf)
	}
	return n.Inspect(ctx, at)
}

func (p directPeers) CheckAt(ctx context.Context, to rota.NodeAddress, index rota.Index) (rota.NodeVerdict, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return rota.NodeVerdict{}, err
	}
	return n.CheckAt(ctx, index)
}

func (p directPeers) State(ctx context.Context, to rota.NodeAddress, w io.Writer) error {
	n, err := p.to(to.ID)
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

func (p directPeers) EventRange(ctx context.Context, to rota.NodeAddress, r rota.EventRange) (rota.EventChunk, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return rota.EventChunk{}, err
	}
	return n.EventRange(ctx, r)
}

func (p directPeers) ArchiveRange(ctx context.Context, to rota.NodeAddress, span rota.ArchiveSpan, most int64) (
	rota.ArchiveSlice, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return rota.ArchiveSlice{}, err
	}
	return n.ArchiveRange(ctx, span, most)
}

func (p directPeers) ArchiveRecords(ctx context.Context, to rota.NodeAddress, ids []rota.JobID) ([]rota.ArchiveRecord, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return nil, err
	}
	return n.ArchiveRecords(ctx, ids)
}

func (p directPeers) ListArchived(ctx context.Context, to rota.NodeAddress, f rota.JobFilter, at rota.Index) (rota.JobPage, error) {
	n, err := p.to(to.ID)
	if err != nil {
		return rota.JobPage{}, err
	}
	return n.ListArchived(ctx, f, at)
}

func (p directPeers) Introduce(_ context.Context, to rota.NodeAddress, in rota.Introduction) error {
	n, err := p.to(to.ID)
	if err != nil {
		return err
	}
	return n.Introduce(in)
}

func (p directPeers) RemovePeer(ctx context.Context, to rota.NodeAddress, id rota.NodeID) error {
	n, err := p.to(to.ID)
	if err != nil {
		return err
	}
	return n.RemoveHere(ctx, id)
}

func (p directPeers) TransferLeadership(ctx context.Context, at rota.NodeAddress, to rota.NodeID) (rota.NodeID, error) {
	n, err := p.to(at.ID)
	if err != nil {
		return "", err
	}
	return n.TransferHere(ctx, to)
}

func (p directPeers) Close() error { return nil }
