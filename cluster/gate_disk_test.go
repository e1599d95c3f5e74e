package cluster

import (
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestLevelOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before             diskLevel
		free, low, critial uint64
		want               diskLevel
	}{
		{diskRoomy, 100, 100, 50, diskRoomy},
		{diskRoomy, 99, 100, 50, diskLow},
		{diskLow, 119, 100, 50, diskLow},
		{diskLow, 120, 100, 50, diskRoomy},
		{diskRoomy, 49, 100, 50, diskCritical},
		{diskCritical, 59, 100, 50, diskCritical},
		{diskCritical, 60, 100, 50, diskLow},
		{diskCritical, 119, 100, 50, diskLow},
		{diskCritical, 120, 100, 50, diskRoomy},
		{diskRoomy, 0, 0, 0, diskRoomy},
		{diskRoomy, 10, 0, 50, diskCritical},
	} {
		if got := levelOf(c.before, c.free, c.low, c.critial); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if mustBeFree(100<<30, 10, maxDiskLow) != maxDiskLow || mustBeFree(1000, 10, maxDiskLow) != 100 {
		t.Error("a large disk must not need more free space than is useful")
	}
}

// startDisks starts three nodes on disks whose free permille the test sets.
func startDisks(t *testing.T) (b *bench, free map[rota.NodeID]*atomic.Uint64) {
	b, free = newBench(t), make(map[rota.NodeID]*atomic.Uint64)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c, at := b.addrs[id], &atomic.Uint64{}
		at.Store(500)
		c.freeSpace = func(string) (uint64, uint64, error) { return at.Load() << 20, 1000 << 20, nil }
		b.addrs[id], free[id] = c, at
	}
	b.startPlanned()
	return b, free
}

func TestDisk(t *testing.T) {
	t.Parallel()
	b, free := startDisks(t)
	n := b.loyal()
	h := newHand(t, n, "w1", 2)
	submitAll(t, n, specs("a", 2))
	leases := h.take(2)
	h.do(rota.VerbAck, leases...)
	at := func(n *Node, want diskLevel) func() bool {
		return func() bool { level, _ := n.disk.inForce(); return level == want }
	}
	submit := func(prefix string) *rota.Error {
		t.Helper()
		outcomes, err := b.follower().Submit(within(t, ample), specs(prefix, 1))
		if err != nil {
			t.Fatal(err)
		}
		return rota.ErrorOf(outcomes[0].Err)
	}

	// One follower's disk affects only that follower; it reports this.
	f := b.follower()
	free[f.cfg.Node].Store(90)
	b.eventually("the follower notices", func() bool {
		return f.disk.now() == diskLow && !f.clusterVerbs.ownStatus().Healthy
	})
	b.eventually("the leader knows", func() bool { v, _ := n.watch.view(f.cfg.Node); return v.disk.level == diskLow })
	if err := submit("one"); err != nil {
		t.Fatalf("refused for one follower's disk: %v", err)
	}
	// A majority's affects the cluster.
	var other *Node
	for _, id := range b.ids() {
		if x := b.node(id); x != n && x != f {
			other = x
		}
	}
	free[other.cfg.Node].Store(80)
	b.eventually("the leader refuses for the majority", at(n, diskLow))
	err := submit("two")
	if err == nil || err.Kind != rota.KindExhausted || err.RetryAfter <= 0 ||
		!strings.Contains(err.Text, string(other.cfg.Node)) ||
		!strings.Contains(err.Text, "Free space") {
		t.Fatalf("%+v", err)
	}
	free[f.cfg.Node].Store(115) // not enough to leave
	time.Sleep(2 * diskEvery)
	if f.disk.now() != diskLow {
		t.Error("a level is left as soon as it is reached")
	}
	free[f.cfg.Node].Store(120)
	b.eventually("the majority has room again", at(n, diskRoomy))
	free[other.cfg.Node].Store(500)

	// The leader's own is enough if it already handed over because of it and leads again.
	n.disk.yielded.Store(int64(n.sinceBoot()))
	free[n.cfg.Node].Store(99)
	b.eventually("the leader is low", at(n, diskLow))
	if err := submit("three"); err == nil || err.Kind != rota.KindExhausted || !strings.Contains(err.Text, n.cfg.Data) {
		t.Fatalf("%+v", err)
	}
	if err := submit("a"); err != nil { // known: the same answer as before
		t.Fatalf("a known job: %v", err)
	}
	free[n.cfg.Node].Store(49)
	b.eventually("the leader is critical", at(n, diskCritical))
	for _, a := range h.do(rota.VerbRenew, leases[0]) {
		if a.Err != nil {
			t.Errorf("a renewal was refused: %v", a.Err)
		}
	}
	for _, a := range h.do(rota.VerbComplete, leases...) {
		if a.Err != nil {
			t.Errorf("a completion was refused: %v", a.Err)
		}
	}
	if got, err := n.Cancel(within(t, ample), []rota.JobID{"one-00000"}); err != nil || got[0].Err != nil {
		t.Errorf("a cancellation was refused: %v, %v", got, err)
	}
	if got, err := n.Retry(within(t, ample), retriesOf("one-00000")); err == nil && got[0].Err == nil {
		t.Error("a retry was accepted")
	}
	free[n.cfg.Node].Store(500)
	b.eventually("all is well", at(n, diskRoomy))
	if err := submit("four"); err != nil {
		t.Fatal(err)
	}
	h.beat() // on a slow machine it may have been silent for too long by now
	h.take(1)
}

