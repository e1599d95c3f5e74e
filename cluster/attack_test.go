package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// The attacks on time (RAFT §7) that need real nodes. Entries of the leader's own term advance the cluster time
// (bench.pass), so nothing here waits for a clock.

// jobOf reads a job from a node's own state.
func jobOf(n *Node, id rota.JobID) rota.Job {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	job, _ := n.replica.Machine.Job(id)
	return job
}

func statusOf(n *Node, id rota.WorkerID) rota.WorkerStatus {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	_, status := n.replica.Machine.Session(id)
	return status
}

// raw applies an entry unchanged, bypassing the leadership.
func (b *bench) raw(n *Node, e *fsmpb.Entry) *fsm.Applied {
	b.t.Helper()
	f := n.raft.Apply(mustSeal(b.t, e), ample)
	if err := n.settled(f); err != nil {
		b.t.Fatal(err)
	}
	return f.Response().(*fsm.Applied)
}

// term returns the term in which a node leads.
func (b *bench) term(n *Node) uint64 {
	b.t.Helper()
	l := n.terms.leading()
	if l == nil {
		b.t.Fatalf("node %s no longer leads", n.cfg.Node)
	}
	return l.term
}

func TestH03_aPausedLeaderEndsNoLease(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	h := newHand(t, n, "w1", 4)
	submitAll(t, n, specs("x", 4))
	leases := h.take(4)
	h.do(rota.VerbAck, leases...)
	before := clockOf(n)
	// Everything pauses for 60 s, longer than any lease, then continues: the monotonic clock has jumped, and the beats
	// and renewals of that time are missing.
	l := n.terms.leading()
	l.mu.Lock()
	l.lastAt -= time.Minute
	l.mu.Unlock()
	for range 4 {
		h.beat()
	}
	if now := clockOf(n); now-before > 20_000 {
		t.Fatalf("a pause of 60 s let %d ms pass", now-before)
	}
	for _, a := range h.do(rota.VerbComplete, leases...) {
		if a.Err != nil {
			t.Fatalf("a lease did not survive the pause: %v", a.Err)
		}
	}
}

func TestH05_whatAStaleLeaderDecidedChangesNothing(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.loyal()
	h := newHand(t, n, "w1", 1)
	submitAll(t, n, specs("x", 2))
	held := h.take(1)[0]
	began, before := clock.SinceBoot(), clockOf(n)
	stale := b.term(n) - 1
	session := uint64(h.s.Session())
	// The leader decided all of this earlier, and appends it only now.
	a := b.raw(n, &fsmpb.Entry{Term: stale, NowMs: int64(before) + 600_000, WallMs: []int64{1 << 45}, Ops: []*fsmpb.Op{
		{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}},
		{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: "w1", Session: session}}},
		{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Queue: "default",
			Pairs: []*fsmpb.Pair{{Job: "x-00001", Worker: "w1"}}}}},
		{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: stale, Node: "n9", Random: make([]byte, 32)}}},
	}})
	for i, o := range a.Outcomes {
		if entry.OutcomeError(o) == nil {
			t.Errorf("operation %d of a stale leader was accepted", i)
		}
	}
	if a.Clock-before > 5_000+rota.Clock((clock.SinceBoot()-began)/time.Millisecond) {
		t.Errorf("a stale leader moved the clock by %d ms", a.Clock-before)
	}
	if got := h.do(rota.VerbComplete, held)[0]; got.Err != nil {
		t.Errorf("the lease is gone: %v", got.Err)
	}
	if v, err := n.Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestH11_aLeaseWhoseNewsDiedWithTheLeaderIsTold(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	// The election may take longer than the usual time to acknowledge a lease.
	if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "ack_timeout_ms", Value: "60000"}}); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, n, "w1", 20)
	submitAll(t, n, specs("x", 20))
	b.eventually("all are leased", func() bool { return jobOf(n, "x-00019").State == rota.JobAssigned })
	b.stop(n.cfg.Node) // the worker has received none of them
	h.connect(b.leader())
	leases := h.take(20)
	for _, a := range h.do(rota.VerbComplete, leases...) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

