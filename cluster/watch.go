package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
)

// watcher is what this node knows of the others, asked once a second: their
// wall clocks, how far they have applied, and their digests (SPEC §2.5, §3.8).
type watcher struct {
	mu    sync.Mutex
	peers map[rota.NodeID]peerView
	// addrs are where members answer, as gossip said last.
	addrs  map[rota.NodeID]string
	skewMs int64
	unfit  string
	// at is the index whose digests are compared next.
	at rota.Index
	// leaderless counts the seconds without a leader; refused is what another
	// node said when it was asked then whether this one may still take part.
	leaderless int
	refused    error
}

// peerView is the last answer of a node.
type peerView struct {
	status rota.NodeStatus
	wallMs int64
	digest *rota.Digest
	err    error
	// closeSince is since when a non-voter has lagged by fewer entries than
	// makes a voter; zero if it does not.
	closeSince time.Duration
}

// watchLoop asks every other node once a second.
func (n *Node) watchLoop() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.watchOnce()
		case <-n.stopped:
			return
		}
	}
}

func (n *Node) watchOnce() {
	at := n.watch.next(rota.Index(n.applied.Load()))
	servers := n.servers()
	views := n.inspectAll(servers, []rota.Index{at})
	n.watch.mu.Lock()
	now := sinceBoot()
	for id, v := range views {
		if last := rota.Index(n.raft.LastIndex()); v.err == nil && v.status.AppliedIndex+caughtUpLag > last {
			v.closeSince = n.watch.peers[id].closeSince
			if v.closeSince == 0 {
				v.closeSince = now
			}
			views[id] = v
		}
	}
	n.watch.peers = views
	for id := range n.watch.addrs {
		if _, member := views[id]; !member {
			delete(n.watch.addrs, id)
		}
	}
	n.watch.mu.Unlock()
	n.compareWalls(servers, views)
	n.compareDigests(at, servers, views)
	n.askWhenAlone()
}

// aloneAfter is how many seconds without a leader make a node ask why.
const aloneAfter = 5

// askWhenAlone asks the others whether this node is still one of them: one that
// was removed hears no more from the leader, not even that.
func (n *Node) askWhenAlone() {
	_, leader := n.raft.LeaderWithID()
	n.watch.mu.Lock()
	if leader != "" {
		n.watch.leaderless, n.watch.refused = 0, nil
	} else {
		n.watch.leaderless++
	}
	ask := n.watch.leaderless >= aloneAfter
	n.watch.mu.Unlock()
	if !ask {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, peerTimeout)
	defer cancel()
	_, err := n.introduceTo(ctx, slices.DeleteFunc(n.aliveMembers(), func(m Member) bool { return m.ID == n.cfg.Node || !m.HasState }))
	if err == nil {
		return
	}
	n.watch.mu.Lock()
	n.watch.refused = err
	n.watch.mu.Unlock()
	if n.lines.allow("alone") {
		n.log.Error("the cluster goes on without this node", "err", err)
	}
}

// stillMember gives what the others said against this node, nil for nothing.
func (w *watcher) stillMember() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// caughtUpLag is how close to the leader a node must stay to become a voter.
const caughtUpLag = 100

func (w *watcher) next(applied rota.Index) rota.Index {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at
	w.at = applied
	return at
}

// inspectAll asks all other servers at once.
func (n *Node) inspectAll(servers []raft.Server, at []rota.Index) map[rota.NodeID]peerView {
	ctx, cancel := context.WithTimeout(n.life, peerTimeout)
	defer cancel()
	views := make(map[rota.NodeID]peerView)
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		if id == n.cfg.Node {
			continue
		}
		asked.Go(func() {
			v := n.inspect(ctx, id, at)
			mu.Lock()
			defer mu.Unlock()
			views[id] = v
		})
	}
	asked.Wait()
	return views
}

func (n *Node) inspect(ctx context.Context, id rota.NodeID, at []rota.Index) peerView {
	to, ok := n.address(id)
	if !ok {
		return peerView{err: fmt.Errorf("node %s was never seen in gossip", id)}
	}
	in, err := n.peers.Inspect(ctx, to, at)
	if err != nil {
		return peerView{err: err}
	}
	v := peerView{status: in.Status, wallMs: in.WallMs}
	if len(in.Digests) == 1 {
		v.digest = in.Digests[0]
	}
	return v
}