// TestDisk_startsNothingWhenCritical: a job waits although a worker is free.
func TestDisk_startsNothingWhenCritical(t *testing.T) {
	t.Parallel()
	b, free := startDisks(t)
	n := b.loyal()
	submitAll(t, n, specs("a", 1))
	n.disk.yielded.Store(int64(n.sinceBoot())) // it stays the leader
	free[n.cfg.Node].Store(10)
	b.eventually("the leader is critical", func() bool { level, _ := n.disk.inForce(); return level == diskCritical })
	h := newHand(t, n, "w1", 1) // a worker may come back: it may have leases to end
	rounds := n.machineEpoch()
	time.Sleep(4 * limits.SweepEvery)
	if n.machineEpoch() != rounds {
		t.Error("rounds were decided on a full disk")
	}
	free[n.cfg.Node].Store(500)
	h.take(1)
}

func (n *Node) machineEpoch() uint64 {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	return n.replica.Machine.Head().Epoch
}

// TestDisk_theLeaderHandsOver: only the leader's disk fills up: the others continue, and no work is rejected.
func TestDisk_theLeaderHandsOver(t *testing.T) {
	t.Parallel()
	b, free := startDisks(t)
	n := b.leader()
	free[n.cfg.Node].Store(10)
	b.eventually("another one leads", func() bool {
		for _, id := range b.ids() {
			if other := b.node(id); other != n && other.terms.leading() != nil {
				return true
			}
		}
		return false
	})
	submitAll(t, n, specs("after", 5))
}

// TestDisk_aCommitRepeated loses the answer to a workflow's last operation, and the disks fill up: its repetition gets
// the first one's result.
func TestDisk_aCommitRepeated(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]uint64{"low": 90, "critical": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, free := startDisks(t)
			b.loyal() // the test drops calls that a follower forwards
			f := b.follower()
			var once atomic.Bool
			b.mu.Lock()
			b.forwarded = func(_ rota.NodeID, commands []byte) error {
				var c fsmpb.Commands
				if err := proto.Unmarshal(commands, &c); err != nil {
					return err
				}
				for _, op := range c.GetOps() {
					if op.GetCommitWorkflow() == nil || !once.CompareAndSwap(false, true) {
						continue
					}
					for _, x := range free {
						x.Store(full)
					}
					// On every node: the first to notice hands over to one that has not.
					b.eventually("the cluster is short of room", func() bool {
						return !slices.ContainsFunc(b.ids(),
							func(id rota.NodeID) bool { return b.node(id).disk.now() == diskRoomy })
					})
					return &rota.Error{Kind: rota.KindUnavailable, Text: "the answer is lost"}
				}
				return nil
			}
			b.mu.Unlock()
			s, err := f.SubmitWorkflow(within(t, ample), diamond("flow1"))
			if err != nil || s.State != rota.WorkflowRunning || !once.Load() {
				t.Errorf("submitted %+v, %v", s, err)
			}
			if _, err := f.SubmitWorkflow(within(t, ample), diamond("flow2")); rota.KindOf(err) != rota.KindExhausted {
				t.Errorf("a new job: %v", err)
			}
		})
	}
}

