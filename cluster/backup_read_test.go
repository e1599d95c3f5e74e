package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// firstByte is the destination of a backup: it calls first before it accepts any data.
type firstByte struct {
	bytes.Buffer
	first func()
}

func (f *firstByte) Write(p []byte) (int, error) {
	if f.Len() == 0 {
		f.first()
	}
	return f.Buffer.Write(p)
}

// snapshotReads returns a node's events about reads of its state.
func snapshotReads(t *testing.T, n *Node) []rota.ServedEvent {
	t.Helper()
	return tail(t, n, rota.EventFilter{Kinds: []rota.EventKind{rota.EventSnapshotRead}})
}

// TestSnapshotRead: before the first byte of a node's state is sent, an event names the reader and the index; a caller
// without the right gets nothing. A snapshot that the node takes for itself is not a read, but a backup that a caller
// requests from the leader is one.
func TestSnapshotRead(t *testing.T) {
	t.Parallel()
	b, to := newBench(t), t.TempDir()
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Backup.To, c.BackupEvery = to, 24*time.Hour
		b.addrs[id] = c
	}
	b.startPlanned()
	leader := b.loyal()
	caller := called(within(t, ample), rota.Anonymous)
	for i, n := range []*Node{leader, b.follower()} {
		for j, how := range []peer.ReadOptions{{}, {Stale: true}} {
			what := fmt.Sprintf("of %s, stale: %v", n.cfg.Node, how.Stale)
			var told []rota.ServedEvent
			saved := &firstByte{first: func() { told = snapshotReads(t, leader) }}
			if err := n.SaveSnapshot(caller, how, saved); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			info, err := snapshot.Inspect(&saved.Buffer)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if len(told) != 2*i+j+1 {
				t.Fatalf("%s: before the first byte %d reads are recorded: %+v", what, len(told), told)
			}
			e, want := told[2*i+j], fmt.Sprintf(`{"node":%q,"index":%d}`, n.cfg.Node, info.Index)
			if e.Actor != rota.Anonymous || e.Via != "test" || e.Request != "r" || e.Payload != want {
				t.Errorf("%s: the event is %+v, want the payload %s", what, e, want)
			}
		}
	}

	_, holder := withReader(t, leader)
	for _, how := range []peer.ReadOptions{{}, {Stale: true}} {
		var saved countingWriter
		if err := leader.SaveSnapshot(holder, how, &saved); rota.KindOf(err) != rota.KindDenied || saved > 0 {
			t.Errorf("without the right, stale: %v: %d bytes, %v", how.Stale, saved, err)
		}
	}
	if err := leader.SaveSnapshot(within(t, ample), peer.ReadOptions{}, new(countingWriter)); err != nil {
		t.Error(err)
	}
	if told := snapshotReads(t, leader); len(told) != 4 {
		t.Errorf("%d reads are recorded: %+v", len(told), told)
	}
	if _, err := leader.StoreBackup(caller); err != nil {
		t.Fatal(err)
	}
	told := tail(t, leader, rota.EventFilter{Kinds: []rota.EventKind{rota.EventSnapshotRead, rota.EventBackupStored}})
	if n := len(told); n < 2 || told[n-1].Kind != rota.EventBackupStored || told[n-1].Actor != "" ||
		told[n-2].Kind != rota.EventSnapshotRead ||
		told[n-2].Actor != rota.Anonymous {
		t.Errorf("a requested backup is recorded as %+v", told)
	}
}

// TestSnapshotRead_withoutALeader: without a leader, a stale backup of the node's state still works, and the node's own
// log names the reader before the first byte. A backup that must be current fails.
func TestSnapshotRead_withoutALeader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	said := map[rota.NodeID]*lockedBuffer{"n1": {}, "n2": {}, "n3": {}}
	for id, log := range said {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		b.addrs[id] = c
	}
	b.startPlanned()
	leader := b.loyal()
	cut := b.follower()
	log := said[cut.cfg.Node]
	b.isolate(cut.cfg.Node)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(called(t.Context(), rota.Local), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	save := func(what string, request string) {
		t.Helper()
		ctx := context.WithValue(short(), access.CallerKey{},
			access.Caller{Actor: rota.Local, Via: "n/socket", Request: request})
		want := fmt.Sprintf("actor=local via=n/socket request_id=%s index=%d", request, cut.replica.Applied.Load())
		saved := &firstByte{first: func() {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: before the first byte its log does not say %s:\n%s", what, want, log.String())
			}
		}}
		if err := cut.SaveSnapshot(ctx, peer.ReadOptions{Stale: true}, saved); err != nil || saved.Len() == 0 {
			t.Errorf("%s: %d bytes, %v", what, saved.Len(), err)
		}
	}
	save("while it takes another for the leader", "r1")
	b.waits(cut, leaderPatience)
	b.eventually("it knows that there is no leader", func() bool { _, id := cut.raft.LeaderWithID(); return id == "" })
	save("without a leader", "r2")
	var none countingWriter
	if err := cut.SaveSnapshot(short(), peer.ReadOptions{}, &none); rota.KindOf(err) != rota.KindUnavailable ||
		none > 0 {
		t.Errorf("as the cluster's: %d bytes, %v", none, err)
	}
	if told := snapshotReads(t, leader); len(told) > 0 {
		t.Errorf("the cluster recorded %+v", told)
	}
}
