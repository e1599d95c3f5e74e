package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// onDisk writes a node's events to disk and frees their memory. It returns the key of the newest chunk.
func onDisk(t *testing.T, n *Node) (key []byte) {
	t.Helper()
	n.events.Flush()
	n.events.Hold()
	if err := n.historyFile.DB.View(func(tx *bbolt.Tx) error {
		last, _ := tx.Bucket([]byte("events.1")).Cursor().Last()
		key = bytes.Clone(last)
		return nil
	}); err != nil || key == nil {
		t.Fatal("no events are on disk", err)
	}
	return key
}

// flip damages a chunk of events, or repairs it.
func flip(t *testing.T, n *Node, key []byte) {
	t.Helper()
	if err := n.historyFile.DB.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("events.1"))
		bad := bytes.Clone(b.Get(key))
		bad[len(bad)-1] ^= 1
		return b.Put(key, bad)
	}); err != nil {
		t.Fatal(err)
	}
	n.events.Hold() // forces a read from disk
}

// TestEvents_damagedOnDisk damages events on the only node that has them. A consumer that follows from the beginning
// gets the remaining events, and can stop at any time.
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
		t.Fatalf("got %d events", len(got))
	}
	if v, err := n.Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("damaged and abandoned data still counts as a fault: %+v, %v", v, err)
	}
}

// TestEvents_aDamagedChunkIsFetchedAgain damages events on the disk of one node of three. Consumers still get all
// events, and the node repairs its copy.
func TestEvents_aDamagedChunkIsFetchedAgain(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("a", 30))
	n := b.follower()
	want := tail(t, n, rota.EventFilter{})
	flip(t, n, onDisk(t, n))
	if got := tail(t, n, rota.EventFilter{After: want[4].ID}); ids(got[:len(want)-5]) != ids(want[5:]) {
		t.Errorf("got %d events after one on the damaged chunk, want %d", len(got), len(want)-5)
	}
	if got := tail(t, n, rota.EventFilter{}); ids(got[:len(want)]) != ids(want) {
		t.Errorf("got %d events, want %d", len(got), len(want))
	}
	b.eventually("the disk has them again", func() bool {
		entries, err := n.historyFile.Events.Read(0)
		return err == nil && len(entries) > 0
	})
}

// TestEvents_aHoleThatNoNodeFills loses events in the middle on all nodes. A read from the start returns the events
// after the hole. A consumer that resumes before the hole gets an error with the oldest event that is left.
func TestEvents_aHoleThatNoNodeFills(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 30))
	first := tail(t, n, rota.EventFilter{})
	before := onDisk(t, n)
	flip(t, n, before) // so that the following events form another chunk
	submitAll(t, n, specs("b", 30))
	lost := onDisk(t, n)
	flip(t, n, lost)
	submitAll(t, n, specs("c", 30))
	onDisk(t, n)
	flip(t, n, before)
	if err := n.historyFile.Events.Drop(uint64(len(first)) + 1); err != nil {
		t.Fatal(err)
	}
	var got []rota.ServedEvent
	b.eventually("the hole is given up", func() bool {
		got = nil
		return n.Events(within(t, ample), rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobEnqueued}},
			func(batch peer.EventBatch) error {
				got = append(got, batch.Events...)
				return nil
			}) == nil
	})
	if len(got) != 30 || !strings.HasPrefix(string(got[0].Job), "c-") {
		t.Fatalf("got %d events, from %v on", len(got), got)
	}
	err := n.Events(within(t, ample), rota.EventFilter{After: first[3].ID, Follow: true},
		func(peer.EventBatch) error { return nil })
	if rota.KindOf(err) != rota.KindOutOfRange || !strings.Contains(err.Error(), "the oldest is ") {
		t.Errorf("a reader from before the gap: %v", err)
	}
}

// TestEvents_ofAnotherClusterAreRefused starts a node with the event archive of another cluster, in which no job ever
// ended. The node must refuse these events.
func TestEvents_ofAnotherClusterAreRefused(t *testing.T) {
	t.Parallel()
	var archives [2]string
	var benches [2]*bench
	for i := range benches {
		b := startBench(t, 1)
		submitAll(t, b.leader(), specs(fmt.Sprint("c", i), 3))
		b.leader().events.Flush()
		b.stop("n1")
		benches[i], archives[i] = b, filepath.Join(b.addrs["n1"].Data, archive.FileName)
	}
	data, err := os.ReadFile(archives[0])
	if err := errors.Join(err, os.WriteFile(archives[1], data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := benches[1].tryStart("n1"); rota.KindOf(err) != rota.KindConflict ||
		!strings.Contains(err.Error(), "history of cluster") {
		t.Fatalf("started with the events of another cluster: %v", err)
	}
}

// TestEvents_aFilterThatSelectsLittle follows one rare kind of event while all others are dropped. The consumer learns
// the position up to which the node has read. It resumes there, although it received no event.
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
			if !batch.Scanned.IsZero() { // the first batch has it: reading begins at the oldest event
				scanned <- batch.Scanned
			}
			return nil
		})
	}()
	for i := range 5 {
		submitAll(t, n, specs(fmt.Sprint("j", i), 100))
		n.events.Flush()
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
		t.Errorf("got %d events", len(got))
	}
}

// TestEvents_aNodeThatLagsDoesNotSpeakOfThem asks a node for events that it has not applied yet. The node must return
// UNAVAILABLE: if it returned none, other nodes would reject an event that was already served.
func TestEvents_aNodeThatLagsDoesNotSpeakOfThem(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 3))
	state := n.replica.Head()
	for _, r := range []peer.EventRange{{At: state.Index + 1_000}, {From: state.Events + 1_000}} {
		if chunk, err := n.EventRange(within(t, ample), r); rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("%+v: %d bytes, %v", r, len(chunk.Data), err)
		}
	}
	if chunk, err := n.EventRange(within(t, ample), peer.EventRange{At: state.Index}); err != nil ||
		len(chunk.Data) == 0 {
		t.Errorf("the newest entry: %d bytes, %v", len(chunk.Data), err)
	}
}
