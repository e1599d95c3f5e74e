package history

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// TestEvents_aDiskThatTakesNoneIsTold: the archive rejects events; applying continues, and the node's health reports
// the problem.
func TestEvents_aDiskThatTakesNoneIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	n.Events.Flush()
	n.Events.mu.Lock()
	n.Events.failing = errors.New("no space left on device")
	n.Events.mu.Unlock()
	if p := n.Events.Problems(); len(p) != 1 || !strings.Contains(p[0], "events are not written") {
		t.Errorf("%q", p)
	}
	r.submit("j", 3)
	n.Events.Flush()
	if p := n.Events.Problems(); len(p) != 0 {
		t.Errorf("%q", p)
	}
}

// TestEvents_idle: a follower that receives nothing else is sent its position repeatedly, so that no proxy cuts its
// stream as idle.
func TestEvents_idle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	n.Events.Flush()
	n.idleEvery = 10 * time.Millisecond
	r.submit("j", 3)
	n.show()
	var position rota.EventID
	idle, enough := 0, errors.New("enough")
	err := n.Events.Events(t.Context(), rota.EventFilter{Follow: true}, func(b peer.EventBatch) error {
		switch {
		case len(b.Events) > 0:
			position = b.Events[len(b.Events)-1].ID
		case !position.IsZero() && b.Scanned != position:
			t.Errorf("the position is %s, want %s", b.Scanned, position)
		case !position.IsZero():
			if idle++; idle == 3 {
				return enough
			}
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("following ended with %v", err)
	}
}

func TestEvents_slowConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	n.maxSend = 50 * time.Millisecond
	r.submit("j", 3)
	stuck, blocked := make(chan struct{}), make(chan struct{})
	defer close(stuck)
	done := make(chan error, 1)
	go func() {
		first := true
		done <- n.Events.Events(t.Context(), rota.EventFilter{Follow: true}, func(peer.EventBatch) error {
			if first {
				first = false
				return nil
			}
			close(blocked)
			<-stuck
			return nil
		})
	}()
	for i := 0; ; i++ {
		r.submit(fmt.Sprint("k", i), 1) // never delayed by a follower that does not read
		n.show()
		select {
		case err := <-done:
			if rota.KindOf(err) != rota.KindExhausted || !strings.Contains(err.Error(), "resume after the last event") {
				t.Errorf("cut off with %v", err)
			}
			n.Events.mu.Lock()
			cut, followers := n.cut, n.followers
			n.Events.mu.Unlock()
			if cut != 1 || followers != 0 {
				t.Errorf("%d are counted as cut, %d follow", cut, followers)
			}
			return
		default:
		}
	}
}

func TestEvents_verifyFindsAPlantedDifference(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	for i := range 3 {
		r.submit(fmt.Sprint("j", i), 20)
		n.Events.Flush()
	}
	if faults := n.Verify(n.head(), n.Held()); len(faults) > 0 {
		t.Fatal(faults)
	}
	held := n.Held()
	e := &held[len(held)/2]
	e.Bytes = bytes.Clone(e.Bytes)
	e.Bytes[len(e.Bytes)/2] ^= 1
	if faults := n.Verify(n.head(), held); len(faults) != 1 ||
		!strings.Contains(faults[0], fmt.Sprint("entry ", e.Index)) {
		t.Error(faults)
	}
}

func TestEventLog_givesUpWhatTheDiskDoesNotTake(t *testing.T) {
	t.Parallel()
	l := newEventLog(nil, 1000, discard)
	one := newRig(t, "n1").nodes["n1"].Held()[0]
	one.Bytes = make([]byte, 1<<20)
	for i := range 100 {
		e := one
		e.Index, e.Before, e.Count = rota.Index(i+1), uint64(i), 1
		l.ring = append(l.ring, e)
		l.bytes += entrySize(&e)
		l.unflushed += entrySize(&e)
		l.total = e.End()
		l.trim()
	}
	if l.unflushed > maxUnflushed || l.dropped == 0 || l.flushed != l.ring[0].Before || l.ring[0].Before != l.dropped {
		t.Errorf("%d bytes wait, %d events dropped, the ring begins at %d", l.unflushed, l.dropped, l.ring[0].Before)
	}
}

