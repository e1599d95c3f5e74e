package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// Introduce judges a starting node (SPEC §13.4).
func (s *nodeService) Introduce(ctx context.Context, req *rotav1.IntroduceRequest) (*rotav1.IntroduceResponse, error) {
	from, err := s.meet(ctx, req.GetCaller())
	if err != nil {
		return nil, err
	}
	in := peer.Introduction{Node: from, Identity: req.GetIdentity(), Starts: req.GetStarts(), Fresh: req.GetFresh(),
		RulesVersion: req.GetRulesVersion()}
	if err := s.core.Introduce(in); err != nil {
		return nil, err
	}
	return &rotav1.IntroduceResponse{}, nil
}

// Introduce asks a node that is up whether this one may start.
func (p *Peers) Introduce(ctx context.Context, to peer.NodeAddress, in peer.Introduction) error {
	return p.meet(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		_, err := node.Introduce(ctx, &rotav1.IntroduceRequest{Caller: me, Identity: in.Identity, Starts: in.Starts,
			Fresh: in.Fresh, RulesVersion: in.RulesVersion})
		return err
	})
}

// RemovePeer asks the leader to remove a node: what a node does that leaves.
func (p *Peers) RemovePeer(ctx context.Context, to peer.NodeAddress, id rota.NodeID) error {
	call := p.call
	if id == p.options.Self {
		call = p.meet // it may leave before it knows anybody
	}
	return call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		_, err := node.Remove(ctx, &rotav1.RemoveRequest{Caller: me, Id: string(id)})
		return err
	})
}

// Remove takes a node out on the word of that node, or of another.
func (s *nodeService) Remove(ctx context.Context, req *rotav1.RemoveRequest) (*rotav1.RemoveResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	if err := rota.CheckID("node", req.GetId()); err != nil {
		return nil, err
	}
	if err := s.core.RemoveHere(ctx, rota.NodeID(req.GetId())); err != nil {
		return nil, err
	}
	return &rotav1.RemoveResponse{}, nil
}

// TransferLeadership asks the leader to hand over.
func (p *Peers) TransferLeadership(ctx context.Context, at peer.NodeAddress, to rota.NodeID) (leader rota.NodeID, err error) {
	err = p.call(ctx, at, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Transfer(ctx, &rotav1.TransferRequest{Caller: me, To: string(to)})
		leader = rota.NodeID(answer.GetLeader())
		return err
	})
	return leader, err
}

// Transfer hands leadership over on another node's relay.
func (s *nodeService) Transfer(ctx context.Context, req *rotav1.TransferRequest) (*rotav1.TransferResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	if to := req.GetTo(); to != "" {
		if err := rota.CheckID("to", to); err != nil {
			return nil, err
		}
	}
	leader, err := s.core.TransferHere(ctx, rota.NodeID(req.GetTo()))
	if err != nil {
		return nil, err
	}
	return &rotav1.TransferResponse{Leader: string(leader)}, nil
}
