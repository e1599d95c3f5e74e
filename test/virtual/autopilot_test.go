package virtual

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestAutopilot checks SPEC §13.10 with real nodes, and its real times.
func TestAutopilot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	t.Run("a dead voter is replaced by a node that joins", func(t *testing.T) {
		play(t, nil, func(s *scene) {
			s.works()
			s.wanted(3)
			dead := s.follower()
			dead.crash(true)
			s.pause(11 * time.Minute)
			s.voters(3) // two others are fewer than required
			fresh := &server{life: s.life, host: "n4"}
			fresh.name.Store(s.mint())
			s.servers = append(s.servers, fresh)
			s.restart(fresh)
			s.patiently(5*time.Minute, func(ctx context.Context) bool {
				return !slices.Contains(s.ids(ctx), dead.id())
			})
			s.voters(3)
			if ids := s.ids(s.ctx); slices.Contains(ids, dead.id()) || !slices.Contains(ids, fresh.id()) {
				t.Errorf("members are %v: %s died, %s joined", ids, dead.id(), fresh.id())
			}
			if removed := s.removals(); len(removed) != 1 || removed[0].Text != string(dead.id()) ||
				!strings.Contains(removed[0].Payload, "calls failed for") {
				t.Errorf("removed are %+v", removed)
			}
			s.wanted(3)
			s.worksStill()
			s.servers = slices.DeleteFunc(s.servers, func(one *server) bool { return one == dead })
		})
	})
	t.Run("two of five that are cut off and come back stay", func(t *testing.T) {
		playOf(t, 5, nil, func(s *scene) {
			s.works()
			s.wanted(5)
			leader := s.leader()
			var there, away []host
			for _, one := range s.servers {
				if one != leader && len(away) < 2 {
					away = append(away, one.host)
				} else {
					there = append(there, one.host)
				}
			}
			heal := s.cutBoth(there, away, false)
			s.pause(12 * time.Minute)
			s.worksStill()
			heal()
			s.pause(2 * time.Minute)
			s.voters(5)
			s.wanted(5)
			if removed := s.removals(); len(removed) != 0 {
				t.Errorf("removed are %+v", removed)
			}
			s.worksStill()
		})
	})
}

// works starts a worker and completes a job with it.
func (s *scene) works() {
	s.Helper()
	s.work("w", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
	s.worksStill()
}

// worksStill completes another job.
func (s *scene) worksStill() {
	s.Helper()
	id := client.NewJobID()
	s.submit(id)
	if j := s.over(id); j.State != rota.JobCompleted {
		s.Errorf("a job ended %s", j.State)
	}
}

// wanted waits until the given number of voters is required.
func (s *scene) wanted(n int64) {
	s.Helper()
	var last rota.Autopilot
	if !s.patiently(5*time.Minute, func(ctx context.Context) bool {
		status, err := s.admin.Status(ctx)
		last = status.Autopilot
		return err == nil && last.VotersWanted == n && last.HealthyVoters == n
	}) {
		s.Fatalf("want %d healthy voters: %+v", n, last)
	}
}

// voters checks the number of voters.
func (s *scene) voters(n int) {
	s.Helper()
	peers, err := s.admin.Peers(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	peers = slices.DeleteFunc(peers, func(p rota.RaftPeer) bool { return !p.Voter })
	if len(peers) != n {
		s.Errorf("got %d voters, want %d: %+v", len(peers), n, peers)
	}
}

func (s *scene) ids(ctx context.Context) (ids []rota.NodeID) {
	peers, _ := s.admin.Peers(ctx)
	for _, p := range peers {
		ids = append(ids, p.ID)
	}
	return ids
}

// removals returns the nodes that were removed.
func (s *scene) removals() []rota.ServedEvent {
	s.Helper()
	all, err := client.Collect(s.admin.Events(s.ctx, rota.EventFilter{Kinds: []rota.EventKind{rota.EventNodeChanged}}))
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e rota.ServedEvent) bool { return !strings.Contains(e.Payload, "removed") })
}
