package cluster

import (
	"bytes"
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// filesOf returns the files of a stopped node's data directory, by name.
func (b *bench) filesOf(id rota.NodeID) map[string][]byte {
	b.t.Helper()
	files := make(map[string][]byte)
	dir := b.addrs[id].Data
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return files
}

// rewind restores files in place, like a snapshot of the disk: existing files keep their inode, newer ones are removed.
func (b *bench) rewind(id rota.NodeID, files map[string][]byte) {
	b.t.Helper()
	for path := range b.filesOf(id) {
		if files[path] == nil {
			if err := os.Remove(path); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	for path, data := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// gossips returns the gossip addresses of all nodes but one.
func (b *bench) gossips(but rota.NodeID) (addrs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, cfg := range b.addrs {
		if id != but {
			addrs = append(addrs, cfg.Gossip)
		}
	}
	return addrs
}

// alter changes the configuration of a node's next start.
func (b *bench) alter(id rota.NodeID, change func(*Config)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.addrs[id]
	change(&c)
	b.addrs[id] = c
}

// copied stops a node, copies its disk, and starts it again.
func (b *bench) copied(id rota.NodeID) map[string][]byte {
	b.t.Helper()
	b.complete(id)
	b.stop(id)
	files := b.filesOf(id)
	b.start(id)
	b.awaitReady(id)
	return files
}

// recordsOf returns the whole archive of a node, record by record.
func recordsOf(t *testing.T, n *Node) []peer.ArchiveRecord {
	t.Helper()
	slice, err := n.historyFile.Jobs.Range(1, math.MaxUint64>>1, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return slice.Records
}

// wantSameRecords compares the archives of all nodes, record by record.
func (b *bench) wantSameRecords(want int) {
	b.t.Helper()
	var first []peer.ArchiveRecord
	for i, id := range b.ids() {
		b.complete(id)
		got := recordsOf(b.t, b.node(id))
		if i == 0 {
			first = got
		}
		if len(got) != want || !slices.EqualFunc(got, first,
			func(x, y peer.ArchiveRecord) bool { return x.Seq == y.Seq && bytes.Equal(x.Data, y.Data) }) {
			b.t.Errorf("node %s: got %d records, want %d, the same on every node", id, len(got), want)
		}
	}
}

// wantAlarm requires every node to report that a node had applied entries that were replaced.
func (b *bench) wantAlarm(id rota.NodeID) {
	b.t.Helper()
	for _, reader := range b.ids() {
		b.eventually(string(reader)+" reports that entries were replaced", func() bool {
			s := b.node(reader).clusterVerbs.ownStatus()
			return strings.Contains(strings.Join(s.Problems, "\n"), "node "+string(id)+" had applied entries ")
		})
	}
}

// TestRewound_installed: a node is sent a snapshot because the leader has cut its log. No log is cut here, but the
// archive still belongs to a different past.
func TestRewound_installed(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	a := b.leader().cfg.Node
	var others []rota.NodeID
	for _, id := range b.ids() {
		if id != a {
			others = append(others, id)
		}
	}
	endAll(t, b.leader(), specs("kept", 40))
	disk := b.copied(others[0])
	b.leads(a)
	b.stop(others[1])
	endAll(t, b.leader(), specs("lost", 20))
	b.complete(a)
	b.node(a).events.Flush()
	has := b.node(a).raft.LastIndex()
	b.stop(others[0])
	b.stop(a)
	b.rewind(others[0], disk)
	b.startAll(others)
	endAll(t, b.leader(), specs("new", 120))
	b.eventually("the log that the other node has is cut", func() bool {
		n := b.leader()
		// A snapshot follows only after entries, and the log reaches back to the previous one: without more of them
		// this may not happen.
		if _, _, err := n.proposer.proposeOne(within(t, ample), replica.BarrierOp()); err != nil {
			t.Fatal(err)
		}
		first, err := n.stores.Log.FirstIndex()
		return err == nil && first > has
	})
	b.start(a)
	b.awaitReady(a)
	b.wantAlarm(a)
	b.eventually("its doubt is settled", func() bool { return b.node(a).data.Cut().From != 0 })
	b.wantSameRecords(160)
	b.verifyEqual(b.node(a))
}

// leads makes a node the leader.
func (b *bench) leads(id rota.NodeID) {
	b.t.Helper()
	b.eventually(string(id)+" leads", func() bool {
		n := b.leader()
		if n.cfg.Node == id {
			return true
		}
		_, _ = n.TransferLeadership(within(b.t, ample), id)
		return false
	})
}

// rewound makes one of two nodes that acknowledged jobs forget them, and has the third elect it: apart takes the node
// that still has them away meanwhile, and back brings it back.
func rewound(t *testing.T, apart, back func(b *bench, id rota.NodeID)) {
	b := startBench(t, 3)
	old := b.leader()
	a := old.cfg.Node
	var others []rota.NodeID
	for _, id := range b.ids() {
		if id != a {
			others = append(others, id)
		}
	}
	forgets, lags := others[0], others[1]
	endAll(t, old, specs("kept", 40))
	disk := b.copied(forgets)
	b.complete(a)
	b.stop(lags)
	endAll(t, b.leader(), specs("lost", 60))
	b.complete(a)
	if records := recordsOf(t, old); len(records) != 100 {
		t.Fatalf("%d records before", len(records))
	}
	old.events.Flush()
	b.stop(forgets)
	apart(b, a)
	b.rewind(forgets, disk)
	b.startAll(others)
	for _, id := range others {
		b.awaitReady(id)
	}
	endAll(t, b.node(forgets), specs("new", 10))
	back(b, a)
	b.eventually("it has rebuilt its state", func() bool {
		n := b.node(a)
		return n != nil && rebuilt(n) == 1 && n.Ready() == nil
	})
	b.wantAlarm(a)
	b.wantSameRecords(50)
	b.verifyEqual(b.node(a))
	b.toldOnce(a)
	for _, id := range b.ids() {
		n := b.node(id)
		if _, _, err := n.Job(within(t, ample), "lost-00003",
			peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("node %s shows a job that the cluster has lost: %v", id, err)
		}
		b.eventually(string(id)+" has whole events", func() bool {
			n.events.Flush()
			from, to := n.historyFile.Events.Missing(0, n.replica.Head().Events)
			return from == to
		})
		if faults := n.events.Verify(n.replica.Head(), n.events.Held()); len(faults) > 0 {
			t.Errorf("node %s: %v", id, faults)
		}
	}
}

// TestRewound_restarted: a node that applied entries which the cluster lost restarts, and meets a leader without them.
func TestRewound_restarted(t *testing.T) {
	t.Parallel()
	rewound(t, func(b *bench, id rota.NodeID) { b.stop(id) }, func(b *bench, id rota.NodeID) { b.start(id) })
}

// TestRewound_running is the same for a node that was only disconnected, and has the state in memory.
func TestRewound_running(t *testing.T) {
	t.Parallel()
	rewound(t, (*bench).isolate, (*bench).heal)
}

// TestRewound_snapshot is TestRewound_restarted for a node whose newest snapshot is of the lost time.
func TestRewound_snapshot(t *testing.T) {
	t.Parallel()
	rewound(t, func(b *bench, id rota.NodeID) {
		if _, err := b.node(id).writeSnapshot(); err != nil {
			b.t.Fatal(err)
		}
		b.stop(id)
	}, func(b *bench, id rota.NodeID) { b.start(id) })
}

// TestMarks_refuse: a disk that went back in time is rejected at the start: by a node that it acknowledged entries to,
// by a mark on another disk, and, if only the log went back, by the files next to it.
func TestMarks_refuse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
	}
	b.startPlanned()
	f := b.follower().cfg.Node
	others := b.gossips(f)
	b.alter(f, func(c *Config) { c.Join = others })
	disk := b.copied(f)
	leader := b.leader().cfg.Node
	endAll(t, b.node(leader), specs("later", 60))
	b.complete(f)
	b.node(f).events.Flush()
	b.stop(f)
	now := b.filesOf(f)
	refused := func(by string) {
		t.Helper()
		_, err := b.tryStart(f)
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(),
			" is behind what node "+string(f)+" acknowledged") || !strings.Contains(err.Error(), by) {
			t.Errorf("it starts on a disk that went back in time, by %s: %v", by, err)
		}
	}
	// The leader does not answer the first time. The other one's agreement is not enough.
	var slow atomic.Bool
	slow.Store(true)
	b.introduced = func(to rota.NodeID) (bool, error) {
		if to != leader {
			return false, nil
		}
		return !slow.Swap(false), &rota.Error{Kind: rota.KindUnavailable, Text: "not now"}
	}
	b.rewind(f, disk)
	refused("as node " + string(leader))

	// Only the log went back: its own marks and its archive are newer, so no other node is needed.
	b.mu.Lock()
	b.cut[f] = true
	b.mu.Unlock()
	ofLog := func(path string) bool {
		return filepath.Base(path) == "raft.db" || filepath.Dir(path) == filepath.Join(b.addrs[f].Data, "log")
	}
	mixed := func(without string) map[string][]byte {
		files := make(map[string][]byte)
		for path, data := range now {
			if filepath.Base(path) != without && !ofLog(path) {
				files[path] = data
			}
		}
		for path, data := range disk {
			if ofLog(path) {
				files[path] = data
			}
		}
		return files
	}
	b.rewind(f, mixed("archive.db"))
	refused("according to " + filepath.Join(b.addrs[f].Data, raftstore.MarkFile))
	b.rewind(f, mixed(raftstore.MarkFile))
	refused("according to its own archive.db")

	// Everything went back, except for a mark on another disk.
	mark := filepath.Join(t.TempDir(), "mark")
	if err := os.WriteFile(mark, now[filepath.Join(b.addrs[f].Data, raftstore.MarkFile)], 0o600); err != nil {
		t.Fatal(err)
	}
	b.alter(f, func(c *Config) { c.MarkFile = mark })
	b.rewind(f, disk)
	refused("according to " + mark)
	b.rewind(f, now)
	b.heal(f)
	b.start(f)
	b.awaitReady(f)
}

// lateGossip shows no other member at first, then only those for which visible is true.
type lateGossip struct {
	gossip.Discovery
	looks   atomic.Int32
	visible func(rota.NodeID) bool
}

func (g *lateGossip) Members() []gossip.Member {
	first := g.looks.Add(1) < 5
	return slices.DeleteFunc(g.Discovery.Members(), func(m gossip.Member) bool { return first || !g.visible(m.ID) })
}

// TestMarks_heardLate starts a node without --join on a disk that went back in time. It learns of a node that agrees
// before it learns of the leader, which rejects it.
func TestMarks_heardLate(t *testing.T) {
	t.Parallel()
	for name, joined := range map[string]bool{"founder": false, "joined later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBench(t, 3)
			f := b.follower().cfg.Node
			if joined {
				f = "n4"
				b.plan(f, 0)
				b.start(f)
				b.awaitReady(f)
			}
			disk := b.copied(f)
			leader := b.leader().cfg.Node
			endAll(t, b.node(leader), specs("later", 60))
			b.complete(f)
			b.stop(f)
			b.rewind(f, disk)
			var asked atomic.Bool
			b.introduced = func(to rota.NodeID) (bool, error) {
				if to != leader {
					asked.Store(true)
				}
				return to == leader, nil
			}
			others := b.gossips(f)
			b.alter(f, func(c *Config) {
				c.Join = nil
				c.Environment.Discover = func(o gossip.Options) (gossip.Discovery, error) {
					o.Join = others
					g, err := discoverGossip(o)
					if err != nil {
						return nil, err
					}
					return &lateGossip{Discovery: g, visible: func(id rota.NodeID) bool {
						return id != leader || asked.Load()
					}}, nil
				}
			})
			if _, err := b.tryStart(f); rota.KindOf(err) != rota.KindConflict ||
				!strings.Contains(err.Error(), "as node "+string(leader)) {
				t.Errorf("it starts, or is refused with %v", err)
			}
		})
	}
}

