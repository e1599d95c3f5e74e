package fault

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// Poll keeps samples of the cluster until ctx ends.
func (k *Cluster) Poll(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var awake []*Server
		for _, s := range k.Members() {
			if s.awake() {
				awake = append(awake, s)
			}
		}
		for i := range min(2, len(awake)) {
			if k.sample(ctx, awake[(turn+i)%len(awake)]) {
				break
			}
		}
	}
}

func (k *Cluster) sample(ctx context.Context, s *Server) bool {
	ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	asked := k.rec.Now()
	status, err := s.Client.Status(ctx)
	if err != nil {
		return false
	}
	sample := check.Sample{
		At: k.rec.Now(), Asked: asked, Node: s.ID, Leader: string(status.Leader), Term: status.Term,
		Index: uint64(status.AppliedIndex), Clock: int64(status.Clock), Date: int64(status.Date),
		Wall: time.Now().UnixMilli(),
	}
	for _, n := range status.Nodes {
		sample.Tells(&n)
		if n.AppliedIndex > 0 && (n.Digest != rota.Digest{}) {
			sample.Digests = append(sample.Digests,
				check.NodeDigest{Node: string(n.ID), Index: uint64(n.AppliedIndex), Digest: n.Digest.String()})
		}
	}
	j := status.Jobs
	k.Backlog.Store(j.Blocked + j.Delayed + j.Queued + j.Assigned + j.Running)
	k.rec.With(func(h *check.History) { h.Samples = append(h.Samples, sample) })
	k.Mu.Lock()
	defer k.Mu.Unlock()
	if sample.Leader != "" {
		k.leaderID = sample.Leader
	}
	return sample.Leader != ""
}
