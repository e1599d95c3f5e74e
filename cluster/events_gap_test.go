package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// onDisk writes a node's events and lets go of those in memory; it gives the key
// of the newest chunk.
func onDisk(t *testing.T, n *Node) (key []byte) {
	t.Helper()
	n.eventFeed.flush()
	n.eventFeed.events.mu.Lock()
	n.eventFeed.events.ring, n.eventFeed.events.bytes = nil, 0
	n.eventFeed.events.mu.Unlock()
	n.eventFeed.events.batches.clear()
	if err := n.archiveDB.View(func(tx *bbolt.Tx) error {
		last, _ := tx.Bucket([]byte("events.1")).Cursor().Last()
		key = bytes.Clone(last)
		return nil
	}); err != nil || key == nil {
		t.Fatal("no events are on disk", err)
	}
	return key
}

// flip damages a chunk of events, or mends it again.
func flip(t *testing.T, n *Node, key []byte) {
	t.Helper()
	if err := n.archiveDB.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("events.1"))
		bad := bytes.Clone(b.Get(key))
		bad[len(bad)-1] ^= 1
		return b.Put(key, bad)
	}); err != nil {
		t.Fatal(err)
	}
	n.eventFeed.events.batches.clear()
}

// TestEvents_damagedOnDisk has the disk spoil events that no other node has: those
// who follow from the beginning are told what is left, and let go when they want.
func TestEvents_damagedOnDisk(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 30))
	flip(t, n, onDisk(t, n))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := n.Events(ctx, rota.EventFilter{Follow: true}, func(peer.EventBatch) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	submitAll(t, n, specs("b", 30))
	got := tail(t, n, rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobEnqueued}})
	inLine(t, got)
	if len(got) == 0 || !strings.HasPrefix(string(got[len(got)-1].Job), "b-") {
		t.Fatalf("%d events are told", len(got))
	}
	if v, err := n.Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("what was spoilt and given up is still a fault: %+v, %v", v, err)
	}
}

// TestEvents_aDamagedChunkIsFetchedAgain has the disk of one node of three spoil
// events: nobody is told less, and the node mends itself.
func TestEvents_aDamagedChunkIsFetchedAgain(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("a", 30))
	n := b.follower()
	want := tail(t, n, rota.EventFilter{})
	flip(t, n, onDisk(t, n))
	if got := tail(t, n, rota.EventFilter{After: want[4].ID}); ids(got[:len(want)-5]) != ids(want[5:]) {
		t.Errorf("%d events are told after one on the damaged chunk, %d are wanted", len(got), len(want)-5)
	}
	if got := tail(t, n, rota.EventFilter{}); ids(got[:len(want)]) != ids(want) {
		t.Errorf("%d events are told, %d are wanted", len(got), len(want))
	}
	n.eventFeed.fillEvents()
	if entries, err := n.eventFeed.events.store.Read(0); err != nil || len(entries) == 0 {
		t.Errorf("the disk has %d entries, %v", len(entries), err)
	}
}

// TestEvents_aHoleThatNoNodeFills has events between others lost everywhere: they
// are told from behind the hole, and who stands before it learns where to go on.
func TestEvents_aHoleThatNoNodeFills(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 30))
	first := tail(t, n, rota.EventFilter{})
	before := onDisk(t, n)
	flip(t, n, before) // so that what follows makes a chunk of its own
	submitAll(t, n, specs("b", 30))
	lost := onDisk(t, n)
	flip(t, n, lost)
	submitAll(t, n, specs("c", 30))
	onDisk(t, n)
	flip(t, n, before)
	if err := n.eventFeed.events.store.Drop(uint64(len(first)) + 1); err != nil {
		t.Fatal(err)
	}
	n.eventFeed.fillEvents()
	got := tail(t, n, rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobEnqueued}})
	if len(got) != 30 || !strings.HasPrefix(string(got[0].Job), "c-") {
		t.Fatalf("%d events are told, from %v on", len(got), got)
	}
	err := n.Events(within(t, ample), rota.EventFilter{After: first[3].ID, Follow: true},
		func(peer.EventBatch) error { return nil })
	if rota.KindOf(err) != rota.KindOutOfRange || !strings.Contains(err.Error(), "the oldest is ") {
		t.Errorf("who stands before the hole: %v", err)
	}
}