// compareWalls gives the leadership the wall clocks of a majority, and notes by
// how much this node's own differs from their median.
func (n *Node) compareWalls(servers []raft.Server, views map[rota.NodeID]peerView) {
	own := time.Now().UnixMilli()
	walls, voters := []int64{}, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := rota.NodeID(s.ID); id == n.cfg.Node {
			walls = append(walls, own)
		} else if v, ok := views[id]; ok && v.err == nil {
			walls = append(walls, v.wallMs)
		}
	}
	if len(walls) == 0 || len(walls) <= voters/2 {
		return
	}
	n.watch.mu.Lock()
	n.watch.skewMs = own - median(walls)
	n.watch.mu.Unlock()
	if l := n.leading(); l != nil {
		l.setWalls(walls)
	}
}

// compareDigests judges this node by what a majority of the voters holds at an
// index that all may have passed. A node outside the majority stops: it would
// serve a state that never was. Each node judges itself, so that nobody's word
// is needed.
func (n *Node) compareDigests(at rota.Index, servers []raft.Server, views map[rota.NodeID]peerView) {
	own := n.digests.get(at)
	if own == nil {
		return
	}
	votes, voters, untold := make(map[rota.Digest]int), 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := rota.NodeID(s.ID); id == n.cfg.Node {
			votes[*own]++
		} else if v := views[id]; v.err == nil && v.digest != nil {
			votes[*v.digest]++
			if *v.digest != *own {
				n.measures.mismatches.Inc()
				if n.lines.allow("digest/" + string(id)) {
					n.log.Error("digests differ", "index", uint64(at), "own", own.String(), "other_node", string(id),
						"other", v.digest.String())
				}
			}
		} else {
			untold++
		}
	}
	most := 0
	for digest, count := range votes {
		most = max(most, count)
		if digest != *own && count > voters/2 {
			n.fatal(&rota.Error{Kind: rota.Internal, Subject: "digest", Text: fmt.Sprintf("at index %d this node's state has "+
				"digest %s but a majority of the voters holds %s: this node is wrong and stops. Move its data directory "+
				"away for inspection and join again as a new node with a new --node id", at, own, digest)})
			return
		}
	}
	if len(votes) > 1 && most+untold <= voters/2 {
		n.fatal(&rota.Error{Kind: rota.Internal, Subject: "digest", Text: fmt.Sprintf("at index %d no digest of the state is "+
			"held by a majority of the voters, so nobody knows which is right: all stop. Start them again, which builds "+
			"the state anew from snapshot and log; should it recur, restore a backup", at)})
	}
}

func (w *watcher) setUnfit(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unfit = reason
}

// view gives the last answer of a node.
func (w *watcher) view(id rota.NodeID) (peerView, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.peers[id]
	return v, ok
}

func (w *watcher) remember(id rota.NodeID, api string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.addrs == nil {
		w.addrs = make(map[rota.NodeID]string)
	}
	w.addrs[id] = api
}

func (w *watcher) remembered(id rota.NodeID) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	api, ok := w.addrs[id]
	return api, ok
}

// problems lists what is wrong with this node, each with what to do.
func (n *Node) problems() []string {
	problems := []string{}
	n.watch.mu.Lock()
	skew, unfit := n.watch.skewMs, n.watch.unfit
	n.watch.mu.Unlock()
	if unfit != "" {
		problems = append(problems, unfit)
	}
	if skew > 500 || skew < -500 {
		problems = append(problems, fmt.Sprintf("wall clock is %d ms off the median of the voters: synchronise it", skew))
	}
	if free, total, err := FreeSpace(n.cfg.Data); err == nil && total > 0 && free < total/20 {
		problems = append(problems, fmt.Sprintf("data directory has %d MiB free, under 5 %%: free space", free>>20))
	}
	problems = append(append(problems, n.historyProblems()...), n.eventProblems()...)
	if err := n.Ready(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}
