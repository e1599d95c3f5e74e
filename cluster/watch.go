package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/internal/chores"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/internal/peer"
)

// watcher holds what this node knows about the others, queried once a second: their wall clocks, how far they have
// applied, and their digests (SPEC §2.5, §3.8).
type watcher struct {
	n          *base
	disk       *diskGate
	marks      *marks
	membership *membership
	terms      *terms
	mu         sync.Mutex
	peers      map[rota.NodeID]peerView
	// asked is when they were last queried.
	asked time.Duration
	// addrs holds the members' addresses last seen in gossip.
	addrs  map[rota.NodeID]string
	skewMs int64
	unfit  string
	// at is the index whose digests are compared next.
	at rota.Index
	// seen is how much of this node's log was answered when the others were previously queried: a node's own check of
	// its disk is at least as new.
	seen     atomic.Uint64
	seenNext uint64
	// leaderless counts the seconds without a leader; refused is another node's answer then on whether this one may
	// still take part.
	leaderless int
	refused    error
}

// peerView is the last answer of a node.
type peerView struct {
	// to is the address where it answered.
	to     peer.NodeAddress
	status rota.NodeStatus
	// wallMs is its wall clock at wallAt since boot, within wallOff: half of the round trip.
	wallMs          int64
	wallAt, wallOff time.Duration
	digest          *rota.Digest
	disk            diskView
	// differedAt is where it found its state to be wrong, rightUntil the index up to which it was right.
	differedAt, rightUntil rota.Index
	// cut is its last loss of applied entries.
	cut peer.LogCut
	// autopilot and health come from a leader.
	autopilot rota.Autopilot
	health    []peer.NodeHealth
	// others is its view of each other node.
	others []peer.NodeView
	err    error
	// heard is when it last answered, zero for never.
	heard time.Duration
	// closeSince is since when it has lagged by few enough entries to become a voter; zero if it lags more.
	closeSince time.Duration
}

// stateRebuilding is the state that a node reports while its state is rebuilt.
const stateRebuilding = "REBUILDING"

const (
	// minCompare bounds the cost of comparisons between the seconds when entries arrive by the ten thousand: a node
	// that catches up is compared twenty times a second.
	minCompare = 50 * time.Millisecond
)

// run queries every other node once a second, and its digest at every thousandth entry as well.
func (w *watcher) run() {
	tick := w.n.ticker(w.n.cfg.watchEvery)
	defer tick.Stop()
	marks := w.n.replica.Digests.Marks()
	due := marks
	var rested <-chan time.Time
	for {
		select {
		case <-tick.Tick():
			w.once()
		case <-due:
			w.compareMarked()
			due, rested = nil, time.After(minCompare)
		case <-rested:
			due = marks
		case <-w.n.stopped:
			return
		}
	}
}

// compareMarked compares digests between two seconds, with the nodes that answered last time: one that does not answer
// must not delay the query of every second.
func (w *watcher) compareMarked() {
	at := w.n.replica.Digests.Marked()
	if at == 0 {
		return
	}
	servers := w.membership.servers()
	asked := slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool {
		v, known := w.view(rota.NodeID(s.ID))
		return known && v.err != nil
	})
	w.n.rebuild.Compare(at, servers, w.answers(asked, []rota.Index{at}), true)
}

func (w *watcher) once() {
	at := w.next(rota.Index(w.n.replica.Applied.Load()))
	w.seen.Store(w.seenNext)
	w.seenNext = w.disk.answered.Load()
	servers := w.membership.servers()
	now, last := w.n.sinceBoot(), rota.Index(w.n.raft.LastIndex()) // before a hanging node delays the other answers
	views := w.inspectAll(servers, []rota.Index{at})
	w.mu.Lock()
	for id, v := range views {
		if v.heard = w.peers[id].heard; v.err == nil {
			v.heard = now
		} else {
			v.cut = w.peers[id].cut
		}
		w.n.rebuild.ReportCut(id, raftstore.CutRecord(v.cut))
		views[id] = v
		if v.err == nil && v.status.AppliedIndex+caughtUpLag > last {
			v.closeSince = w.peers[id].closeSince
			if v.closeSince == 0 {
				v.closeSince = now
			}
			views[id] = v
		}
	}
	w.peers, w.asked = views, now
	for id := range w.addrs {
		if _, member := views[id]; !member {
			delete(w.addrs, id)
		}
	}
	w.mu.Unlock()
	w.disk.state.Store(w.disk.weighDisks())
	w.compareWalls(servers, views)
	w.n.rebuild.Compare(at, servers, answersOf(views), false)
	w.askWhenAlone(slices.ContainsFunc(slices.Collect(maps.Values(views)), peerView.cutOff))
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

// inspectAll queries all other servers at once.
func (w *watcher) inspectAll(servers []raft.Server, at []rota.Index) map[rota.NodeID]peerView {
	ctx, cancel := context.WithTimeout(w.n.life, peerTimeout)
	defer cancel()
	views := make(map[rota.NodeID]peerView)
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		if id == w.n.cfg.Node {
			continue
		}
		asked.Go(func() {
			v := w.inspect(ctx, id, at)
			mu.Lock()
			defer mu.Unlock()
			views[id] = v
		})
	}
	asked.Wait()
	return views
}