func TestH19_H25_aStopOfAllNodesEndsNoLeaseAndTurnsNoClockBack(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.leader(), "w1", 5)
	submitAll(t, b.leader(), specs("x", 5))
	leases := h.take(5)
	h.do(rota.VerbAck, leases...)
	b.pass(15_000)
	told := h.beat()
	before := b.clock()
	b.restartAll()
	h.connect(b.follower())
	after := h.beat()
	if after < told {
		t.Errorf("a beat was answered with %d after one with %d", after, told)
	}
	if after-before > 30_000 {
		t.Errorf("%d ms of clock passed while the cluster was stopped", after-before)
	}
	for _, a := range h.do(rota.VerbComplete, leases...) {
		if a.Err != nil {
			t.Errorf("a lease did not survive: %v", a.Err)
		}
	}
}

// restartAll stops every node, then starts them again.
func (b *bench) restartAll() {
	b.t.Helper()
	ids := b.ids()
	for _, id := range ids {
		b.stop(id)
	}
	b.startAll(ids)
}

func TestH20_anEntryStampedInATermThatIsOverMovesNoClock(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	began, before := clock.SinceBoot(), clockOf(n)
	spec := specs("late", 1)[0]
	a := b.raw(n, &fsmpb.Entry{Term: b.term(n) - 1, NowMs: int64(before) + 900,
		Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}}})
	held := clock.SinceBoot()-began >= 900*time.Millisecond // long enough for the clock to get there by itself
	if a.Stamped || a.Clock-before >= 900 && !held {
		t.Fatalf("stamped %v, clock %d after %d", a.Stamped, a.Clock, before)
	}
	if e := entry.OutcomeError(a.Outcomes[0]); e != nil || jobOf(n, "late-00000").State == rota.JobNone {
		t.Fatalf("the client's operation in it was lost: %v", e)
	}
}

func TestH21_stampsAfterAPauseWithAFullPipelineKeepRealTime(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	l := n.terms.leading()
	// The clock of an idle cluster does not advance: an entry updates it first.
	started := clock.SinceBoot()
	if r := l.propose(within(t, ample), []*fsmpb.Op{replica.BarrierOp()}, true); r.err != nil {
		t.Fatal(r.err)
	}
	before := clockOf(n)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				l.mu.Lock()
				if i == 0 && j%10 == 5 {
					l.lastAt -= 20 * time.Second // a pause with entries in flight
				}
				l.mu.Unlock()
				if r := l.propose(within(t, ample), []*fsmpb.Op{replica.BarrierOp()}, true); r.err != nil {
					t.Error(r.err)
				}
			}
		})
	}
	all.Wait()
	passed, real := clockOf(n)-before, rota.Clock((clock.SinceBoot()-started)/time.Millisecond)
	if passed > real+2*limits.StampLeadMax+50 {
		t.Fatalf("two pauses of 20 s let %d ms pass in %d ms", passed, real)
	}
}

func TestH24_silenceCountsOnAcrossLeaders(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	h := newHand(t, n, "w1", 1)
	h.beat()
	submitAll(t, n, specs("x", 1))
	h.do(rota.VerbAck, h.take(1)...)
	sign := clockOf(n) // the worker dies and sends nothing from now on
	b.pass(11_000)
	b.eventually("it is found silent", func() bool { return statusOf(b.leader(), "w1") == rota.WorkerUnreachable })
	b.pass(sign + 30_000 - b.clock())
	if s := jobOf(b.leader(), "x-00000").State; s != rota.JobRunning {
		t.Fatalf("the job is %s at 30 s of silence", s)
	}
	b.stop(b.leader().cfg.Node)
	b.pass(sign + 41_500 - b.clock())
	b.eventually("the lease ends", func() bool { return jobOf(b.leader(), "x-00000").State != rota.JobRunning })
	if now := b.clock(); now < sign+40_000-3_000 || now > sign+47_000 {
		t.Errorf("it ended %d ms after the last sign", now-sign)
	}
}

