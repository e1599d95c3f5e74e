package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestMain checks that no node leaves a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// memberlist's last probe ends by its own timeout, shortly after Shutdown.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
		// raft never answers entries that were committed but not applied when it stopped. settled continues without the
		// answer; the goroutine in the library's wait cannot.
		goleak.IgnoreAnyFunction("github.com/rotasched/rota/cluster.awaitAnswer"))
}

// bench is a cluster of real nodes in this process: real Raft, real files, real gossip on loopback; only the calls
// between nodes are direct.
type bench struct {
	t     *testing.T
	mu    sync.Mutex
	nodes map[rota.NodeID]*Node
	addrs map[rota.NodeID]Config
	// cut holds nodes whose calls fail, in both directions; isolated those whose raft connections fail too.
	cut      map[rota.NodeID]bool
	isolated map[rota.NodeID]bool
	fatals   map[rota.NodeID][]error
	// wires holds each node's raft connections.
	wires map[rota.NodeID]*wires
	// deaf holds nodes whose requests are not answered, starved those that are sent no state, hung those that leave
	// requests unanswered without rejecting them.
	deaf, starved, hung map[rota.NodeID]bool
	// forwarded checks each call that a leader accepted from another node; its error replaces the answer.
	forwarded func(from rota.NodeID, commands []byte) error
	// introduced answers a starting node in place of another one, unless it passes.
	introduced func(to rota.NodeID) (pass bool, answer error)
	// sending wraps the connection from a node that sends its state to the one that receives it.
	sending func(w io.Writer) io.Writer
	// fatal reports that the test expects a node to end itself.
	fatal bool
}

// quick holds the tests with nodes that make check runs: one each for a write at a follower, a read, a lease, a round,
// a workflow, a change of members and a failover.
var quick = map[string]bool{"TestDo_goesWithTheNextLease": true, "TestRead_onAFollowerThatLags": true,
	"TestRound": true,
	"TestSignalWorkflow_countsOnceWhicheverNodeIsAsked": true, "TestWorkflow_aDiamondRunsToItsEnd": true,
	"TestViews":                             true,
	"TestGrow_joinsOnceThoughTheLeaderDies": true}

func newBench(t *testing.T) *bench {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); testing.Short() && !quick[name] {
		t.Skip("not run with -short: it starts nodes; make test runs it")
	}
	b := &bench{t: t, nodes: make(map[rota.NodeID]*Node), addrs: make(map[rota.NodeID]Config),
		cut: make(map[rota.NodeID]bool), isolated: make(map[rota.NodeID]bool), deaf: make(map[rota.NodeID]bool),
		starved: make(map[rota.NodeID]bool), hung: make(map[rota.NodeID]bool), fatals: make(map[rota.NodeID][]error),
		wires: make(map[rota.NodeID]*wires)}
	_ = t.TempDir() // first, so that the directories are removed after the nodes in them
	t.Cleanup(func() {
		for _, id := range b.ids() {
			b.stop(id)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.fatals) > 0 && !b.fatal {
			t.Errorf("nodes gave up: %v", b.fatals)
		}
	})
	return b
}

// startBench starts n nodes that found a cluster, and waits until all serve.
func startBench(t *testing.T, n int) *bench {
	t.Helper()
	b := newBench(t)
	for i := range n {
		b.plan(rota.NodeID(fmt.Sprintf("n%d", i+1)), n)
	}
	b.startPlanned()
	return b
}

// startPlanned starts all planned nodes at once, and waits until they serve and are recorded in the state: a leader
// accepts no call from a node that is not recorded yet, which would remain so for a node that a test cuts off at once.
func (b *bench) startPlanned() {
	b.t.Helper()
	b.startAll(b.planned())
	for _, id := range b.ids() {
		b.awaitReady(id)
	}
	b.eventually("the founders are recorded", func() bool {
		n := b.leader()
		return !slices.ContainsFunc(b.ids(), func(id rota.NodeID) bool { return !n.replica.Member(id).Known })
	})
}

// startAll starts nodes at once, none of which is the leader yet.
func (b *bench) startAll(ids []rota.NodeID) {
	b.t.Helper()
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() { b.start(id) })
	}
	all.Wait()
	if n := b.node(ids[rand.IntN(len(ids))]); n != nil {
		electNow(n)
	}
}