// TestEvents_aNodeThatIsNotKnownYetMayHaveThem: a member was never seen in gossip, as after a restart; nothing is given
// up as lost.
func TestEvents_aNodeThatIsNotKnownYetMayHaveThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1", "ghost")
	delete(r.nodes, "ghost")
	n := r.nodes["n1"]
	r.submit("a", 3)
	_, err := n.fetchEvents(t.Context(), peer.EventRange{From: 1 << 40})
	if rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("one node was not asked: %v", err)
	}
	if oldest, sure := n.oldestKept(0); oldest != 0 || !sure {
		t.Errorf("the oldest is %d, %v: it is here", oldest, sure)
	}
}

// TestEvents_anIDInAGap follows from an event that this node lost and the others have, with events on its disk before
// and after it.
func TestEvents_anIDInAGap(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1", "n2", "n3")
	n := r.nodes["n2"]
	for i := range 8 {
		r.submit(fmt.Sprint("j", i), 10)
	}
	want := r.tail(n, rota.EventFilter{})
	r.onDisk(n)
	entries, err := n.file.Events.Read(0)
	if err != nil || len(entries) < 5 {
		t.Fatalf("%d entries are on disk, %v", len(entries), err)
	}
	from, to := entries[1], entries[len(entries)-1] // the gap: from is in it, to is not
	err = errors.Join(n.file.Events.Forget(0), n.file.Events.Put(entries[:1]),
		n.file.Events.Put(entries[len(entries)-1:]))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := n.at(from.Index); err != nil || len(there) != 0 {
		t.Fatalf("in the gap are %d entries, %v", len(there), err)
	}
	for _, at := range []uint64{from.Before, to.Before - 1} {
		got := r.tail(n, rota.EventFilter{After: want[at].ID})
		if rest := want[at+1:]; len(got) < len(rest) || ids(got[:len(rest)]) != ids(rest) {
			t.Errorf("got %d events after %s", len(got), want[at].ID)
		}
	}
}

// TestEventLog_atAGap: the disk lacks the entries in the middle.
func TestEventLog_atAGap(t *testing.T) {
	t.Parallel()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "archive.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := archive.OpenEvents(db, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	l := newEventLog(store, 1_000, discard)
	entry := func(index rota.Index, before uint64) archive.EventEntry {
		return archive.EventEntry{Index: index, Before: before, Count: 10, Bytes: []byte{1}}
	}
	for _, e := range []archive.EventEntry{entry(5, 0), entry(20, 30)} {
		if err := store.Put([]archive.EventEntry{e}); err != nil {
			t.Fatal(err)
		}
	}
	l.Reset(fsm.Head{Index: 32, Events: 50})
	l.Append(1, &fsm.Applied{Index: 40, Events: make([]rota.Event, 10), EventsBefore: 50, EventBytes: []byte{1}})
	for at, want := range map[rota.Index]rota.Index{4: 0, 5: 5, 6: 0, 19: 0, 20: 20, 21: 0, 39: 0, 40: 40} {
		entries, err := l.at(at)
		if got := append(slices.Clip(entries), archive.EventEntry{})[0].Index; err != nil || got != want {
			t.Errorf("at %d: got the entry at %d, want %d, %v", at, got, want, err)
		}
	}
	if err := store.Put([]archive.EventEntry{entry(10, 10), entry(12, 20), entry(30, 40)}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[rota.Index]rota.Index{4: 0, 6: 5, 11: 10, 19: 12, 29: 20, 31: 30, 39: 30, 40: 40} {
		entries, err := l.at(at)
		if got := append(slices.Clip(entries), archive.EventEntry{})[0].Index; err != nil || got != want {
			t.Errorf("without the gap, at %d: got the entry at %d, want %d, %v", at, got, want, err)
		}
	}
	if _, err := l.at(41); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("a future entry: %v", err)
	}
}

// TestSender_abandonWaits ends a sender whose batch is not stuck, for each reason: the send in progress returns before
// the sender's caller does.
func TestSender_abandonWaits(t *testing.T) {
	t.Parallel()
	n := newRig(t, "n1").nodes["n1"]
	ended := make(chan struct{})
	var sent bool // accessed only by the sender's goroutine until it has ended
	s := n.newSender(func(peer.EventBatch) error {
		<-ended
		sent = true
		return nil
	})
	if err := s.put(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-s.gone
		close(ended)
	}()
	s.abandon(t.Context())
	if !sent {
		t.Error("abandoned while a batch is being sent")
	}
}