func TestH24_aWorkerThatDiedWithItsLeaderIsFoundSilentThoughAllElseRests(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.leader(), "w1", 1)
	h.beat()
	b.stop(b.leader().cfg.Node) // and the worker with it
	n := b.leader()
	b.eventually("the clock runs on", func() bool {
		l := n.terms.leading()
		return l != nil && clockOf(n) > l.began+300
	})
	b.pass(11_000)
	b.eventually("it is found silent", func() bool { return statusOf(b.leader(), "w1") == rota.WorkerUnreachable })
	b.eventually("the cluster rests", func() bool {
		n := b.leader()
		l := n.terms.leading()
		return l != nil && !n.leaderChores.sweepNeeded(l)
	})
}

func TestBeats(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal()
	t.Run("of sessions that are over are refused, though the cluster rests", func(t *testing.T) {
		n := b.leader()
		b.eventually("an empty cluster rests", func() bool {
			l := n.terms.leading()
			return l != nil && !n.leaderChores.sweepNeeded(l)
		})
		a, err := n.Beats(within(t, ample), []peer.Beat{{Worker: "nobody", Session: 7}, {Worker: "no-one", Session: 8}})
		if err != nil || !slices.Equal(a.Refused, []int32{0, 1}) {
			t.Fatalf("%+v, %v", a, err)
		}
	})
	h := newHand(t, b.follower(), "w1", 1)
	t.Run("of an unreachable worker are answered only once it is cleared", func(t *testing.T) {
		b.pass(11_000)
		b.eventually("it is found silent", func() bool { return statusOf(b.leader(), "w1") == rota.WorkerUnreachable })
		h.beat()
		if s := statusOf(b.leader(), "w1"); s != rota.WorkerActive {
			t.Fatalf("its beat was answered while its state is %s", s)
		}
	})
	t.Run("wait for the word of silence that is on its way", func(t *testing.T) {
		n := b.leader()
		l := n.terms.leading()
		on := make(chan struct{})
		l.mu.Lock()
		l.silencing, l.silenced = map[rota.WorkerID]bool{"w1": true}, on
		l.mu.Unlock()
		answered := make(chan error, 1)
		go func() {
			_, err := n.Beats(within(t, ample), []peer.Beat{{Worker: "w1", Session: h.s.Session()}})
			answered <- err
		}()
		applied := n.replica.Applied.Load()
		b.eventually("entries are applied", func() bool { return n.replica.Applied.Load() > applied+2 })
		select {
		case err := <-answered:
			t.Fatalf("answered before it: %v", err)
		default:
		}
		word := l.propose(within(t, ample), []*fsmpb.Op{reachOp("w1", h.s.Session(), false, clockOf(n))}, true)
		l.mu.Lock()
		l.silencing, l.silenced = nil, nil
		l.mu.Unlock()
		close(on)
		if err := <-answered; word.err != nil || err != nil {
			t.Fatal(word.err, err)
		}
		if s := statusOf(n, "w1"); s != rota.WorkerActive {
			t.Fatalf("answered while it is %s", s)
		}
	})
	t.Run("are not answered by a leader that is cut off", func(t *testing.T) {
		n := b.leader()
		b.isolate(n.cfg.Node)
		if a, err := n.Beats(within(t, 700*time.Millisecond),
			[]peer.Beat{{Worker: "w1", Session: h.s.Session()}}); err == nil {
			t.Fatalf("a deposed leader answered %+v", a)
		}
		b.heal(n.cfg.Node)
	})
}