// answers queries all other servers at once for a rebuild.
func (w *watcher) answers(servers []raft.Server, at []rota.Index) map[rota.NodeID]rebuild.Answer {
	return answersOf(w.inspectAll(servers, at))
}

func answersOf(views map[rota.NodeID]peerView) map[rota.NodeID]rebuild.Answer {
	answers := make(map[rota.NodeID]rebuild.Answer, len(views))
	for id, v := range views {
		answers[id] = rebuild.Answer{Node: v.to, Digest: v.digest, DifferedAt: v.differedAt, RightUntil: v.rightUntil,
			Rebuilding: v.status.State == stateRebuilding, Err: v.err}
	}
	return answers
}

func (w *watcher) inspect(ctx context.Context, id rota.NodeID, at []rota.Index) peerView {
	to, ok := w.membership.address(id)
	if !ok {
		of, _ := w.n.replica.PeekMember(id)
		to.API = of.API // it was gone before this node started
	}
	if to.API == "" {
		return peerView{err: fmt.Errorf("node %s was never seen in gossip", id)}
	}
	sent, before := w.n.sinceBoot(), w.marks.known(id)
	in, err := w.n.peers.Inspect(ctx, to, at)
	off := (w.n.sinceBoot() - sent) / 2
	if err == nil && in.Status.ID != id {
		err = fmt.Errorf("node %s answers at the address of node %s", in.Status.ID, id)
	}
	if err != nil {
		return peerView{err: err}
	}
	w.marks.answered(id, before, &in)
	v := peerView{to: to, status: in.Status, cut: in.Cut, wallMs: in.WallMs, wallAt: sent + off, wallOff: off,
		disk:       diskView{level: diskLevel(in.DiskLevel), room: in.DiskRoom, seen: w.seen.Load()},
		differedAt: in.DifferedAt,
		rightUntil: in.RightUntil, autopilot: in.Autopilot, health: in.Health, others: in.Views}
	if len(in.Digests) == 1 {
		v.digest = in.Digests[0]
	}
	return v
}

// appliedOn asks a node for the index that it has applied; false if it does not answer, or rebuilds its state.
func (w *watcher) appliedOn(ctx context.Context, id rota.NodeID) (rota.Index, bool) {
	v := w.inspect(ctx, id, nil)
	return v.status.AppliedIndex, v.err == nil && v.status.State != stateRebuilding
}

// compareWalls passes the wall clocks of a majority to the leadership, and records the minimum difference between this
// node's own and their median. A reading is as old as its answer, and as inexact as the time that the answer took.
func (w *watcher) compareWalls(servers []raft.Server, views map[rota.NodeID]peerView) {
	now, own := w.n.sinceBoot(), w.n.wall().UnixMilli()
	walls, voters, off := []int64{}, 0, time.Duration(0)
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := rota.NodeID(s.ID); id == w.n.cfg.Node {
			walls = append(walls, own)
		} else if v, ok := views[id]; ok && v.err == nil {
			walls, off = append(walls, v.wallMs+(now-v.wallAt).Milliseconds()), max(off, v.wallOff)
		}
	}
	if len(walls) == 0 || len(walls) <= voters/2 {
		return
	}
	skew, most := own-median(walls), off.Milliseconds()
	w.mu.Lock()
	w.skewMs = skew - max(-most, min(skew, most))
	w.mu.Unlock()
	if l := w.terms.leading(); l != nil {
		l.setWalls(walls)
	}
}

func (w *watcher) setUnfit(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unfit = reason
}

// view returns the last answer of a node.
func (w *watcher) view(id rota.NodeID) (peerView, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.peers[id]
	return v, ok
}

// latest returns the last answers of all nodes, and when they were requested.
func (w *watcher) latest() (views map[rota.NodeID]peerView, asked time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peers, w.asked
}

// well reports whether a node answers, follows the log, and can vote and lead.
func (v peerView) well() bool {
	return v.err == nil && v.closeSince != 0 && v.status.State != stateRebuilding && v.status.State != stateStalled
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

// skew returns how far this node's wall clock is ahead of the voters' median.
func (w *watcher) skew() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.skewMs) * time.Millisecond
}

// problems lists faults of this node's clock, and of its disk as raft found it.
func (w *watcher) problems() (problems []string) {
	w.mu.Lock()
	skew, unfit := w.skewMs, w.unfit
	w.mu.Unlock()
	if unfit != "" {
		problems = append(problems, unfit)
	}
	if skew > 500 || skew < -500 {
		problems = append(problems, fmt.Sprintf("wall clock is %d ms off the median of the voters: synchronise it",
			skew))
	}
	return problems
}