// leaderPatience is how long a node without contact to its leader waits before it stands for election, and how long a
// leader leads without a majority. With less, a busy machine deposes leaders that a test relies on.
const leaderPatience = 2 * time.Second

// electNow makes a node without a known leader start an election now rather than when its timeout ends: raft checks
// again when that is shortened.
func electNow(n *Node) {
	usual := n.raft.ReloadableConfig()
	longer := usual
	longer.HeartbeatTimeout++
	longer.ElectionTimeout++
	_ = n.raft.ReloadConfig(longer)
	_ = n.raft.ReloadConfig(usual)
}

// loyal makes the current followers wait for their leader forever, however busy the machine, and returns the leader: if
// it loses contact, it is elected again. A test may still hand leadership over. Nodes that are not members are left
// unchanged: they may learn that by missing a leader.
func (b *bench) loyal() *Node {
	b.t.Helper()
	for {
		leader := b.leader()
		for _, id := range b.ids() {
			switch n := b.node(id); {
			case n == leader:
				b.waits(n, n.cfg.Timing.Heartbeat)
			case slices.ContainsFunc(leader.membership.servers(),
				func(s raft.Server) bool { return s.ID == raft.ServerID(id) }):
				b.waits(n, time.Hour)
			}
		}
		if b.leader() == leader {
			return leader
		}
	}
}

// disloyal restores the patience that nodes had before loyal.
func (b *bench) disloyal() {
	for _, id := range b.ids() {
		n := b.node(id)
		b.waits(n, n.cfg.Timing.Heartbeat)
	}
}

// waits sets how long a node waits for a leader before it stands for election.
func (b *bench) waits(n *Node, so time.Duration) {
	c := n.raft.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = so, so
	if err := n.raft.ReloadConfig(c); err != nil {
		b.t.Error(err)
	}
}

// isolate cuts a node off from all others, both calls and raft.
func (b *bench) isolate(id rota.NodeID) {
	b.mu.Lock()
	b.cut[id], b.isolated[id] = true, true
	b.mu.Unlock()
	b.wires[id].cut()
}

// heal ends a node's isolation.
func (b *bench) heal(id rota.NodeID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.cut, id)
	delete(b.isolated, id)
}

// lastPort counts through ports below those that the system assigns by itself, and above those of test/rig: no other
// process takes one before the node listens, or while that node is down.
var lastPort atomic.Int32

// freeAddr returns an address that is free for TCP and UDP, and none twice.
func freeAddr(t *testing.T) string {
	t.Helper()
	const low, many = 20_000, 12_000
	for range many {
		addr := fmt.Sprintf("127.0.0.1:%d", low+(int32(os.Getpid()*31)+lastPort.Add(1))%many)
		stream, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		packets, err := net.ListenPacket("udp", addr)
		stream.Close()
		if err != nil {
			continue
		}
		packets.Close()
		return addr
	}
	t.Fatal("no port is free")
	return ""
}

// roomyDisk replaces the machine's disk, however full that is.
func roomyDisk(string) (free, total uint64, err error) { return 1 << 40, 1 << 40, nil }

func (b *bench) plan(id rota.NodeID, expect int) {
	b.t.Helper()
	c := Config{Node: id, Cluster: "test", Data: filepath.Join(b.t.TempDir(), string(id)), API: "127.0.0.1:1",
		Raft:   freeAddr(b.t),
		Gossip: freeAddr(b.t), BootstrapExpect: expect, Version: "test", Open: true,
		Environment: Environment{NoSync: true}, freeSpace: roomyDisk,
		Timing: Timing{Heartbeat: leaderPatience, Election: leaderPatience, LeaderLease: leaderPatience,
			Commit:            5 * time.Millisecond,
			SnapshotThreshold: 1 << 20, TrailingLogs: 1 << 20, SnapshotInterval: time.Hour}}
	b.wires[id] = new(wires)
	b.wires[id].lay(&c)
	c.admitted = func(peer rota.NodeID) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.isolated[id] || b.isolated[peer] {
			return errors.New("cut off by the test")
		}
		return nil
	}
	c.Fatal = func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fatals[id] = append(b.fatals[id], err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.addrs {
		c.Join = append(c.Join, other.Gossip)
	}
	b.addrs[id] = c
}

func (b *bench) planned() (ids []rota.NodeID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.addrs {
		ids = append(ids, id)
	}
	return ids
}

