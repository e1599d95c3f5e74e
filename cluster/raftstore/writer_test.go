package raftstore

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// faultyStore is a log and stable store that can delay and fail writes, and counts them.
type faultyStore struct {
	*raft.InmemStore
	mu     sync.Mutex
	writes int
	err    error
	gate   chan struct{} // a write waits for it, if set
}

func (f *faultyStore) write() error {
	f.mu.Lock()
	f.writes++
	err, gate := f.err, f.gate
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return err
}

func (f *faultyStore) StoreLogs(entries []*raft.Log) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(entries)
}

func (f *faultyStore) Set(key, value []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.InmemStore.Set(key, value)
}

func (f *faultyStore) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"full":  {&os.PathError{Op: "write", Path: "raft.db", Err: syscall.ENOSPC}, "free space"},
		"quota": {syscall.EDQUOT, "free space"},
		"io":    {syscall.EIO, "has failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := newFatalRecorder()
			writer := newWriter("/data", Options{Fatal: recorder.fatal}.withDefaults())
			defer writer.close()
			inner := &faultyStore{InmemStore: raft.NewInmemStore(), err: c.err}
			store := &logStore{inner: inner, writer: writer}
			err := store.StoreLogs(testEntries(1, 1, 1))
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "/data") {
				t.Errorf("got %v", err)
			}
			inner.err = nil
			for range 3 {
				if err := store.StoreLogs(testEntries(1, 1, 1)); !errors.Is(err, c.err) {
					t.Errorf("later write gives %v", err)
				}
			}
			if errs := recorder.all(); len(errs) != 1 || inner.count() != 1 {
				t.Errorf("fatal %d times, %d writes: after the first failure nothing is written",
					len(errs), inner.count())
			}
		})
	}
}

func TestStalledWrite(t *testing.T) {
	t.Parallel()
	setup := func(exitAfter time.Duration) (*faultyStore, *writer, *fatalRecorder, chan string) {
		recorder, unfit := newFatalRecorder(), make(chan string, 4)
		inner := &faultyStore{InmemStore: raft.NewInmemStore(), gate: make(chan struct{})}
		writer := newWriter("/data", Options{StallAfter: 20 * time.Millisecond, ExitAfter: exitAfter,
			Fatal: recorder.fatal, Unfit: func(reason string) { unfit <- reason }}.withDefaults())
		return inner, writer, recorder, unfit
	}

	t.Run("makes unfit, then ends the process", func(t *testing.T) {
		t.Parallel()
		inner, writer, recorder, unfit := setup(60 * time.Millisecond)
		store := &logStore{inner: inner, writer: writer}
		if err := store.StoreLogs(testEntries(1, 1, 1)); rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("got %v", err)
		}
		if reason := <-unfit; !strings.Contains(reason, "the disk hangs") {
			t.Errorf("reason %q", reason)
		}
		<-recorder.called
		close(inner.gate) // the write succeeds after all
		writer.close()
		select { // close waits for it as long as for any write, which is very short here
		case <-writer.done:
		case <-time.After(ample):
			t.Error("the writer did not end")
		}
		if len(recorder.all()) != 1 || len(unfit) != 0 || inner.count() != 1 {
			t.Errorf("fatal %v, unfit %d, writes %d", recorder.all(), len(unfit), inner.count())
		}
	})

	t.Run("that lands late ends the process at once", func(t *testing.T) {
		t.Parallel()
		inner, writer, recorder, unfit := setup(time.Hour)
		store := &logStore{inner: inner, writer: writer}
		_ = store.StoreLogs(testEntries(1, 1, 1))
		<-unfit
		if err := store.StoreLogs(testEntries(1, 1, 1)); err == nil {
			t.Error("written after a stall")
		}
		close(inner.gate)
		<-recorder.called
		writer.close()
		if inner.count() != 1 {
			t.Errorf("%d writes: the first was reported to raft as failed", inner.count())
		}
	})

	t.Run("is not what a process that was stopped has seen", func(t *testing.T) {
		t.Parallel()
		p := newPatience(5 * time.Second)
		defer p.end()
		p.last = p.last.Add(-time.Minute) // SIGSTOP for a minute
		if p.over() {
			t.Error("a pause of the process counted as a hanging disk")
		}
		for range 20 {
			p.last = p.last.Add(-patienceStep)
			p.over()
		}
		if !p.over() {
			t.Error("a disk that hangs while the process runs is never noticed")
		}
	})

	t.Run("holds up nothing when the stores are closed", func(t *testing.T) {
		t.Parallel()
		inner, writer, recorder, _ := setup(time.Hour)
		store := &logStore{inner: inner, writer: writer}
		_ = store.StoreLogs(testEntries(1, 1, 1))
		if writer.close() {
			t.Error("close reports that the write has ended")
		}
		if len(recorder.all()) != 0 {
			t.Error("fatal after close")
		}
		close(inner.gate)
		<-writer.done
	})

	t.Run("of the term ends raft's goroutine instead of a panic", func(t *testing.T) {
		t.Parallel()
		inner, writer, recorder, _ := setup(30 * time.Millisecond)
		store, err := newStableStore(inner.InmemStore, writer)
		if err != nil {
			t.Fatal(err)
		}
		store.inner = inner
		if err := store.SetUint64(keyCurrentTerm, 0); err != nil {
			t.Errorf("the existing term: %v", err)
		}
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			_ = store.SetUint64(keyCurrentTerm, 9)
			returned = true
		}()
		<-ended
		if returned {
			t.Error("SetUint64 returned: raft would panic")
		}
		<-recorder.called
		close(inner.gate)
		writer.close()
	})
}