// TestEvents_aNodeThatIsNotKnownYetMayHaveThem asks while one member was never seen
// in gossip, as after a restart: nothing is given up for lost.
func TestEvents_aNodeThatIsNotKnownYetMayHaveThem(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 3))
	if err := n.settled(n.raft.AddNonvoter("ghost", raft.ServerAddress(freeAddr(t)), 0, raftTimeout)); err != nil {
		t.Fatal(err)
	}
	_, err := n.eventFeed.fetchEvents(within(t, ample), peer.EventRange{From: 1 << 40})
	if rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("one node was not asked: %v", err)
	}
	if oldest, sure := n.eventFeed.oldestKept(0); oldest != 0 || !sure {
		t.Errorf("the oldest is %d, %v: it is here", oldest, sure)
	}
}

// TestEvents_ofAnotherClusterAreRefused puts the archive of a cluster where no job
// ever ended under another one's node: its events are no history of this one.
func TestEvents_ofAnotherClusterAreRefused(t *testing.T) {
	t.Parallel()
	var archives [2]string
	var benches [2]*bench
	for i := range benches {
		b := startBench(t, 1)
		submitAll(t, b.leader(), specs(fmt.Sprint("c", i), 3))
		b.leader().eventFeed.flush()
		b.stop("n1")
		benches[i], archives[i] = b, filepath.Join(b.addrs["n1"].Data, archive.FileName)
	}
	data, err := os.ReadFile(archives[0])
	if err := errors.Join(err, os.WriteFile(archives[1], data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := benches[1].tryStart("n1"); rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "history of cluster") {
		t.Fatalf("started with the events of another cluster: %v", err)
	}
}

// TestEvents_aFilterThatSelectsLittle follows one kind of event that seldom happens
// while all others are forgotten: the consumer learns how far was looked, and
// resumes from there though nothing was told.
func TestEvents_aFilterThatSelectsLittle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 1)
	c := b.addrs["n1"]
	c.EventsRetained = 100
	b.addrs["n1"] = c
	b.startPlanned()
	n := b.leader()
	filter := rota.EventFilter{Follow: true, Kinds: []rota.EventKind{rota.EventWorkerHeld}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	scanned, done := make(chan rota.EventID, 1_000), make(chan error, 1)
	go func() {
		done <- n.Events(ctx, filter, func(batch peer.EventBatch) error {
			if len(batch.Events) > 0 {
				t.Errorf("%d events are selected", len(batch.Events))
			}
			scanned <- batch.Scanned
			return nil
		})
	}()
	for i := range 5 {
		submitAll(t, n, specs(fmt.Sprint("j", i), 100))
		n.eventFeed.flush()
	}
	all := tail(t, n, rota.EventFilter{})
	for last := all[len(all)-1].ID; filter.After != last; {
		select {
		case id := <-scanned:
			if id.Compare(filter.After) <= 0 {
				t.Fatalf("%s follows %s", id, filter.After)
			}
			filter.After = id
		case <-time.After(20 * time.Second):
			t.Fatalf("looked up to %s only, %s is the last", filter.After, last)
		}
	}
	cancel()
	<-done
	filter.Follow = false
	if got := tail(t, n, filter); len(got) != 0 {
		t.Errorf("%d events are told", len(got))
	}
}