func (b *bench) ids() (ids []rota.NodeID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.nodes {
		ids = append(ids, id)
	}
	return ids
}

func (b *bench) start(id rota.NodeID) *Node {
	b.t.Helper()
	n, err := b.tryStart(id)
	if err != nil {
		b.t.Errorf("start %s: %v", id, err)
	}
	return n
}

func (b *bench) tryStart(id rota.NodeID) (*Node, error) {
	b.mu.Lock()
	cfg := b.addrs[id]
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	defer cancel()
	n, err := Start(ctx, cfg, &directPeers{b: b, self: id})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[id] = n
	if len(n.membership.servers()) == 1 { // there is no other node
		electNow(n)
	}
	return n, nil
}

func (b *bench) stop(id rota.NodeID) {
	b.t.Helper()
	b.mu.Lock()
	n := b.nodes[id]
	delete(b.nodes, id)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(ctx) }()
	select {
	case err := <-stopped:
		if err != nil {
			b.t.Errorf("stop %s: %v", id, err)
		}
	case <-time.After(30 * time.Second):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		b.t.Errorf("stop %s: it hangs", id)
	}
}

func (b *bench) node(id rota.NodeID) *Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[id]
}

// ample is far longer than any step here takes on a busy machine: a step that has not ended by then never will.
const ample = 90 * time.Second

// eventually waits for a condition that the cluster reaches by itself.
func (b *bench) eventually(what string, cond func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(ample)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not within %s", what, ample)
		}
		<-tick.C
	}
}

func (b *bench) awaitReady(id rota.NodeID) {
	b.t.Helper()
	b.eventually(string(id)+" serves", func() bool { n := b.node(id); return n != nil && n.Ready() == nil })
}

// pass advances cluster time immediately: entries stamped by the leader's term, each as far ahead as the state accepts.
func (b *bench) pass(d rota.Clock) {
	b.t.Helper()
	at := b.clock()
	until, deadline := at+d, time.Now().Add(ample)
	for at < until {
		if time.Now().After(deadline) {
			b.t.Fatal("cluster time does not advance")
		}
		n := b.leader()
		l := n.terms.leading()
		if l == nil {
			continue
		}
		entry := &fsmpb.Entry{Term: l.term, NowMs: int64(min(until, clockOf(n)+900)),
			Ops: []*fsmpb.Op{replica.BarrierOp()}}
		_ = n.settled(n.raft.Apply(mustSeal(b.t, entry), time.Second))
		if now := b.clock(); now > at {
			at, deadline = now, time.Now().Add(ample)
		}
	}
}

func (b *bench) clock() rota.Clock { return clockOf(b.leader()) }

func clockOf(n *Node) rota.Clock {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	return n.replica.Machine.Head().Clock
}

// leader waits for an open leadership and returns its node.
func (b *bench) leader() *Node {
	b.t.Helper()
	var leader *Node
	b.eventually("a leader", func() bool {
		for _, id := range b.ids() {
			if n := b.node(id); n != nil && n.terms.leading() != nil && n.Ready() == nil {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

func (b *bench) follower() *Node {
	b.t.Helper()
	leader := b.leader()
	for _, id := range b.ids() {
		if id != leader.cfg.Node {
			return b.node(id)
		}
	}
	b.t.Fatal("no follower")
	return nil
}

// within returns a context that a test's call must not outlast.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func specs(prefix string, n int) []rota.JobSpec {
	list := make([]rota.JobSpec, n)
	for i := range list {
		list[i] = rota.NewJobSpec("work", []byte("payload"))
		list[i].ID, list[i].Tenant = rota.JobID(fmt.Sprintf("%s-%05d", prefix, i)), rota.DefaultTenant
	}
	return list
}

func submitAll(t *testing.T, n *Node, jobs []rota.JobSpec) {
	t.Helper()
	for len(jobs) > 0 {
		k := min(len(jobs), 500)
		outcomes, err := n.Submit(within(t, ample), jobs[:k])
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcomes {
			if o.Err != nil {
				t.Fatalf("job %s: %v", o.ID, o.Err)
			}
		}
		jobs = jobs[k:]
	}
}

// freeze returns a frozen copy of the state, an empty one while there is none.
func freeze(rp *replica.Replica) *fsm.Frozen {
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	return rp.Machine.Freeze()
}
