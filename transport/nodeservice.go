package transport

import (
	"context"
	"log/slog"

	link "google.golang.org/grpc/peer"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
)

// maxDigestsAsked bounds one request for digests.
const maxDigestsAsked = 1_000

// nodeService serves other nodes. Every call is checked first: a node of another cluster is rejected (SPEC §13.4).
type nodeService struct {
	rotav1.UnimplementedNodeServer
	core   NodeCore
	log    *slog.Logger
	warned logs.Limiter
	// secure reports that nodes prove their identity by certificates.
	secure bool
}

// admit rejects a caller that is not a member: a node whose id the state does not record, with its data directory.
func (s *nodeService) admit(ctx context.Context, caller *rotav1.Caller) error {
	id, err := s.meet(ctx, caller)
	if err != nil {
		return err
	}
	if err = s.core.Recorded(id, caller.GetIdentity()); err != nil && s.warned.Allow("member/"+string(id)) {
		s.log.Warn("refused a call of a node that is not a member", "node", id, "reason", err)
	}
	return err
}

// meet rejects nodes of other clusters, and returns a node that may not be a member yet. The name must always match,
// the cluster id once both sides know theirs: a joining node has none yet.
func (s *nodeService) meet(ctx context.Context, caller *rotav1.Caller) (rota.NodeID, error) {
	if err := rota.CheckID("caller.node", caller.GetNode()); err != nil {
		return "", err
	}
	if err := s.certified(ctx, rota.NodeID(caller.GetNode())); err != nil {
		return "", err
	}
	var refused error
	id := string(s.core.ClusterID())
	switch {
	case caller.GetClusterName() != s.core.Name():
		refused = rota.Refusef(rota.KindDenied, "cluster_name",
			"node %s belongs to the cluster named %q, this node to %q",
			caller.GetNode(), cut(caller.GetClusterName()), s.core.Name())
	case id != "" && caller.GetClusterId() != "" && caller.GetClusterId() != id:
		refused = rota.Refusef(rota.KindDenied, "cluster_id", "node %s belongs to cluster %q, this node to %q",
			caller.GetNode(), cut(caller.GetClusterId()), id)
	default:
		return rota.NodeID(caller.GetNode()), nil
	}
	if s.warned.Allow(caller.GetNode()) {
		s.log.Warn("call of a node that does not belong here refused", "node", caller.GetNode(), "reason", refused)
	}
	return "", refused
}

// certified rejects a caller that is not the node named in its certificate. The handshake alone does not check that,
// because clients need no certificate.
func (s *nodeService) certified(ctx context.Context, id rota.NodeID) error {
	if !s.secure {
		return nil // without TLS ids are trusted
	}
	from, ok := link.FromContext(ctx)
	if !ok {
		from = &link.Peer{}
	}
	info, _ := from.AuthInfo.(edgeInfo)
	switch {
	case info.bad != nil:
		return info.bad
	case info.node == "":
		return rota.Refusef(rota.KindDenied, "certificate", "calls between nodes need a node certificate, got none")
	case info.node == id:
		return nil
	}
	refused := rota.Refusef(rota.KindDenied, "certificate",
		"the caller claims to be node %s, but its certificate is for node %s", id, info.node)
	if s.warned.Allow(string(info.node)) {
		s.log.Warn("call in another node's name refused", "node", info.node, "reason", refused)
	}
	return refused
}

func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Forward runs commands on this node, which must be the leader.
func (s *nodeService) Forward(ctx context.Context,
	req *rotav1.ForwardRequest) (*rotav1.ForwardResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	outcomes, err := s.core.Forwarded(ctx, req.GetCommands())
	if err != nil {
		return nil, err
	}
	return &rotav1.ForwardResponse{Outcomes: outcomes}, nil
}

// Beat records the beats that a node collected (SPEC §3.9).
func (s *nodeService) Beat(ctx context.Context,
	req *rotav1.NodeBeatRequest) (*rotav1.NodeBeatResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	beats := make([]peer.Beat, len(req.GetBeats()))
	for i, wire := range req.GetBeats() {
		beats[i] = words.BeatFromWire(wire)
		if err := rota.CheckID("beats", beats[i].Worker); err != nil {
			return nil, err
		}
	}
	return reply(words.BeatAnswerToWire)(s.core.Beats(ctx, beats))
}

// Barrier returns the index of a read barrier (SPEC §13.2).
func (s *nodeService) Barrier(ctx context.Context,
	req *rotav1.BarrierRequest) (*rotav1.BarrierResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	index, err := s.core.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	return &rotav1.BarrierResponse{Index: uint64(index)}, nil
}

// Inspect returns information on this node itself, also to a node that the state does not record yet.
func (s *nodeService) Inspect(ctx context.Context,
	req *rotav1.InspectRequest) (*rotav1.InspectResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil && rota.ErrorOf(err).Subject != peer.Unrecorded {
		return nil, err
	}
	if n := len(req.GetDigestsAt()); n > maxDigestsAsked {
		return nil, rota.TooMany("digests_at", n, maxDigestsAsked)
	}
	at := make([]rota.Index, len(req.GetDigestsAt()))
	for i, index := range req.GetDigestsAt() {
		at[i] = rota.Index(index)
	}
	return reply(words.InspectionToWire)(s.core.Inspect(ctx, at))
}

// Check checks this node's invariants at an index.
func (s *nodeService) Check(ctx context.Context, req *rotav1.CheckRequest) (*rotav1.CheckResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	verdict, err := s.core.CheckAt(ctx, rota.Index(req.GetIndex()))
	if err != nil {
		return nil, err
	}
	return &rotav1.CheckResponse{Verdict: words.NodeVerdictToWire(&verdict)}, nil
}
