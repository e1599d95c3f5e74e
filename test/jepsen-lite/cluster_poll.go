package main

import (
	"context"
	"time"

	"github.com/rotasched/rota"
)

// poll keeps samples of the cluster until ctx ends.
func (k *cluster) poll(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var awake []*server
		for _, s := range k.members() {
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

func (k *cluster) sample(ctx context.Context, s *server) bool {
	ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	asked := k.rec.now()
	status, err := s.c.Status(ctx)
	if err != nil {
		return false
	}
	sample := Sample{
		At: k.rec.now(), Asked: asked, Node: s.id, Leader: string(status.Leader), Term: status.Term,
		Index: uint64(status.AppliedIndex), Clock: int64(status.Clock), Date: int64(status.Date),
		Wall: time.Now().UnixMilli(),
	}
	for _, n := range status.Nodes {
		sample.tells(&n)
		if n.AppliedIndex > 0 && (n.Digest != rota.Digest{}) {
			sample.Digests = append(sample.Digests,
				NodeDigest{string(n.ID), uint64(n.AppliedIndex), n.Digest.String()})
		}
	}
	j := status.Jobs
	k.backlog.Store(j.Blocked + j.Delayed + j.Queued + j.Assigned + j.Running)
	k.rec.with(func(h *History) { h.Samples = append(h.Samples, sample) })
	k.mu.Lock()
	defer k.mu.Unlock()
	if sample.Leader != "" {
		k.leaderID = sample.Leader
	}
	return sample.Leader != ""
}
