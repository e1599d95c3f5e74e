package cluster

import (
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/internal/peer"
)

// marks remembers how far each node had come, as it acknowledged to this one. A node that starts or answers with less
// has a disk that went back in time, and has forgotten votes and entries that others rely on (SPEC §13.4). This node's
// own mark is kept next to its log, and on a different disk if --mark-file names one.
type marks struct {
	n          *base
	membership *membership
	// found is how far the log had come when this process opened it.
	found raftstore.Mark

	mu sync.Mutex
	of map[rota.NodeID]raftstore.Mark
	// behind holds the marks of nodes that answered with less than they had acknowledged.
	behind map[rota.NodeID]raftstore.Mark
	// saved is the content of the files.
	saved raftstore.Marks
}

// marksEvery is how often marks that have grown are written: a small file, which nothing waits for.
const marksEvery = 10 * time.Second

// open reads the stored marks, and rejects a data directory that is behind this node's own mark, or behind the log that
// its own history was written from. While a rebuild is open, the history is known to belong to a different past.
func (mk *marks) open(found raftstore.Mark) error {
	n := mk.n
	mk.found = found
	mk.of, mk.behind = make(map[rota.NodeID]raftstore.Mark), make(map[rota.NodeID]raftstore.Mark)
	unread, refusal := raftstore.JudgeMarks(n.cfg.Data, n.cfg.Node, n.data.ClusterID(), n.data.Identity(), found,
		mk.files()...)
	for _, err := range unread {
		n.log.Warn("marks are not read: they are written again", "err", err)
	}
	if n.data.Fresh() {
		return nil
	}
	if refusal != nil && !n.cfg.AdoptData {
		return refusal
	}
	had := uint64(max(n.historyFile.Jobs.Applied(), n.historyFile.Events.Newest()))
	if found.Index < had && !n.data.Rebuild().Open && !n.cfg.AdoptData {
		return raftstore.WentBack("data directory "+n.cfg.Data, n.cfg.Node, found,
			raftstore.Mark{Term: found.Term, Index: had},
			"according to its own archive.db")
	}
	kept, err := raftstore.ReadMarks(mk.files()[0])
	if err == nil && kept.ClusterID == n.data.ClusterID() && kept.Identity == n.data.Identity() {
		maps.Copy(mk.of, kept.Peers)
	}
	return nil
}

func (mk *marks) files() []string {
	return []string{filepath.Join(mk.n.cfg.Data, raftstore.MarkFile), mk.n.cfg.MarkFile}
}

// put records how far a node had come.
func (mk *marks) put(id rota.NodeID, m raftstore.Mark) {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if mk.of[id].Less(m) {
		mk.of[id] = m
	}
}

// known returns how far a node is known to have come.
func (mk *marks) known(id rota.NodeID) raftstore.Mark {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	return mk.of[id]
}

// acknowledged records a follower's acknowledgement to this leader.
func (mk *marks) acknowledged(id raft.ServerID, term, index uint64) {
	mk.put(rota.NodeID(id), raftstore.Mark{Term: term, Index: index})
}

// answered compares a node's answer with what it had acknowledged before the request, and records what it has applied:
// that is on its disk.
func (mk *marks) answered(id rota.NodeID, before raftstore.Mark, in *peer.Inspection) {
	if in.Term == 0 {
		return // its binary does not report it
	}
	now := raftstore.Mark{Term: in.Term, Index: uint64(in.LastLogIndex)}
	mk.mu.Lock()
	_, was := mk.behind[id]
	behind := now.Less(before)
	if behind && !was {
		mk.behind[id] = now
	}
	mk.mu.Unlock()
	if behind && !was {
		mk.n.log.Error("a node is behind what it acknowledged: its disk went back in time", "other_node", string(id),
			"term", now.Term, "index", now.Index, "acknowledged_term", before.Term, "acknowledged_index", before.Index)
	}
	mk.put(id, raftstore.Mark{Term: in.Term, Index: uint64(in.Status.AppliedIndex)})
}

// now returns how far this node's own log has come: as found on disk, until raft runs.
func (mk *marks) now() raftstore.Mark {
	r := mk.membership.started.Load()
	if r == nil {
		return mk.found
	}
	m := raftstore.Mark{Index: r.LastIndex()} // read before the term: entries of an earlier one may be replaced in it
	m.Term = r.CurrentTerm()
	return m
}

// alarms returns a text for each node that answered with less than it had acknowledged.
func (mk *marks) alarms() map[rota.NodeID]string {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	texts := make(map[rota.NodeID]string)
	for id, now := range mk.behind {
		texts[id] = fmt.Sprintf(
			"the disk of node %s went back in time, to entry %d of term %d: entries that it acknowledged after "+
				"that may be lost. Stop and replace it (runbook RotaLogReplaced)", id, now.Index, now.Term)
	}
	return texts
}

// Problems returns none: losses are permanent and not a fault of this node. The alarms in its status report them.
func (mk *marks) Problems() []string { return nil }

// Collectors returns the metrics of disks that went back in time.
func (mk *marks) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_log_replaced_entries",
			Help: "Applied entries of the log that a leader replaced on any node in the last 7 days, the most of one node: " +
				"acknowledged work is lost."},
			func() float64 {
				most := uint64(0)
				for _, c := range mk.membership.watch.cuts() {
					if mk.n.rebuild.Shown(c) {
						most = max(most, c.To-c.From+1)
					}
				}
				return float64(most)
			}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_nodes_behind",
			Help: "Nodes that answered with less of the log than they had acknowledged, since this node was started: their " +
				"disks went back in time."},
			func() float64 { return float64(len(mk.alarms())) }),
	}
}

// judge rejects a starting node that is behind what it acknowledged.
func (mk *marks) judge(in peer.Introduction) error {
	known, now := mk.known(in.Node), raftstore.Mark{Term: in.Term, Index: uint64(in.LastLogIndex)}
	if in.Fresh || in.Term == 0 || !now.Less(known) {
		return nil
	}
	return raftstore.WentBack("this data directory", in.Node, now, known, "as node "+string(mk.n.cfg.Node)+" knows")
}

// run writes the marks while they grow, until the node stops.
func (mk *marks) run() {
	tick := mk.n.ticker(marksEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			mk.save()
		case <-mk.n.stopped:
			return
		}
	}
}

// save writes the marks if they have grown.
func (mk *marks) save() {
	n := mk.n
	r := mk.membership.started.Load()
	if r == nil || n.data.ClusterID() == "" || n.data.Rebuild().Open {
		return
	}
	own := raftstore.Mark{Term: r.CurrentTerm()} // first: an entry of a later term would prove nothing of this one
	own.Index = n.replica.Applied.Load()
	mk.mu.Lock()
	next := raftstore.Marks{ClusterID: n.data.ClusterID(), Identity: n.data.Identity(), Own: own,
		Peers: maps.Clone(mk.of)}
	grown := mk.saved.Own != next.Own || !maps.Equal(mk.saved.Peers, next.Peers)
	mk.mu.Unlock()
	if !grown {
		return
	}
	for _, path := range mk.files() {
		if path == "" {
			continue
		}
		if err := raftstore.WriteMarks(path, next); err != nil {
			if n.lines.Allow("marks") {
				n.log.Warn("marks are not written", "err", err)
			}
			return
		}
	}
	mk.mu.Lock()
	mk.saved = next
	mk.mu.Unlock()
}
