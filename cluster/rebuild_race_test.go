package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// snapshotGate is a node's log output that blocks the end of writing a snapshot while it is locked.
type snapshotGate struct{ sync.Mutex }

func (*snapshotGate) Enabled(context.Context, slog.Level) bool { return true }
func (g *snapshotGate) WithAttrs([]slog.Attr) slog.Handler     { return g }
func (g *snapshotGate) WithGroup(string) slog.Handler          { return g }

func (g *snapshotGate) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "snapshot written" {
		g.Lock()
		defer g.Unlock()
	}
	return nil
}

// startAgreed starts three busy nodes, and returns a follower that agrees with the others.
func startAgreed(t *testing.T) (b *bench, f *Node) {
	t.Helper()
	b = newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Log = slog.New(&snapshotGate{})
		b.addrs[id] = c
	}
	b.startPlanned()
	submitAll(t, b.leader(), specs("before", 50))
	f = b.follower()
	b.busy()
	b.eventually("the follower agrees with the others", func() bool { return agreed(f) })
	return b, f
}

// TestRebuild_wrongAgainWhileOneEnds: a state goes wrong again before the disk is scoured of the first: the end of one
// rebuild must not hide the beginning of the next.
func TestRebuild_wrongAgainWhileOneEnds(t *testing.T) {
	t.Parallel()
	b, f := startAgreed(t)
	gate := f.cfg.Log.Handler().(*snapshotGate)
	gate.Lock() // writing the snapshot of the rebuilt state takes a while
	b.corrupt(f, "ghost1")
	b.eventually("it notices", func() bool { return f.data.Rebuild().Open })
	b.eventually("it has a state again", func() bool { return !f.replica.Dropped.Load() })
	b.corrupt(f, "ghost2")
	b.eventually("it notices again", func() bool { return f.replica.Dropped.Load() && f.data.Rebuild().Again == 1 })
	gate.Unlock()
	b.eventually("it has rebuilt", func() bool { return f.Ready() == nil && !f.data.Rebuild().Open && rebuilt(f) > 0 })
	b.verifyEqual(f)
}

// TestRebuild_readsInProgress drops the state during reads: none reports that the requested object does not exist.
func TestRebuild_readsInProgress(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 50))
	f := b.follower()
	if _, _, err := f.Job(within(t, ample), "before-00000", peer.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	var lies atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	lie := func(is bool) {
		if is {
			lies.Add(1)
		}
	}
	for range 6 {
		all.Go(func() {
			stale, own := peer.ReadOptions{Stale: true}, peer.ReadOptions{MinIndex: 1}
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				_, _, err := f.Job(ctx, "before-00000", stale)
				lie(rota.KindOf(err) == rota.KindNotFound)
				page, _, err := f.Jobs(ctx, rota.JobFilter{}, own)
				lie(err == nil && len(page.Jobs) == 0)
				queues, _, err := f.Queues(ctx, stale)
				lie(err == nil && len(queues) == 0)
				cancel()
			}
		})
	}
	for range 10 {
		f.replica.Drop()
		if err := f.data.SetRebuild(raftstore.RebuildRecord{Open: true}); err != nil {
			t.Fatal(err)
		}
		f.rebuild.Resume()
		b.eventually("it is back", func() bool { return !f.replica.Dropped.Load() && !f.data.Rebuild().Open })
	}
	close(stop)
	all.Wait()
	if k := lies.Load(); k > 0 {
		t.Errorf("%d reads were answered without a state", k)
	}
}

