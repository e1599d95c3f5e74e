package raftstore

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// aheadBench is a log store with a slow disk, on a node that leads or not.
type aheadBench struct {
	*logStore
	leads  atomic.Bool
	inner  *faultyStore
	stable *stableStore
	fatal  *fatalRecorder
}

const aheadWrite = 10 * time.Millisecond

func inAhead(t *testing.T, f func(t *testing.T, b *aheadBench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &aheadBench{inner: &faultyStore{InmemStore: raft.NewInmemStore()}, fatal: newFatalRecorder()}
		writer := newWriter("/data", Options{Fatal: b.fatal.fatal,
			BeforeWrite: func() { time.Sleep(aheadWrite) }}.withDefaults())
		b.logStore = &logStore{inner: b.inner, writer: writer}
		b.stable = &stableStore{inner: b.inner, writer: writer}
		leads := b.leads.Load
		writer.ahead.leads.Store(&leads)
		go writer.ahead.run(b.writeAhead)
		b.leads.Store(true)
		defer func() {
			writer.ahead.close()
			writer.close()
		}()
		f(t, b)
	})
}

func (b *aheadBench) put(t *testing.T, entries []*raft.Log) {
	t.Helper()
	if err := b.StoreLogs(entries); err != nil {
		t.Fatal(err)
	}
}

// took runs f and returns how long it took.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestAhead_aLeadersCommandsAreNotWaitedFor(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		if d := took(func() { b.put(t, testEntries(1, 3, 1)) }); d != 0 {
			t.Errorf("a leader waited %v for its disk", d)
		}
		if last, err := b.LastIndex(); last != 3 || err != nil {
			t.Errorf("the log ends at %d, %v", last, err)
		}
		if first, err := b.FirstIndex(); first != 1 || err != nil {
			t.Errorf("the log begins at %d, %v", first, err)
		}
		var e raft.Log
		if err := b.GetLog(2, &e); err != nil || string(e.Data) != "payload-2" || e.Index != 2 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := b.GetLog(4, &e); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("an entry that is not there: %v", err)
		}
		if n := b.inner.count(); n != 0 {
			t.Errorf("%d writes at once", n)
		}
		for index, want := range map[uint64]uint64{0: 0, 1: 0, 3: 0, 9: 0} {
			if got := b.writer.ahead.clamp(index); got != want {
				t.Errorf("commit %d is reported as %d, nothing is on the disk", index, got)
			}
		}
		if d := took(func() {
			if err := b.writer.ahead.await(3); err != nil {
				t.Error(err)
			}
		}); d != aheadWrite {
			t.Errorf("the disk had it after %v", d)
		}
		if got := b.writer.ahead.clamp(9); got != 9 {
			t.Errorf("commit 9 is reported as %d, all is on the disk", got)
		}
		if err := b.GetLog(2, &e); err != nil || string(e.Data) != "payload-2" {
			t.Errorf("from the disk: %+v, %v", e, err)
		}
	})
}

// TestAhead_whatComesMeanwhileSharesAWrite: two batches that wait for a third form one transaction, and OnDisk follows
// the disk step by step.
func TestAhead_whatComesMeanwhileSharesAWrite(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		b.put(t, testEntries(1, 1, 1))
		synctest.Wait()
		b.put(t, testEntries(2, 3, 1))
		b.put(t, testEntries(4, 4, 1))
		if d := took(func() { _ = b.writer.ahead.await(1) }); d != aheadWrite {
			t.Errorf("the first took %v", d)
		}
		if got := b.writer.ahead.clamp(4); got != 1 {
			t.Errorf("commit 4 is reported as %d", got)
		}
		if d := took(func() { _ = b.writer.ahead.drain() }); d != aheadWrite {
			t.Errorf("the others took %v", d)
		}
		if n := b.inner.count(); n != 2 {
			t.Errorf("%d writes", n)
		}
		for i := uint64(1); i <= 4; i++ {
			var e raft.Log
			if err := b.GetLog(i, &e); err != nil || e.Index != i {
				t.Errorf("entry %d: %+v, %v", i, e, err)
			}
		}
	})
}

