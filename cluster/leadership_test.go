package cluster

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

func mustSeal(t *testing.T, e *fsmpb.Entry) []byte {
	t.Helper()
	data, err := entry.Seal(e, entry.FirstRules)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestStamp(t *testing.T) {
	t.Parallel()
	fresh := func() *leadership { return (&Node{}).wire().terms.newLeadership(3, 10_000) }
	stampNow := func(l *leadership) rota.Clock {
		var e fsmpb.Entry
		l.stamp(&e)
		return rota.Clock(e.NowMs)
	}
	// since returns the time that really passed, rounded up: a busy machine delays a test.
	since := func(began time.Duration) rota.Clock {
		return rota.Clock((clock.SinceBoot()-began)/time.Millisecond) + 1
	}
	t.Run("follows the time since the stamp before", func(t *testing.T) {
		t.Parallel()
		began := clock.SinceBoot()
		l := fresh()
		l.lastAt -= 300 * time.Millisecond
		if now := stampNow(l); now < 10_300 || now > 10_300+since(began) {
			t.Fatalf("stamped %d after 300 ms", now)
		}
	})
	t.Run("H3 a paused leader runs at most 500 ms ahead of what has applied", func(t *testing.T) {
		t.Parallel()
		began := clock.SinceBoot()
		l := fresh()
		l.lastAt -= 20 * time.Second
		if now := stampNow(l); now != 10_500 {
			t.Fatalf("stamped %d after a pause of 20 s", now)
		}
		// H21: the following stamps do not run ahead either.
		if now := stampNow(l); now > 10_500 {
			t.Fatalf("then stamped %d", now)
		}
		l.settle(l.stampedSeq, &fsm.Applied{Stamped: true, Term: 3, Clock: 10_500})
		if now := stampNow(l); now > 10_500+since(began) {
			t.Fatalf("and stamped %d once it applied: the pause was only delayed", now)
		}
	})
	t.Run("is never below the applied clock", func(t *testing.T) {
		t.Parallel()
		l := fresh()
		l.settle(1, &fsm.Applied{Stamped: true, Term: 3, Clock: 12_000})
		if now := stampNow(l); now < 12_000 {
			t.Fatalf("stamped %d below 12000", now)
		}
	})
	t.Run("ignores entries of another term", func(t *testing.T) {
		t.Parallel()
		began := clock.SinceBoot()
		l := fresh()
		l.settle(1, &fsm.Applied{Stamped: true, Term: 2, Clock: 99_000})
		if now := stampNow(l); now > 10_000+since(began) {
			t.Fatalf("stamped %d", now)
		}
	})
	t.Run("carries wall clocks at most once a second", func(t *testing.T) {
		t.Parallel()
		began := clock.SinceBoot()
		l := fresh()
		l.setWalls([]int64{1, 2, 3})
		carried := 0
		for range 100 {
			var e fsmpb.Entry
			l.stamp(&e)
			if len(e.WallMs) > 0 {
				carried++
			}
		}
		if carried < 1 || rota.Clock(carried) > 1+since(began)/1000 {
			t.Fatalf("%d of 100 entries carried wall clocks", carried)
		}
	})
}

func TestBeat(t *testing.T) {
	t.Parallel()
	t.Run("is answered by an entry stamped after it, not by one in flight", func(t *testing.T) {
		t.Parallel()
		l := (&Node{}).wire().terms.newLeadership(3, 10_000)
		var e fsmpb.Entry
		before := l.stamp(&e)
		done := l.afterNext()
		l.settle(before, &fsm.Applied{Stamped: true, Term: 3, Clock: 10_100})
		select {
		case clock := <-done:
			t.Fatalf("answered %d by an entry stamped before the beat", clock)
		default:
		}
		after := l.stamp(&e)
		l.settle(after, &fsm.Applied{Stamped: true, Term: 3, Clock: 10_200})
		if clock := <-done; clock != 10_200 {
			t.Fatalf("answered %d", clock)
		}
	})
	t.Run("is not answered by a leadership that ended", func(t *testing.T) {
		t.Parallel()
		l := (&Node{}).wire().terms.newLeadership(3, 10_000)
		done := l.afterNext()
		close(l.inFlight)
		l.land()
		if _, ok := <-done; ok {
			t.Fatal("a deposed leader answered a beat")
		}
	})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, err := range []error{raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress} {
		if !errors.Is(classify(err), errNotLeader) {
			t.Errorf("%v definitely did not enter the log", err)
		}
	}
	for _, err := range []error{raft.ErrLeadershipLost, raft.ErrRaftShutdown, raft.ErrAbortedByRestore,
		errors.New("disk")} {
		if c := classify(err); errors.Is(c, errNotLeader) || rota.KindOf(c) != rota.KindUnavailable {
			t.Errorf("the outcome of %v is unknown, not %v", err, c)
		}
	}
}

// forgotten is a future that raft does not answer while it runs.
type forgotten chan struct{}

func (f forgotten) Error() error { <-f; return nil }

// TestSettledWithin: a wait for a future that raft forgot ends with its call.
func TestSettledWithin(t *testing.T) {
	t.Parallel()
	n, f := (&Node{base: base{raftDown: make(chan struct{})}}).wire(), make(forgotten)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.settledWithin(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(f)
	if err := n.settledWithin(context.Background(), f); err != nil {
		t.Errorf("got %v", err)
	}
}

// TestSettled_raftStopped: a wait for an answer that raft did not deliver ends. The future remains unanswered, as raft
// leaves it: TestMain ignores that one goroutine.
func TestSettled_raftStopped(t *testing.T) {
	t.Parallel()
	n := (&Node{base: base{raftDown: make(chan struct{})}}).wire()
	close(n.raftDown)
	if err := n.settled(make(forgotten)); !errors.Is(err, raft.ErrRaftShutdown) {
		t.Errorf("got %v", err)
	}
}

func TestChunk(t *testing.T) {
	t.Parallel()
	big := &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: &fsmpb.JobSpec{Payload: make([]byte, 200<<10)}}}}
	small := &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}
	for _, c := range []struct {
		name string
		ops  []*fsmpb.Op
		want int
	}{
		{"bytes bound an entry", []*fsmpb.Op{big, big, big}, 2},
		{"all fit", []*fsmpb.Op{big, small, small}, 3},
		{"one too large goes alone", []*fsmpb.Op{{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: &fsmpb.JobSpec{
			Payload: make([]byte, 2*limits.MaxEntryBytes)}}}}, small}, 1},
	} {
		b, err := encode(c.ops)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.chunk(0); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		var ops []*fsmpb.Op
		var encoded []byte
		for at := 0; at < len(c.ops); {
			part := b.part(at, at+b.chunk(at))
			if got := part.chunk(0); got != len(part.ops) {
				t.Errorf("%s: of a part of %d operations %d fit", c.name, len(part.ops), got)
			}
			if half := part.part(len(part.ops)/2, len(part.ops)); !bytes.HasSuffix(part.encoded, half.encoded) {
				t.Errorf("%s: the end of a part differs", c.name)
			}
			at += len(part.ops)
			ops, encoded = append(ops, part.ops...), append(encoded, part.encoded...)
		}
		if !slices.Equal(ops, c.ops) || !bytes.Equal(encoded, b.encoded) {
			t.Errorf("%s: its parts are not the whole", c.name)
		}
	}
	many := make([]*fsmpb.Op, 3*limits.MaxEntryOps)
	for i := range many {
		many[i] = small
	}
	b, err := encode(many)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.chunk(limits.MaxEntryOps); got != limits.MaxEntryOps {
		t.Errorf("count bounds the second entry: %d", got)
	}
	if got := b.chunk(0); got != limits.MaxEntryOps {
		t.Errorf("count bounds an entry: %d", got)
	}
}