// TestMarks_alarm: a node that started on an older disk while no other answered is named by those that know better.
func TestMarks_alarm(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower().cfg.Node
	disk := b.copied(f)
	endAll(t, b.leader(), specs("later", 60))
	b.complete(f)
	b.stop(f)
	b.rewind(f, disk)
	b.isolate(f)
	n := b.start(f)
	if n == nil {
		return
	}
	b.mu.Lock()
	delete(b.cut, f) // only calls: raft would bring it up to date before it is asked
	b.mu.Unlock()
	b.eventually("the leader reports so", func() bool {
		return strings.Contains(strings.Join(b.leader().clusterVerbs.ownStatus().Problems, "\n"),
			"the disk of node "+string(f)+" went back in time")
	})
	b.heal(f)
}

// TestCompare_replacesADifferingRecord: a record that is whole but differs from the others' is replaced.
func TestCompare_replacesADifferingRecord(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	endAll(t, b.leader(), specs("j", 30))
	for _, id := range b.ids() {
		b.complete(id)
	}
	f := b.follower()
	right := recordsOf(t, f)
	e, err := fsm.DecodeEnded(right[7].Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range right { // another record of the same length, of the same job
		if r.Seq == e.Seq {
			wrong := bytes.Replace(r.Data, []byte("payload"), []byte("PAYLOAD"), 1)
			if bytes.Equal(wrong, r.Data) {
				t.Fatal("the record does not contain the payload in clear")
			}
			if err := f.historyFile.Jobs.Drop([]uint64{r.Seq}); err != nil {
				t.Fatal(err)
			}
			if err := f.historyFile.Jobs.Put([]peer.ArchiveRecord{{Seq: r.Seq, Data: wrong}},
				archive.Spans{{From: r.Seq, To: r.Seq}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.scrub.Pass()
	if got := damages(f, "archive"); got != 1 {
		t.Errorf("%d records were found to differ, want 1", got)
	}
	if p := f.scrub.Problems(); len(p) != 0 {
		t.Error(p)
	}
	b.wantSameRecords(30)
	for _, id := range b.ids() {
		n := b.node(id)
		if n.scrub.Pass(); damages(n, "archive") > 1 {
			t.Errorf("node %s replaced a correct record", id)
		}
	}
	// Bounds on another node's requests.
	for _, span := range []peer.ArchiveSpan{{}, {From: 2, To: 1}, {From: 1, To: 1_001}} {
		if _, _, err := f.ArchiveSums(context.Background(), span, nil); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%+v: %v", span, err)
		}
	}
}