// TestAhead_everyOtherWriteComesAfter: a write that puts this node into another term, or cuts the log, waits for the
// entries that the node was counted for.
func TestAhead_everyOtherWriteComesAfter(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(b *aheadBench) error
		writes int
	}{
		"a term":          {func(b *aheadBench) error { return b.stable.SetUint64(keyCurrentTerm, 2) }, 2},
		"a log's end cut": {func(b *aheadBench) error { return b.DeleteRange(2, 3) }, 1},
		"a follower's entries": {func(b *aheadBench) error {
			b.leads.Store(false)
			return b.StoreLogs(testEntries(4, 4, 1))
		}, 2},
		"a configuration": {func(b *aheadBench) error {
			return b.StoreLogs([]*raft.Log{{Index: 4, Term: 1, Type: raft.LogConfiguration,
				Data: raft.EncodeConfiguration(raft.Configuration{})}})
		}, 2},
		"a term's first entry": {func(b *aheadBench) error {
			return b.StoreLogs([]*raft.Log{{Index: 4, Term: 1, Type: raft.LogNoop}})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inAhead(t, func(t *testing.T, b *aheadBench) {
				b.put(t, testEntries(1, 3, 1))
				if d := took(func() {
					if err := c.write(b); err != nil {
						t.Error(err)
					}
				}); d != 2*aheadWrite {
					t.Errorf("it took %v: %v of it for the write that went ahead", d, aheadWrite)
				}
				if got := b.writer.ahead.clamp(9); got != 9 {
					t.Errorf("%d still wait", got)
				}
				if n := b.inner.count(); n != c.writes {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

func TestAhead_aFollowerWaits(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		b.leads.Store(false)
		if d := took(func() { b.put(t, testEntries(1, 3, 1)) }); d != aheadWrite {
			t.Errorf("it answered after %v", d)
		}
	})
}

// TestAhead_aFailureIsTheEnd: after a failure nothing is applied, reported as committed or written.
func TestAhead_aFailureIsTheEnd(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		b.put(t, testEntries(1, 1, 1))
		synctest.Wait()
		b.put(t, testEntries(2, 2, 1))
		broken := errors.New("input/output error")
		_ = b.writer.ahead.await(1)
		b.inner.mu.Lock()
		b.inner.err = broken
		b.inner.mu.Unlock()
		for range 2 {
			if err := b.writer.ahead.await(2); !errors.Is(err, broken) {
				t.Errorf("the second still waits: %v", err)
			}
		}
		if len(b.fatal.all()) != 1 {
			t.Errorf("the process was ended %d times", len(b.fatal.all()))
		}
		if err := b.writer.ahead.await(1); err != nil {
			t.Errorf("the first is on the disk: %v", err)
		}
		if got := b.writer.ahead.clamp(2); got != 1 {
			t.Errorf("commit 2 is reported as %d", got)
		}
		b.inner.mu.Lock()
		b.inner.err = nil
		b.inner.mu.Unlock()
		if err := b.StoreLogs(testEntries(3, 3, 1)); !errors.Is(err, broken) {
			t.Errorf("a third write continued: %v", err)
		}
		if err := b.stable.Set([]byte("other"), []byte("value")); err == nil {
			t.Error("something was stored after the failure")
		}
		if n := b.inner.count(); n != 2 {
			t.Errorf("%d writes, one of them failed", n)
		}
	})
}

// TestAhead_aHangEnds: a hanging disk makes the node unfit, and callers that wait for it get an answer.
func TestAhead_aHangEnds(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		gate := make(chan struct{})
		b.inner.gate = gate
		unfit := make(chan string, 1)
		b.writer.opts.Unfit = func(reason string) { unfit <- reason }
		b.put(t, testEntries(1, 1, 1))
		if d := took(func() {
			if err := b.writer.ahead.await(1); err == nil {
				t.Error("it is on the disk")
			}
		}); d < b.writer.opts.StallAfter || d > 2*b.writer.opts.StallAfter {
			t.Errorf("it gave up after %v", d)
		}
		if reason := <-unfit; reason == "" {
			t.Error("the reason is missing")
		}
		close(gate)
		time.Sleep(b.writer.opts.ExitAfter)
		if len(b.fatal.all()) != 1 {
			t.Errorf("the process was ended %d times", len(b.fatal.all()))
		}
	})
}

// TestAhead_boundsAndEnd: a writer that is too far ahead waits, and closing writes the pending entries.
func TestAhead_boundsAndEnd(t *testing.T) {
	inAhead(t, func(t *testing.T, b *aheadBench) {
		b.put(t, testEntries(1, 1, 1))
		synctest.Wait()
		next := uint64(2)
		for range maxAhead {
			b.put(t, testEntries(next, next, 1))
			next++
		}
		if d := took(func() { b.put(t, testEntries(next, next, 1)) }); d != aheadWrite {
			t.Errorf("one more went ahead after %v", d)
		}
		b.writer.ahead.close()
		if last, err := b.inner.LastIndex(); last != next || err != nil {
			t.Errorf("the disk's log ends at %d, %v, not %d", last, err, next)
		}
		if err := b.StoreLogs(testEntries(next+1, next+1, 1)); !errors.Is(err, errStoresClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
