package transport

import (
	"cmp"
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// Introduce judges a starting node (SPEC §13.4).
func (s *nodeService) Introduce(ctx context.Context, req *rotav1.IntroduceRequest) (*rotav1.IntroduceResponse, error) {
	from, err := s.meet(ctx, req.GetCaller())
	if err != nil {
		return nil, err
	}
	in := peer.Introduction{Node: from, Identity: req.GetIdentity(), Starts: req.GetStarts(), Fresh: req.GetFresh(),
		RulesVersion: req.GetRulesVersion(), Term: req.GetTerm(), LastLogIndex: rota.Index(req.GetLastLogIndex())}
	if err := s.core.Introduce(in); err != nil {
		return nil, err
	}
	return &rotav1.IntroduceResponse{}, nil
}

// Introduce asks a running node whether this one may start.
func (p *Peers) Introduce(ctx context.Context, to peer.NodeAddress, in peer.Introduction) error {
	return p.meet(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		_, err := node.Introduce(ctx, &rotav1.IntroduceRequest{Caller: me, Identity: in.Identity, Starts: in.Starts,
			Fresh: in.Fresh, RulesVersion: in.RulesVersion, Term: in.Term, LastLogIndex: uint64(in.LastLogIndex)})
		return err
	})
}

// RemovePeer asks the leader to remove a node. A leaving node calls it for itself.
func (p *Peers) RemovePeer(ctx context.Context, to peer.NodeAddress, id rota.NodeID) error {
	call := p.call
	if id == p.options.Self {
		call = p.meet // it may leave before it knows another node
	}
	return call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		_, err := node.Remove(ctx, &rotav1.RemoveRequest{Caller: me, Id: string(id), Asker: askerOf(ctx)})
		return err
	})
}

// askerOf returns the caller of a context's call; nil if a node acts on its own.
func askerOf(ctx context.Context) *rotav1.Asker {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if !ok {
		return nil
	}
	return &rotav1.Asker{Actor: string(c.Actor), Via: c.Via, Request: c.Request}
}

// asked returns the context of a call that another node forwards.
func asked(ctx context.Context, by *rotav1.Asker) (context.Context, error) {
	c := access.Caller{Actor: rota.Principal(by.GetActor()), Via: by.GetVia(), Request: by.GetRequest()}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, access.CallerKey{}, c), nil
}

// Remove removes a node at its own request, or at that of a principal whose call another node forwards.
func (s *nodeService) Remove(ctx context.Context, req *rotav1.RemoveRequest) (*rotav1.RemoveResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	id := cmp.Or(req.GetId(), req.GetCaller().GetNode())
	if err := rota.CheckID("node", id); err != nil {
		return nil, err
	}
	if id != req.GetCaller().GetNode() || req.GetAsker() != nil {
		var err error
		if ctx, err = asked(ctx, req.GetAsker()); err != nil {
			return nil, err
		}
	}
	if err := s.core.RemoveHere(ctx, rota.NodeID(id)); err != nil {
		return nil, err
	}
	return &rotav1.RemoveResponse{}, nil
}

// TransferLeadership asks the leader to hand over.
func (p *Peers) TransferLeadership(ctx context.Context, at peer.NodeAddress,
	to rota.NodeID) (leader rota.NodeID, err error) {
	err = p.call(ctx, at, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Transfer(ctx, &rotav1.TransferRequest{Caller: me, To: string(to), Asker: askerOf(ctx)})
		leader = rota.NodeID(answer.GetLeader())
		return err
	})
	return leader, err
}

// Transfer hands leadership over when another node forwards the call.
func (s *nodeService) Transfer(ctx context.Context, req *rotav1.TransferRequest) (*rotav1.TransferResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	if to := req.GetTo(); to != "" {
		if err := rota.CheckID("to", to); err != nil {
			return nil, err
		}
	}
	ctx, err := asked(ctx, req.GetAsker())
	if err != nil {
		return nil, err
	}
	leader, err := s.core.TransferHere(ctx, rota.NodeID(req.GetTo()))
	if err != nil {
		return nil, err
	}
	return &rotav1.TransferResponse{Leader: string(leader)}, nil
}
