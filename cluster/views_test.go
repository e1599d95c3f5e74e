package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestViews: any node returns every node's view of the others; one that is gone answers no other, and the others report
// since when.
func TestViews(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	asked := b.follower()
	views := func() map[rota.NodeID]peer.NodeViews {
		all, err := asked.Views(within(t, ample))
		if err != nil {
			t.Fatal(err)
		}
		by := make(map[rota.NodeID]peer.NodeViews, len(all))
		for _, of := range all {
			by[of.ID] = of
		}
		return by
	}
	well := func(v peer.NodeView) bool { return v.Gossip == "ALIVE" && v.AnsweredMs >= 0 && v.Error == "" }
	b.eventually("each node finds each other one well", func() bool {
		n := 0
		for _, of := range views() {
			for _, v := range of.Views {
				if well(v) {
					n++
				}
			}
		}
		return n == 6
	})
	leader := b.leader().ID()
	b.eventually("the leader hears of all, and all of the leader", func() bool {
		by := views()
		for _, v := range by[leader].Views {
			if v.RaftMs < 0 {
				return false
			}
		}
		for id, of := range by {
			for _, v := range of.Views {
				if id != leader && (v.RaftMs >= 0) != (v.ID == leader) {
					return false
				}
			}
		}
		return true
	})
	var gone rota.NodeID
	for id := range views() {
		if id != leader && id != asked.ID() {
			gone = id
		}
	}
	b.stop(gone)
	b.eventually("the others find that it does not answer", func() bool {
		by := views()
		seen := 0
		for _, of := range by {
			for _, v := range of.Views {
				if v.ID == gone && v.Error != "" {
					seen++
				}
			}
		}
		return seen == 2 && by[gone].Error != ""
	})
}
