package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Log reads the log of an attempt.
func (s *jobsService) Log(ctx context.Context, req *rotav1.JobLogRequest) (*rotav1.JobLogResponse, error) {
	if err := rota.CheckJobRef("id", rota.JobID(req.GetId())); err != nil {
		return nil, err
	}
	of, err := words.LogOfFromWire(req)
	if err != nil {
		return nil, err
	}
	if req.Attempt != nil && req.GetAttempt() < 0 {
		return nil, rota.Refusef(rota.KindInvalid, "attempt",
			"attempt must be at least 0, got %d; omit it for the newest", req.GetAttempt())
	}
	l, at, err := s.core.JobLog(ctx, of, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return words.AttemptLogToWire(&l, at), nil
}

// Log returns this node's part of the log of an attempt.
func (s *nodeService) Log(ctx context.Context, req *rotav1.NodeLogRequest) (*rotav1.NodeLogResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	lease, err := words.LeaseIDFromWire(req.GetLeaseId())
	if err != nil {
		return nil, err
	}
	l := s.core.LogHere(lease, req.GetAfter())
	return &rotav1.NodeLogResponse{Known: l.Known, Parts: words.LogPartsToWire(l.Parts)}, nil
}

// Log requests another node's part of the log of an attempt.
func (p *Peers) Log(ctx context.Context, to peer.NodeAddress, lease rota.LeaseID,
	after uint64) (l peer.NodeLog, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Log(ctx, &rotav1.NodeLogRequest{Caller: me, LeaseId: lease[:], After: after})
		l = peer.NodeLog{Known: answer.GetKnown(), Parts: words.LogPartsFromWire(answer.GetParts())}
		return err
	})
	return l, err
}

// loggedFromWire converts the logs that came with a beat.
func loggedFromWire(parts []*rotav1.LogPart) (logged []peer.Logged, err error) {
	bytes := 0
	for _, w := range parts {
		l, err := words.LoggedFromWire(w)
		if err == nil {
			err = joblog.CheckPart(&l.Part)
		}
		if bytes += len(l.Part.Text) + len(l.Lease); err == nil && bytes > limits.MaxLogsBeat {
			err = rota.Refusef(rota.KindInvalid, "logs", "logs too long: got more than %d bytes in one beat",
				limits.MaxLogsBeat)
		}
		if err != nil {
			return nil, err
		}
		logged = append(logged, l)
	}
	return logged, nil
}
