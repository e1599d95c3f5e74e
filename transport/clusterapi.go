package transport

import (
	"bufio"
	"cmp"
	"context"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

// chunkBytes is the size of one backup message.
const chunkBytes = 64 << 10

// clusterService serves Cluster.
type clusterService struct {
	rotav1.UnimplementedClusterServer
	core ClusterCore
	// attention computes the list for the caller of a context.
	attention func(context.Context) (rota.Attention, error)
	// backups limits those in progress.
	backups allowance
}

// Status returns the cluster's status as this node sees it, with or without a leader.
func (s *clusterService) Status(ctx context.Context,
	_ *rotav1.StatusRequest) (*rotav1.StatusResponse, error) {
	return reply(words.ClusterStatusToWire)(s.core.Status(ctx))
}

// Attention returns the list of concerns for an operator.
func (s *clusterService) Attention(ctx context.Context, _ *rotav1.AttentionRequest) (*rotav1.AttentionResponse, error) {
	return reply(words.AttentionToWire)(s.attention(ctx))
}

// GetMode returns what the cluster currently admits, and the reason.
func (s *clusterService) GetMode(ctx context.Context, req *rotav1.GetModeRequest) (*rotav1.GetModeResponse, error) {
	mode, at, err := s.core.Mode(ctx, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetModeResponse{Mode: words.ModeToWire(&mode), At: words.ReadAtToWire(at)}, nil
}

// SetMode changes the mode. It must be named: an empty mode does not mean NORMAL.
func (s *clusterService) SetMode(ctx context.Context, req *rotav1.SetModeRequest) (*rotav1.Mode, error) {
	var mode rota.ClusterMode
	if err := mode.UnmarshalText([]byte(cut(req.GetMode()))); err != nil {
		return nil, err
	}
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	return reply(words.ModeToWire)(s.core.SetMode(ctx, mode, req.GetReason()))
}

// Set changes the cluster's own settings.
func (s *clusterService) Set(ctx context.Context, req *rotav1.SetClusterRequest) (*rotav1.ClusterSettings, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetSet()); n > maxSettings {
		return nil, rota.TooMany("set", n, maxSettings)
	}
	set, scratch := words.SettingsFromWire(req.GetSet()), rota.DefaultClusterSettings()
	for _, one := range set {
		if err := scratch.Set(one); err != nil {
			return nil, err
		}
	}
	if req.GetDryRun() {
		return reply(words.ClusterSettingsToWire)(s.core.PreviewCluster(ctx, set))
	}
	return reply(words.ClusterSettingsToWire)(s.core.SetCluster(ctx, set))
}

// checkReason rejects an operator's or a verifier's reason that is empty or too long.
func checkReason(reason string) error {
	if n := len(reason); n < 1 || n > limits.MaxReasonBytes {
		return rota.Refusef(rota.KindInvalid, "reason", "reason: got %d bytes, want 1 to %d", n,
			limits.MaxReasonBytes)
	}
	return nil
}

// Peers lists the Raft configuration.
func (s *clusterService) Peers(ctx context.Context, _ *rotav1.PeersRequest) (*rotav1.PeersResponse, error) {
	peers, err := s.core.Peers(ctx)
	if err != nil {
		return nil, err
	}
	answer := &rotav1.PeersResponse{Peers: make([]*rotav1.Peer, len(peers))}
	for i := range peers {
		answer.Peers[i] = words.RaftPeerToWire(&peers[i])
	}
	return answer, nil
}

// TransferLeadership hands leadership to the named node, or to a node that the leader chooses.
func (s *clusterService) TransferLeadership(ctx context.Context,
	req *rotav1.TransferLeadershipRequest) (*rotav1.TransferLeadershipResponse, error) {
	if err := checkOptionalID("to", req.GetTo()); err != nil {
		return nil, err
	}
	leader, err := s.core.TransferLeadership(ctx, rota.NodeID(req.GetTo()))
	if err != nil {
		return nil, err
	}
	return &rotav1.TransferLeadershipResponse{Leader: string(leader)}, nil
}

// RemovePeer removes a node from the Raft configuration.
func (s *clusterService) RemovePeer(ctx context.Context,
	req *rotav1.RemovePeerRequest) (*rotav1.RemovePeerResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	if err := s.core.RemovePeer(ctx, rota.NodeID(req.GetId())); err != nil {
		return nil, err
	}
	return &rotav1.RemovePeerResponse{}, nil
}

// Leave makes this node leave permanently (SPEC §13.4).
func (s *clusterService) Leave(ctx context.Context, _ *rotav1.LeaveRequest) (*rotav1.LeaveResponse, error) {
	if err := s.core.Leave(ctx); err != nil {
		return nil, err
	}
	return &rotav1.LeaveResponse{}, nil
}

// SaveSnapshot streams a backup. The backup is complete if the stream ends without an error.
func (s *clusterService) SaveSnapshot(r *rotav1.SaveSnapshotRequest,
	stream grpc.ServerStreamingServer[rotav1.SnapshotChunk]) error {
	how := words.ReadFromWire(r.GetRead())
	if p, err := passOf(stream.Context()); err != nil || how.Stale && p.caller.Actor != rota.Local {
		return cmp.Or(err, error(rota.Refusef(rota.KindDenied, "socket",
			"without a leader this node may not know revoked rights, so a backup is only possible on its own socket. "+
				"Run the command on the node's machine, with --data")))
	}
	if !s.backups.take(1) {
		e := rota.Refusef(rota.KindExhausted, "snapshot", "this node already makes a backup: wait until it ends, or "+
			"ask another node")
		e.RetryAfter = limits.StuckRetryAfter
		return e
	}
	defer s.backups.give(1)
	out := bufio.NewWriterSize(chunkWriter{stream}, chunkBytes)
	if err := s.core.SaveSnapshot(stream.Context(), how, out); err != nil {
		return err
	}
	return out.Flush()
}

// StoreBackup makes this node store a backup, if it is the leader.
func (s *clusterService) StoreBackup(ctx context.Context, _ *rotav1.StoreBackupRequest) (*rotav1.StoredBackup, error) {
	b, err := s.core.StoreBackup(ctx)
	if err != nil {
		return nil, err
	}
	return words.StoredBackupToWire(&b), nil
}

// InstallTZData activates a release of the time zone database on the whole cluster.
func (s *clusterService) InstallTZData(ctx context.Context, req *rotav1.InstallTZDataRequest) (*rotav1.TZData, error) {
	given := words.TZInstallFromWire(req)
	if err := given.CheckShape(); err != nil {
		return nil, err
	}
	t, err := s.core.InstallTZData(ctx, given)
	if err != nil {
		return nil, err
	}
	return words.TZDataToWire(&t), nil
}

// chunkWriter sends written bytes as messages of at most chunkBytes. Send encodes before it returns, so the writer's
// buffer may be reused.
type chunkWriter struct {
	stream grpc.ServerStreamingServer[rotav1.SnapshotChunk]
}

func (w chunkWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		end := min(sent+chunkBytes, len(p))
		if err := w.stream.Send(&rotav1.SnapshotChunk{Data: p[sent:end]}); err != nil {
			return sent, err
		}
		sent = end
	}
	return len(p), nil
}

// Verify checks every node's invariants and compares digests (SPEC §2.5).
func (s *clusterService) Verify(ctx context.Context,
	_ *rotav1.VerifyRequest) (*rotav1.VerifyResponse, error) {
	return reply(words.VerdictToWire)(s.core.Verify(ctx))
}
