package cluster

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestDo_goesWithTheNextLease: where many commands are decided at a time, an answer waits for the next lease, and
// nobody else is woken for that.
func TestDo_goesWithTheNextLease(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal()
	for what, n := range map[string]*Node{"leader": b.leader(), "follower": b.follower()} {
		n.replica.hub.deciding.Add(crowd)
		n.replica.hub.leaseHeld, n.replica.hub.answerHeld = ample, ample
		const jobs = 20
		w := newHand(t, n, rota.WorkerID(what), 1)
		submitAll(t, n, specs(what, jobs))
		lease := w.take(1)[0]
		for i := range jobs - 1 {
			select {
			case <-w.s.notify:
			default:
			}
			if a := w.do(rota.VerbComplete, lease)[0]; a.Err != nil {
				t.Fatal(a.Err)
			}
			if len(w.s.notify) > 0 {
				t.Errorf("%s, job %d: the stream's own goroutine is woken as well", what, i)
			}
			notices := w.s.Take()
			if len(notices) != 1 || notices[0].Assigned == nil {
				t.Fatalf("%s, job %d: notices %+v go with the answer, a lease is wanted", what, i, notices)
			}
			lease = *notices[0].Assigned
		}
		n.replica.hub.answerHeld = 0
		w.do(rota.VerbComplete, lease) // with no lease to wait for
		n.replica.hub.deciding.Add(-crowd)
		if err := w.s.Bye(within(t, ample)); err != nil { // it would take the other's jobs
			t.Fatal(err)
		}
	}
}

// TestDo_waitsWhereItHelps: at a node that has little to do, and for a worker that polls, neither answers nor leases
// wait, and nothing does where there is something to say already.
func TestDo_waitsWhereItHelps(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	stream, poller := newHand(t, n, "w1", 1).s, newHand(t, n, "w2", 1).s
	poller.company = nil // as OpenWorker leaves it
	stream.decides(1)
	poller.decides(1)
	for what, c := range map[string]struct {
		s            *WorkerSession
		deciding     int64
		said, lonely bool
	}{
		"a crowd":             {stream, crowd, false, true},
		"little to do":        {stream, crowd - 1, false, false},
		"something to say":    {stream, crowd, true, false},
		"a worker that polls": {poller, crowd, false, false},
	} {
		n.replica.hub.deciding.Store(c.deciding)
		c.s.Take()
		if c.said {
			c.s.push(peer.Notice{Draining: true})
		}
		if got := c.s.lonesome(); got != c.lonely {
			t.Errorf("%s: an answer waits: %v, %v is wanted", what, got, c.lonely)
		}
		c.s.lonely = 0
	}
}

// TestDo_holdsNothingBackForLong: a lease that waits for an answer which does not come goes without it.
func TestDo_holdsNothingBackForLong(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	w := newHand(t, n, "w1", 1)
	w.s.Take()
	n.replica.hub.deciding.Add(crowd)
	w.s.decides(1)
	for i := range 3 {
		select {
		case <-w.s.notify:
		default:
		}
		lease := rota.LeaseID{byte(i + 1)}
		w.s.push(peer.Notice{Assigned: &rota.Assignment{Lease: rota.Lease{ID: lease}}})
		select {
		case <-w.s.notify:
		case <-within(t, ample).Done():
			t.Fatalf("lease %d is held back for good", i)
		}
		if got := w.s.Take(); len(got) != 1 || got[0].Assigned.Lease.ID != lease {
			t.Fatalf("notices %+v", got)
		}
	}
}

// TestGraced: a worker that has been given a lease with a grace, by a notice or among all, is told of each beat that it
// was received.
func TestGraced(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	for _, grace := range []int{0, 20_000} {
		set := []rota.Setting{{Key: "lease_grace_on_disconnect_ms", Value: strconv.Itoa(grace)}}
		if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "", set); err != nil {
			t.Fatal(err)
		}
		w := &hand{t: t, id: rota.WorkerID(fmt.Sprintf("w%d", grace)), slots: 1, link: peer.WorkerLink{Connection: 1, Grace: true}}
		w.connect(n)
		w.s.Take() // nothing yet: what comes is a notice
		submitAll(t, n, specs(fmt.Sprintf("j%d", grace), 1))
		lease := w.take(1)[0]
		if got := w.s.Graced(); got != (grace > 0) {
			t.Errorf("with a grace of %d ms it is told: %v", grace, got)
		}
		w.connect(n)
		w.take(1)
		if got := w.s.Graced(); got != (grace > 0) {
			t.Errorf("with a grace of %d ms it is told on another connection: %v", grace, got)
		}
		w.do(rota.VerbComplete, lease)
		if err := w.s.Bye(within(t, ample)); err != nil {
			t.Fatal(err)
		}
	}
}