// TestRebuild_readingIsRefusedWithoutAState: every read past its first check finds the state gone.
func TestRebuild_readingIsRefusedWithoutAState(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("before", 1))
	n.replica.Drop()
	ctx := within(t, ample)
	_, _, job := n.archive.Job(ctx, "before-00000")
	_, jobs := n.archive.List(ctx, rota.JobFilter{}, 1, true, nil)
	_, _, flow := n.workflowVerbs.WorkflowHere("flow1")
	_, spec := n.jobVerbs.RetryOf(ctx, rota.JobRetry{ID: "before-00000", Life: rota.AnyLife})
	_, parents := n.workflowVerbs.ParentsOf(ctx, "flow1/a")
	_, slice := n.ArchiveRange(ctx, peer.ArchiveSpan{From: 1, To: 2}, 1000)
	_, records := n.ArchiveRecords(ctx, []rota.JobID{"before-00000"})
	_, events := n.EventRange(ctx, peer.EventRange{})
	_, page := n.ListArchived(ctx, rota.JobFilter{}, 1)
	_, check := n.CheckAt(ctx, 1)
	_, frozen := n.replica.FreezeWhole()
	for i, err := range []error{job, jobs, flow, spec, parents, slice, records, events, page, check, frozen,
		n.Introduce(peer.Introduction{Node: "n9"}), n.terms.lift(n.terms.newLeadership(1, 0))} {
		if rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n.terms.leading() != nil {
		t.Error("it leads without a state")
	}
	shipped := n.transport.InstallSnapshot("n9", "127.0.0.1:1", &raft.InstallSnapshotRequest{},
		&raft.InstallSnapshotResponse{}, bytes.NewReader(nil))
	if !errors.Is(shipped, stream.ErrMute) {
		t.Errorf("it ships snapshots: %v", shipped)
	}
}

// TestRebuild_noBackupOfNothing: the state is dropped while a backup waits.
func TestRebuild_noBackupOfNothing(t *testing.T) {
	t.Parallel()
	b, f := startAgreed(t)
	b.keep(b.starved, f, true)
	hang, err := f.historyFile.DB.Begin(true) // the disk hangs
	if err != nil {
		t.Fatal(err)
	}
	endAll(t, b.leader(), specs("held", 1))
	b.eventually("an ended job waits for the disk", func() bool { return f.ArchiveStatus().Staged > 0 })
	var out bytes.Buffer
	done := make(chan error, 1)
	begun := f.replica.Applied.Load()
	go func() { done <- f.SaveSnapshot(within(t, ample), peer.ReadOptions{}, &out) }()
	b.eventually("the backup has begun", func() bool { return f.replica.Applied.Load() > begun+10 })
	b.corrupt(f, "ghost")
	b.eventually("it notices", func() bool { return f.replica.Dropped.Load() })
	if err := hang.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; rota.KindOf(err) != rota.KindUnavailable || out.Len() != 0 {
		t.Errorf("a backup of %d bytes: %v", out.Len(), err)
	}
	b.keep(b.starved, f, false)
}

// forgetful makes all nodes forget their digests once the beginning of a state was sent.
type forgetful struct {
	w      io.Writer
	sent   int
	forget func()
}

func (x *forgetful) Write(p []byte) (int, error) {
	// A little at a time: the reader has consumed one piece when it requests the next.
	for done := 0; done < len(p); {
		k, err := x.w.Write(p[done:min(done+512, len(p))])
		done, x.sent = done+k, x.sent+k
		if err != nil {
			return done, err
		}
		if x.sent > 64<<10 {
			x.forget()
		}
	}
	return len(p), nil
}

// TestRebuild_aFetchOutlastsDigests: the others forget the digest of the fetched state before all of it has arrived, as
// they do with a large one.
func TestRebuild_aFetchOutlastsDigests(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	many := specs("before", 400)
	for i := range many { // incompressible, so that the state is larger than any buffer
		many[i].Payload = noise(2000, uint64(i))
	}
	submitAll(t, b.leader(), many)
	f := b.follower()
	b.busy()
	b.eventually("the follower agrees with the others", func() bool { return agreed(f) })
	var forgot atomic.Bool
	b.mu.Lock()
	b.sending = func(w io.Writer) io.Writer {
		return &forgetful{w: w, forget: func() {
			forgot.Store(true)
			for _, id := range b.ids() {
				b.node(id).replica.Digests.Clear()
			}
		}}
	}
	b.mu.Unlock()
	b.corrupt(f, "ghost")
	b.eventually("it has rebuilt", func() bool { return rebuilt(f) == 1 && f.Ready() == nil })
	if !forgot.Load() {
		t.Error("the state is too small to prove anything")
	}
	b.verifyEqual(f)
}