// A worker is silent 8 s after its next beat was due: after 10 s, or later if it announced a longer interval, but 18 s
// at most. A leadership without a beat from it yet assumes the longest interval for a cluster of this size
// (SPEC §3.10).
func TestSilence_ofTheIdle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers int
		want    time.Duration
	}{{0, 2 * time.Second}, {400, 2 * time.Second}, {401, 2005 * time.Millisecond}, {1000, 5 * time.Second}, {2000,
		10 * time.Second}, {1_000_000, 10 * time.Second}} {
		if got := idleBeat(c.workers); got != c.want {
			t.Errorf("%d workers beat every %v, want %v", c.workers, got, c.want)
		}
	}
	unheard := (&Node{}).wire().terms.newLeadership(3, 10_000)
	unheard.workers = 2_000
	unheard.heard["another's"] = beatHeard{session: 6, clock: 30_000}
	for _, c := range []struct {
		id    rota.WorkerID
		since rota.Clock
		want  rota.Clock
	}{{"unheard", 0, 28_000}, {"unheard", 12_000, 30_000}, {"another's", 0, 28_000}} {
		if got := unheard.lastBeat(c.id, 7, c.since).silentFrom(); got != c.want {
			t.Errorf("%s, in its status since %d, is silent from %d, want %d", c.id, c.since, got, c.want)
		}
	}
	b := startBench(t, 3)
	b.loyal()
	n := b.leader()
	for _, id := range []rota.WorkerID{"w2", "w10", "w1000"} {
		newHand(t, n, id, 1)
	}
	beat := func(id rota.WorkerID, next time.Duration) peer.Beaten {
		var session rota.Session
		n.replica.Look(func(s *fsm.View) { session, _ = s.Session(id) })
		a, err := n.Beats(within(t, ample), []peer.Beat{{Worker: id, Session: session, Next: next}})
		if err != nil || len(a.Refused) > 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		return a.Beaten
	}
	if got := beat("w2", 0); got.Every != 2*time.Second {
		t.Errorf("three workers have to beat every %v", got.Every)
	}
	beat("w10", 10*time.Second)
	sign := beat("w1000", 1000*time.Second).Clock
	l := n.terms.leading()
	silentAt := func(at rota.Clock) (silent []string) {
		for _, id := range []rota.WorkerID{"w2", "w10", "w1000"} {
			l.mu.Lock()
			h := l.heard[id]
			l.mu.Unlock()
			if at > h.silentFrom() {
				silent = append(silent, string(id))
			}
		}
		return silent
	}
	for _, c := range []struct {
		after rota.Clock
		want  []string
	}{{9_000, nil}, {11_000, []string{"w2"}}, {17_000, []string{"w2"}}, {19_000, []string{"w2", "w10", "w1000"}}} {
		if got := silentAt(sign + c.after); !slices.Equal(got, c.want) {
			t.Errorf("%d ms after their beats %q are silent, want %q", c.after, got, c.want)
		}
	}
	b.pass(11_500)
	b.eventually("the first is found silent", func() bool { return statusOf(n, "w2") == rota.WorkerUnreachable })
	for _, id := range []rota.WorkerID{"w10", "w1000"} {
		if s := statusOf(n, id); s != rota.WorkerActive && clockOf(n) < sign+17_500 {
			t.Errorf("%s is %s %d ms after its beat", id, s, clockOf(n)-sign)
		}
	}
	b.pass(7_500)
	b.eventually("all are found silent", func() bool {
		return statusOf(n, "w10") == rota.WorkerUnreachable && statusOf(n, "w1000") == rota.WorkerUnreachable
	})
}

func TestSweep_aDateThatIsDueWakesAClusterAtRest(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	job := specs("dated", 1)
	job[0].NotBefore = time.Now().Add(1500 * time.Millisecond)
	submitAll(t, b.follower(), job)
	b.eventually("the cluster rests", func() bool {
		n := b.leader()
		l := n.terms.leading()
		return l != nil && !n.leaderChores.sweepNeeded(l)
	})
	b.eventually("it is QUEUED", func() bool { return jobOf(b.leader(), job[0].ID).State == rota.JobQueued })
	if early := job[0].NotBefore.UnixMilli() - time.Now().UnixMilli(); early > 100 {
		t.Errorf("it was woken %d ms early", early)
	}
}