// TestEvents_aNodeThatLagsDoesNotSpeakOfThem asks a node for what it has not applied:
// taken for one that has nothing there, it made others refuse an event that was told.
func TestEvents_aNodeThatLagsDoesNotSpeakOfThem(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 3))
	state := n.eventFeed.events.state()
	for _, r := range []peer.EventRange{{At: state.index + 1_000}, {From: state.total + 1_000}} {
		if chunk, err := n.EventRange(within(t, ample), r); rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("%+v: %d bytes, %v", r, len(chunk.Data), err)
		}
	}
	if chunk, err := n.EventRange(within(t, ample), peer.EventRange{At: state.index}); err != nil || len(chunk.Data) == 0 {
		t.Errorf("the newest entry: %d bytes, %v", len(chunk.Data), err)
	}
}

// TestEvents_anIDInAGap follows from an event that this node lost and the others have,
// with events on its disk before and behind it.
func TestEvents_anIDInAGap(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.follower()
	for i := range 8 {
		submitAll(t, b.leader(), specs(fmt.Sprint("j", i), 10))
	}
	want := tail(t, n, rota.EventFilter{})
	key := onDisk(t, n)
	entries, err := n.eventFeed.events.store.Read(0)
	if err != nil || len(entries) < 5 {
		t.Fatalf("%d entries are on disk, %v", len(entries), err)
	}
	n.eventFeed.events.flushing.Lock() // nothing is written, nor fetched, meanwhile
	defer n.eventFeed.events.flushing.Unlock()
	flip(t, n, key)
	from, to := entries[1], entries[len(entries)-1] // the gap: from is in it, to is not
	err = errors.Join(n.eventFeed.events.store.Drop(0), n.eventFeed.events.store.Put(entries[:1]), n.eventFeed.events.store.Put(entries[len(entries)-1:]))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := n.eventFeed.events.at(from.Index); err != nil || len(there) != 0 {
		t.Fatalf("in the gap are %d entries, %v", len(there), err)
	}
	for _, at := range []uint64{from.Before, to.Before - 1} {
		got := tail(t, n, rota.EventFilter{After: want[at].ID})
		if rest := want[at+1:]; len(got) < len(rest) || ids(got[:len(rest)]) != ids(rest) {
			t.Errorf("%d events are told after %s", len(got), want[at].ID)
		}
	}
}

// TestEventLog_atAGap has the disk lack what lies between.
func TestEventLog_atAGap(t *testing.T) {
	t.Parallel()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "archive.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := newEventLog(1_000, slog.New(slog.DiscardHandler))
	if l.store, err = archive.OpenEvents(db, l.retained); err != nil {
		t.Fatal(err)
	}
	entry := func(index rota.Index, before uint64) archive.EventEntry {
		return archive.EventEntry{Index: index, Before: before, Count: 10, Bytes: []byte{1}}
	}
	for _, e := range []archive.EventEntry{entry(5, 0), entry(20, 30)} {
		if err := l.store.Put([]archive.EventEntry{e}); err != nil {
			t.Fatal(err)
		}
	}
	l.reset(fsm.Head{Index: 32, Events: 50})
	l.append(1, &fsm.Applied{Index: 40, Events: make([]rota.Event, 10), EventsBefore: 50, EventBytes: []byte{1}})
	for at, want := range map[rota.Index]rota.Index{4: 0, 5: 5, 6: 0, 19: 0, 20: 20, 21: 0, 39: 0, 40: 40} {
		entries, err := l.at(at)
		if got := append(entries, archive.EventEntry{})[0].Index; err != nil || got != want {
			t.Errorf("at %d: the entry at %d is told, %d is wanted, %v", at, got, want, err)
		}
	}
	if err := l.store.Put([]archive.EventEntry{entry(10, 10), entry(12, 20), entry(30, 40)}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[rota.Index]rota.Index{4: 0, 6: 5, 11: 10, 19: 12, 29: 20, 31: 30, 39: 30, 40: 40} {
		entries, err := l.at(at)
		if got := append(entries, archive.EventEntry{})[0].Index; err != nil || got != want {
			t.Errorf("without the gap, at %d: the entry at %d is told, %d is wanted, %v", at, got, want, err)
		}
	}
	if _, err := l.at(41); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("of an entry to come: %v", err)
	}
}