// noise returns incompressible bytes.
func noise(size int, seed uint64) []byte {
	data := make([]byte, size)
	for i := range data {
		seed = seed*6364136223846793005 + 1442695040888963407
		data[i] = byte(seed >> 56)
	}
	return data
}

// gatedReader blocks until it is released.
type gatedReader struct {
	io.Reader
	gate, asked chan struct{}
	once        sync.Once
}

func (g *gatedReader) Read(p []byte) (int, error) {
	g.once.Do(func() { close(g.asked); <-g.gate })
	return g.Reader.Read(p)
}

func (g *gatedReader) Close() error { return nil }

// stateOf returns a node's state as it would send it.
func stateOf(t *testing.T, n *Node) (data []byte, at rota.Index) {
	t.Helper()
	var out bytes.Buffer
	if err := n.SaveState(within(t, ample), &out); err != nil {
		t.Fatal(err)
	}
	info, err := snapshot.Inspect(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), info.Index
}

// TestRebuild_givesWayToASnapshot: raft installs a snapshot just when an older state is about to be put in place, and
// vice versa.
func TestRebuild_givesWayToASnapshot(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower()
	submitAll(t, b.leader(), specs("before", 50))
	older, at := stateOf(t, f)
	b.isolate(f.cfg.Node)
	submitAll(t, b.leader(), specs("lost", 50))
	newer, to := stateOf(t, b.leader())
	install := func(meanwhile func()) {
		t.Helper()
		g := &gatedReader{Reader: bytes.NewReader(newer), gate: make(chan struct{}), asked: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- adapter{f}.Restore(g) }()
		<-g.asked
		meanwhile()
		close(g.gate)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.replica.Mu.RLock()
		defer f.replica.Mu.RUnlock()
		if head := f.replica.Machine.Head().Index; !f.replica.Dropped.Load() || f.replica.Passed != to || head != 0 {
			t.Errorf("raft received %d, passed is %d; the state is that of %d", to, f.replica.Passed, head)
		}
	}
	// It is dropped while the snapshot is read.
	install(f.replica.Drop)
	f.replica.Mu.Lock()
	f.replica.Passed = at
	f.replica.Mu.Unlock()
	// The older state arrives while the snapshot is passed.
	m, _, err := snapshot.Read(bytes.NewReader(older), func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine],
		error) {
		return fsm.NewLoaderKnowing(info, f.cfg.knows)
	})
	if err != nil {
		t.Fatal(err)
	}
	install(func() {
		if f.replica.Install(m, func(rota.Index) error { return nil }) {
			t.Error("an older state replaced the snapshot")
		}
	})
	if err := f.data.SetRebuild(raftstore.RebuildRecord{Open: true}); err != nil {
		t.Fatal(err)
	}
}

// TestRebuild_appliesWhatFollowsOnly ends a node rather than applying an entry to a state that is not the previous one.
func TestRebuild_appliesWhatFollowsOnly(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.fatal = true
	submitAll(t, b.leader(), specs("before", 5))
	f := b.follower()
	b.isolate(f.cfg.Node)
	f.replica.Mu.Lock()
	head := f.replica.Machine.Head().Index
	if f.replica.Passed != head || f.replica.FollowsPassed(head+2) != nil || f.replica.FollowsPassed(head) == nil ||
		f.replica.FollowsPassed(head-1) == nil {
		t.Errorf("at %d, passed %d", head, f.replica.Passed)
	}
	f.replica.Passed += 3 // delivered but not applied
	f.replica.Mu.Unlock()
	if err, ok := (adapter{f}).Apply(&raft.Log{Index: uint64(head) + 4}).(error); !ok ||
		rota.KindOf(err) != rota.KindInternal {
		t.Errorf("applied: %v", err)
	}
	if f.fatalErr.Load() == nil {
		t.Error("the node continues")
	}
}
