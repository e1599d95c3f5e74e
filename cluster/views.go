package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/internal/peer"
)

// ownViews returns this node's view of each other server in raft's configuration.
func (cv *clusterVerbs) ownViews() (views []peer.NodeView) {
	members := make(map[rota.NodeID]gossip.Member)
	for _, m := range cv.n.gossip.Members() {
		members[m.ID] = m
	}
	_, leader := cv.n.raft.LeaderWithID()
	_, health := cv.n.autopilot.Report()
	wall, boot := rota.Date(cv.n.wall().UnixMilli()), cv.n.sinceBoot()
	for _, s := range cv.n.membership.servers() {
		id := rota.NodeID(s.ID)
		if id == cv.n.cfg.Node {
			continue
		}
		v := peer.NodeView{ID: id, Gossip: "UNKNOWN", AnsweredMs: -1, RaftMs: -1}
		if m, known := members[id]; known {
			v.Gossip = "GONE"
			if m.Alive {
				v.Gossip = "ALIVE"
			}
		}
		seen, _ := cv.n.watch.view(id)
		if seen.heard != 0 {
			v.AnsweredMs = (boot - seen.heard).Milliseconds()
		}
		if seen.err != nil {
			v.Error = seen.err.Error()
		}
		if i := slices.IndexFunc(health, func(h peer.NodeHealth) bool {
			return h.ID == id && h.LastContact != 0
		}); i >= 0 {
			v.RaftMs = int64(max(0, wall-health[i].LastContact))
		} else if last := cv.n.raft.LastContact(); s.ID == leader && !last.IsZero() {
			v.RaftMs = max(0, time.Since(last).Milliseconds())
		}
		views = append(views, v)
	}
	return views
}

// Views collects each node's views of the others. It works without a leader.
func (cv *clusterVerbs) Views(context.Context) ([]peer.NodeViews, error) {
	all := []peer.NodeViews{{ID: cv.n.cfg.Node, Views: cv.ownViews()}}
	for id, v := range cv.n.watch.inspectAll(cv.n.membership.servers(), nil) {
		of := peer.NodeViews{ID: id, Views: v.others}
		if v.err != nil {
			of.Error = "does not answer: " + v.err.Error()
		}
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b peer.NodeViews) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