// Bytes proposed since a check count as written, twice. Ended jobs and events leave the log enough room to finish
// accepted work: otherwise keeping them would bring a node to the level where nothing is started and nothing frees
// space by itself.
func TestDiskGate_historyStopsFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ low, critical, free, snapshots, history uint64 }{
		{10, 5, 20, 15_000, 12_500},
		{10, 5, 8, 3_000, 500},
		{10, 5, 7, 2_000, 0},
		{10, 5, 4, 0, 0},
		{6, 5, 6, 1_000, 500},
		{0, 4, 7, 3_000, 1_000},
		{10, 0, 6, 6_000, 1_000},
		{0, 0, 1, 1_000, 1_000},
	} {
		dg := &diskGate{low: c.low, critical: c.critical, read: func(string) (uint64, uint64, error) {
			return c.free * 1_000, 100_000, nil
		}}
		if s, h := dg.forSnapshots(), dg.forHistory(); s != c.snapshots || h != c.history {
			t.Errorf("%+v: got %d for snapshots, %d for history", c, s, h)
		}
	}
}

func TestDiskView(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		view  diskView
		asked uint64
		level diskLevel
		until uint64
	}{
		{diskView{diskRoomy, 100 * mib, 7 * mib}, 57 * mib, diskRoomy, 32 * mib},
		{diskView{diskRoomy, 100 * mib, 7 * mib}, 58 * mib, diskLow, 32 * mib},
		{diskView{diskLow, 10 * mib, 0}, 6 * mib, diskCritical, 5 * mib / 2},
		{diskView{diskCritical, math.MaxUint64, 0}, 1 << 50, diskCritical, math.MaxUint64},
		{diskView{diskRoomy, math.MaxUint64, 1 << 62}, 1<<62 + 1<<50, diskRoomy, 1<<63 - 1},
		{diskView{diskRoomy, 0, 9}, 5, diskRoomy, 9}, // a view from another leadership
	} {
		if level, until := c.view.at(c.asked), c.view.until(); level != c.level || until != c.until {
			t.Errorf("%+v at %d: level %d, until %d", c.view, c.asked, level, until)
		}
	}
	for _, c := range []struct {
		level               diskLevel
		low, critical, room uint64
	}{
		{diskRoomy, 20, 10, 80}, {diskLow, 20, 10, 90}, {diskCritical, 20, 10, math.MaxUint64}, {diskRoomy, 0, 10, 90},
		{diskRoomy, 0, 0, math.MaxUint64}, {diskRoomy, 200, 10, 0},
	} {
		if got := roomOf(c.level, 100, c.low, c.critical); got != c.room {
			t.Errorf("%+v: room %d", c, got)
		}
	}
}