// alarms lists the nodes known to this one that lost applied entries, and those behind what they had acknowledged: one
// text each, ordered by id. A removed node is left out.
func (w *watcher) alarms() []string {
	cuts := w.cuts()
	replaced, behind := w.n.rebuild.Alarms(cuts), w.marks.alarms()
	var all []string
	for _, id := range slices.Sorted(maps.Keys(cuts)) {
		for _, text := range []string{replaced[id], behind[id]} {
			if text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

// cuts returns the last loss of applied entries of each node, as far as this one knows; the zero value for none.
func (w *watcher) cuts() map[rota.NodeID]raftstore.CutRecord {
	cuts := map[rota.NodeID]raftstore.CutRecord{w.n.cfg.Node: w.n.data.Cut()}
	views, _ := w.latest()
	for id, v := range views {
		cuts[id] = raftstore.CutRecord(v.cut)
	}
	return cuts
}

// maxWalls bounds the wait for wall clocks at the beginning of a leadership, wallsGrace the wait for more of them once
// a majority has answered: nothing is decided meanwhile.
const (
	maxWalls   = 200 * time.Millisecond
	wallsGrace = 10 * time.Millisecond
)

// readWalls queries the voters' wall clocks for BeginTerm; nil if no majority answers in time (SPEC §3.8).
func (w *watcher) readWalls(ctx context.Context) []int64 {
	ctx, cancel := context.WithTimeout(ctx, maxWalls)
	defer cancel()
	servers := w.membership.servers()
	answers := make(chan int64, len(servers))
	voters := 0
	var asked sync.WaitGroup
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		to, ok := w.membership.address(rota.NodeID(s.ID))
		if rota.NodeID(s.ID) == w.n.cfg.Node || !ok {
			continue
		}
		asked.Go(func() {
			if in, err := w.n.peers.Inspect(ctx, to, nil); err == nil {
				answers <- in.WallMs
			}
		})
	}
	go func() {
		asked.Wait()
		close(answers)
	}()
	walls, grace := []int64{w.n.wall().UnixMilli()}, (<-chan time.Time)(nil)
	for {
		if len(walls) > voters/2 && grace == nil {
			grace = time.After(wallsGrace)
		}
		select {
		case wall, more := <-answers:
			if more {
				walls = append(walls, wall)
				continue
			}
		case <-grace:
		}
		if len(walls) <= voters/2 {
			return nil
		}
		return walls
	}
}

// seenServers returns when all servers were last asked, and what that revealed about each.
func (w *watcher) seenServers() (time.Duration, func() []chores.ServerLook) {
	views, at := w.latest()
	return at, func() (all []chores.ServerLook) {
		for _, s := range w.membership.servers() {
			id := rota.NodeID(s.ID)
			v, asked := views[id]
			switch own := id == w.n.cfg.Node; {
			case own:
				all = append(all, chores.ServerLook{ID: id, Voter: s.Suffrage == raft.Voter, Answers: true, Healthy: true})
			case asked:
				all = append(all, chores.ServerLook{ID: id, Voter: s.Suffrage == raft.Voter, Answers: v.err == nil,
					Healthy: v.well()})
			}
		}
		return all
	}
}

// cutOff reports whether the node answered that this one was removed.
func (v peerView) cutOff() bool {
	var refusal *rota.Error
	return errors.As(v.err, &refusal) && refusal.Subject == fault.SubjectRemoved
}

// aloneAfter is how many seconds without a leader make a node ask the others.
const aloneAfter = 5

// askWhenAlone asks the others whether this node is still a member: a removed node receives nothing from the leader,
// not even that. cutOff reports that one of them has already answered so.
func (w *watcher) askWhenAlone(cutOff bool) {
	_, leader := w.n.raft.LeaderWithID()
	w.mu.Lock()
	if leader != "" && !cutOff {
		w.leaderless, w.refused = 0, nil
	} else {
		w.leaderless++
	}
	ask := cutOff || w.leaderless >= aloneAfter
	w.mu.Unlock()
	if !ask {
		return
	}
	ctx, cancel := context.WithTimeout(w.n.life, peerTimeout)
	defer cancel()
	_, err := w.membership.introduceTo(ctx, slices.DeleteFunc(w.membership.aliveMembers(),
		func(m gossip.Member) bool { return m.ID == w.n.cfg.Node || !m.HasState }))
	if err == nil {
		return
	}
	w.mu.Lock()
	w.refused = err
	w.mu.Unlock()
	if w.n.lines.Allow("alone") {
		w.n.log.Error("the cluster continues without this node", "err", err)
	}
}

// stillMember returns the others' objection to this node, nil for none.
func (w *watcher) stillMember() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}
