package cluster

import (
	"testing"
	"time"

	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestGather: an entry is sent at once if none is in progress; a second one only once it is large, or the first has
// been applied.
func TestGather(t *testing.T) {
	t.Parallel()
	of := func(ops, size int) *proposal { return &proposal{ops: make([]*fsmpb.Op, ops), size: size} }
	type gathered struct {
		proposals, ops int
		carried        bool
	}
	begin := func(flying int) (*leadership, <-chan gathered) {
		l := (&Node{base: base{replica: replica.Replica{Hub: replica.NewHub()}}}).wire().terms.newLeadership(3, 10_000)
		for range flying {
			l.slots <- struct{}{}
		}
		done := make(chan gathered, 1)
		go func() {
			batch, ops, carried := l.gather(of(1, 100))
			done <- gathered{len(batch), ops, carried != nil}
		}()
		return l, done
	}
	still := func(t *testing.T, done <-chan gathered) {
		t.Helper()
		select {
		case g := <-done:
			t.Fatalf("it was sent next to another entry: %+v", g)
		case <-time.After(20 * time.Millisecond):
		}
	}
	want := func(t *testing.T, done <-chan gathered, want gathered) {
		t.Helper()
		if g := <-done; g != want {
			t.Fatalf("%+v, want %+v", g, want)
		}
	}
	t.Run("a single one does not wait", func(t *testing.T) {
		t.Parallel()
		_, done := begin(1)
		want(t, done, gathered{1, 1, false})
	})
	t.Run("it waits until another one has landed", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		l.normal <- of(3, 300)
		l.urgent <- of(2, 200)
		still(t, done)
		l.free()
		want(t, done, gathered{3, 6, false})
	})
	t.Run("a notify of an entry that landed before is not taken for this one's", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		replica.Notify(l.freed)
		still(t, done)
		l.free()
		want(t, done, gathered{1, 1, false})
	})
	t.Run("many operations wait no longer", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		l.normal <- of(secondOps, 100)
		want(t, done, gathered{2, secondOps + 1, false})
	})
	t.Run("many bytes wait no longer", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		l.normal <- of(1, secondBytes)
		want(t, done, gathered{2, 2, false})
	})
	t.Run("operations that do not fit are carried over", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		l.normal <- of(1_024, 100)
		want(t, done, gathered{1, 1, true})
	})
	t.Run("the end of the term is not waited for", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2)
		still(t, done)
		l.end()
		want(t, done, gathered{1, 1, false})
	})
}