// Operations between two checks of a majority's disks are rejected by their bytes.
func TestDisk_burstOnFollowers(t *testing.T) {
	t.Parallel()
	b, free := startDisks(t)
	n := b.loyal()
	for id, at := range free {
		if id != n.cfg.Node {
			at.Store(100) // no byte above the mark
		}
	}
	b.eventually("the leader knows that no room is left", func() bool {
		for id := range free {
			if v, known := n.watch.view(id); id != n.cfg.Node &&
				(!known || v.err != nil || v.disk.level != diskRoomy || v.disk.room != 0) {
				return false
			}
		}
		return n.disk.until() <= n.disk.answered.Load()
	})
	outcomes, err := n.Submit(within(t, ample), specs("bulk", 1))
	if err != nil {
		t.Fatal(err)
	}
	if e := rota.ErrorOf(outcomes[0].Err); e == nil || e.Subject != "disk" || e.Kind != rota.KindExhausted {
		t.Errorf("a job was accepted without room: %v", e)
	}
}

// A disk that fills up delays the dates of schedules, which are decided once there is room again, each once.
func TestDisk_holdsSchedulesBack(t *testing.T) {
	t.Parallel()
	b, free := startDisks(t)
	n := b.loyal()
	everySecond(t, n)
	seen := func() rota.Schedule {
		s, _, err := b.leader().Schedule(within(t, ample), "s", peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	b.eventually("a date is decided", func() bool { return seen().Runs > 0 })
	for _, at := range free {
		at.Store(80)
	}
	b.eventually("the disks are low", func() bool { level, _ := b.leader().disk.inForce(); return level == diskLow })
	// The first disk that is low costs its node the leadership.
	late := func(by time.Duration) func() bool {
		return func() bool { return b.leader().dates.Lag.Load() >= by.Milliseconds() }
	}
	b.eventually("a date is late", late(1500*time.Millisecond))
	held := seen()
	b.eventually("dates are held back", late(4*time.Second))
	if s := seen(); s.Through != held.Through || s.Runs != held.Runs {
		t.Errorf("%d dates became runs while a disk fills up", s.Runs-held.Runs)
	}
	callback := specs("c", 1)[0]
	callback.ID = ""
	if _, err := n.OpenBatch(within(t, ample), rota.BatchSpec{ID: "b",
		Callback: callback}); rota.KindOf(err) != rota.KindExhausted {
		t.Errorf("a batch is opened: %v", err)
	}
	for _, at := range free {
		at.Store(500)
	}
	b.eventually("the dates are decided", func() bool { return seen().Runs > held.Runs })
	s := seen()
	decidedOnce(t, &s)
}

// TestDiskProblems: the problem text of a full disk states when it affects others, which one follower's does not.
func TestDiskProblems(t *testing.T) {
	t.Parallel()
	n := (&Node{}).wire()
	n.cfg.Node = "n1"
	for level, want := range map[diskLevel]string{diskRoomy: "", diskLow: "No new jobs are admitted",
		diskCritical: "nothing is started"} {
		n.disk.level = level
		said := strings.Join(n.disk.Problems(), "\n")
		if (want == "") != (said == "") || !strings.Contains(said, want) || want != "" &&
			!strings.Contains(said, "If it leads, or a majority of the disks is not better: ") {
			t.Errorf("level %v: got %q, want %q", level, said, want)
		}
	}
}

// TestDisk_itsLogIsDeleted: a node whose data directory is deleted under it ends. Nothing else would reveal it: writes
// succeed, and its acknowledgements would count towards a majority although the data is gone.
func TestDisk_itsLogIsDeleted(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	b.fatal = true
	if err := os.RemoveAll(b.addrs["n1"].Data); err != nil {
		t.Fatal(err)
	}
	b.eventually("it ends", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.fatals["n1"]) == 1
	})
	if err := b.fatals["n1"][0]; !strings.Contains(err.Error(), "raft.db is gone") {
		t.Error(err)
	}
}

// TestDisk_beforeTheFirstLook: a node that is asked before it has checked its disk delays nothing, here and at the
// leader.
func TestDisk_beforeTheFirstLook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 1)
	n, err := newNode(b.addrs["n1"], noPeers{})
	if err != nil {
		t.Fatal(err)
	}
	dg := &n.disk
	if level := (diskView{dg.level, dg.room, dg.seen}).at(1 << 40); level != diskRoomy {
		t.Errorf("level %d", level)
	}
}
