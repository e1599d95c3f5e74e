package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestGather: an entry goes out at once where none is under way; a second one only
// once it is large, the first has landed, or none went out for a while.
func TestGather(t *testing.T) {
	t.Parallel()
	of := func(ops, size int) *proposal { return &proposal{ops: make([]*fsmpb.Op, ops), size: size} }
	type gathered struct {
		proposals, ops int
		carried        bool
	}
	// begin gathers beside entries under way; since is how long ago the latest went out.
	begin := func(flying int, since time.Duration) (*leadership, <-chan gathered) {
		l := newLeadership((&Node{replica: replica{hub: newHub()}}).own(), 3, 10_000)
		for range flying {
			l.slots <- struct{}{}
		}
		done := make(chan gathered, 1)
		latest := time.Now().Add(-since)
		go func() {
			batch, ops, carried := l.gather(of(1, 100), latest)
			done <- gathered{len(batch), ops, carried != nil}
		}()
		return l, done
	}
	still := func(t *testing.T, done <-chan gathered) {
		t.Helper()
		select {
		case g := <-done:
			t.Fatalf("went out beside another entry: %+v", g)
		case <-time.After(20 * time.Millisecond):
		}
	}
	want := func(t *testing.T, done <-chan gathered, want gathered) {
		t.Helper()
		if g := <-done; g != want {
			t.Fatalf("%+v, want %+v", g, want)
		}
	}
	t.Run("alone it waits for nobody", func(t *testing.T) {
		t.Parallel()
		_, done := begin(1, -time.Hour)
		want(t, done, gathered{1, 1, false})
	})
	t.Run("beside another it waits until that has landed", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		l.normal <- of(3, 300)
		l.urgent <- of(2, 200)
		still(t, done)
		l.free()
		want(t, done, gathered{3, 6, false})
	})
	t.Run("a notify of an entry that landed before is not taken for this one's", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		notify(l.freed)
		still(t, done)
		l.free()
		want(t, done, gathered{1, 1, false})
	})
	t.Run("many operations wait no longer", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		l.normal <- of(secondOps, 100)
		want(t, done, gathered{2, secondOps + 1, false})
	})
	t.Run("many bytes wait no longer", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		l.normal <- of(1, secondBytes)
		want(t, done, gathered{2, 2, false})
	})
	t.Run("what does not fit any more is carried over", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		l.normal <- of(1_024, 100)
		want(t, done, gathered{1, 1, true})
	})
	t.Run("beside one that does not land it waits a while", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -100*time.Millisecond)
		l.normal <- of(3, 300)
		still(t, done)
		want(t, done, gathered{2, 4, false})
	})
	t.Run("no longer where none went out for long", func(t *testing.T) {
		t.Parallel()
		_, done := begin(2, secondPatience)
		want(t, done, gathered{1, 1, false})
	})
	t.Run("the end of the term is not waited for", func(t *testing.T) {
		t.Parallel()
		l, done := begin(2, -time.Hour)
		still(t, done)
		l.end()
		want(t, done, gathered{1, 1, false})
	})
}

// TestPlace: one entry goes beside another at once, more only so often, and no more than
// the bound.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name   string
		flying int
		// since is how long ago the latest went out, lands when one of those before it lands, ends when the term ends.
		since, lands, ends, wait time.Duration
	}{
		{name: "alone", flying: 0},
		{name: "beside one", flying: 1},
		{name: "beside two", flying: 2, since: 3 * time.Millisecond, wait: secondPatience - 3*time.Millisecond},
		{name: "beside two of which one lands", flying: 2, lands: time.Millisecond, wait: time.Millisecond},
		{name: "beside old ones", flying: entriesInFlight - 1, since: time.Second},
		{name: "when all places are taken", flying: entriesInFlight, since: time.Second, lands: time.Minute, wait: time.Minute},
		{name: "when the term ends", flying: entriesInFlight, ends: time.Millisecond, wait: time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeadership((&Node{replica: replica{hub: newHub()}}).own(), 3, 10_000)
				for range c.flying {
					l.slots <- struct{}{}
				}
				if c.lands > 0 {
					time.AfterFunc(c.lands, l.free)
				}
				if c.ends > 0 {
					time.AfterFunc(c.ends, l.end)
				}
				start := time.Now()
				l.place(start.Add(-c.since))
				if took := time.Since(start); took != c.wait {
					t.Errorf("it took %v, want %v", took, c.wait)
				}
				l.end()
			})
		})
	}
}
