package cluster

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/internal/peer"
)

// TestDo_goesWithTheNextLease: on a node that decides many commands at a time, an answer waits for the next lease, and
// no other goroutine is woken for that.
func TestDo_goesWithTheNextLease(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal()
	for what, n := range map[string]*Node{"leader": b.leader(), "follower": b.follower()} {
		n.replica.Hub.Deciding.Add(replica.BusyBatches)
		n.replica.Hub.LeaseHeld, n.replica.Hub.AnswerHeld = ample, ample
		const jobs = 20
		w := newHand(t, n, rota.WorkerID(what), 1)
		submitAll(t, n, specs(what, jobs))
		lease := w.take(1)[0]
		for i := range jobs - 1 {
			select {
			case <-w.s.Notified():
			default:
			}
			if i%5 == 0 {
				w.beat() // a busy machine may take long
			}
			if a := w.do(rota.VerbComplete, lease)[0]; a.Err != nil {
				t.Fatal(a.Err)
			}
			if len(w.s.Notified()) > 0 {
				t.Errorf("%s, job %d: the stream's own goroutine is woken as well", what, i)
			}
			notices := w.s.Take()
			if len(notices) != 1 || notices[0].Assigned == nil {
				t.Fatalf("%s, job %d: notices %+v are in the answer, want a lease", what, i, notices)
			}
			lease = *notices[0].Assigned
		}
		n.replica.Hub.AnswerHeld = 0
		w.do(rota.VerbComplete, lease) // with no lease to wait for
		n.replica.Hub.Deciding.Add(-replica.BusyBatches)
		if err := w.s.Bye(within(t, ample)); err != nil { // it would take the other's jobs
			t.Fatal(err)
		}
	}
}

// TestDo_answersWhatBringsNoLease: however long answers wait for leases, those to acks and renewals do not, and waiting
// ones do not count as being decided.
func TestDo_answersWhatBringsNoLease(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	w := newHand(t, n, "w1", 4)
	submitAll(t, n, specs("j", 4))
	leases := w.take(4)
	n.replica.Hub.Deciding.Add(replica.BusyBatches)
	n.replica.Hub.AnswerHeld = ample
	w.do(rota.VerbAck, leases...)
	w.do(rota.VerbRenew, leases...)
	waiting := func() bool {
		return w.s.AnswerWaits()
	}
	ctx, leave := context.WithCancel(t.Context())
	mixed, done := make(chan struct{}), make(chan struct{})
	go func() { // an answer with an ack or renewal of another lease must not wait
		defer close(mixed)
		_, _ = w.s.Do(ctx, []peer.LeaseCommand{{Verb: rota.VerbComplete, Lease: leases[2].Lease.ID,
			Job: leases[2].Lease.Job},
			{Verb: rota.VerbRenew, Lease: leases[3].Lease.ID, Job: leases[3].Lease.Job, Ordinal: 2}})
	}()
	for answered := false; !answered; {
		select {
		case <-mixed:
			answered = true
		case <-time.After(time.Millisecond):
			if waiting() {
				t.Fatal("the answer to a renewal waits for a lease, because a completion came with it")
			}
		}
	}
	go func() {
		defer close(done)
		first := peer.LeaseCommand{Lease: leases[0].Lease.ID, Job: leases[0].Lease.Job}
		acked, completed := first, first
		acked.Verb, completed.Verb = rota.VerbAck, rota.VerbComplete
		_, _ = w.s.Do(ctx, []peer.LeaseCommand{acked, completed})
	}()
	for end := time.Now().Add(ample); !waiting(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the answer to a completion waits for no lease")
		}
	}
	if got := n.replica.Hub.Deciding.Load(); got != replica.BusyBatches {
		t.Errorf("%d batches are decided in addition to those of the test: a pending answer counts",
			got-replica.BusyBatches)
	}
	w.do(rota.VerbComplete, leases[1]) // one is already waiting
	leave()
	<-done
}

// TestDo_holdsNothingBackForLong: a lease that waits for an answer which does not come is sent without it, and only
// leases wait.
func TestDo_holdsNothingBackForLong(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	w := newHand(t, n, "w1", 1)
	w.s.Take()
	n.replica.Hub.Deciding.Add(replica.BusyBatches)
	w.s.Begin()
	told := func(what string, notice peer.Notice) {
		t.Helper()
		select {
		case <-w.s.Notified():
		default:
		}
		w.s.Push(notice)
		select {
		case <-w.s.Notified():
		case <-within(t, ample).Done():
			t.Fatalf("%s is held back forever", what)
		}
		if got := w.s.Take(); len(got) != 1 {
			t.Fatalf("notices %+v", got)
		}
	}
	for range 3 {
		told("a lease", peer.Notice{Assigned: &rota.Assignment{Lease: rota.Lease{ID: rota.LeaseID{1}}}})
	}
	n.replica.Hub.LeaseHeld = 100 * ample
	told("a revocation", peer.Notice{Revoked: &peer.LeaseEnd{}})
}

// TestGraced: once a lease with a grace was assigned, by a notice or among all open ones, the worker must receive an
// acknowledgement of each beat.
func TestGraced(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).node("n1")
	for _, grace := range []int{0, 20_000} {
		set := []rota.Setting{{Key: "lease_grace_on_disconnect_ms", Value: strconv.Itoa(grace)}}
		if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "", set); err != nil {
			t.Fatal(err)
		}
		w := &hand{t: t, id: rota.WorkerID(fmt.Sprintf("w%d", grace)), slots: 1,
			link: peer.WorkerLink{Connection: 1, Grace: true}}
		w.connect(n)
		w.s.Take() // none yet: the next one is a notice
		submitAll(t, n, specs(fmt.Sprintf("j%d", grace), 1))
		lease := w.take(1)[0]
		if got := w.s.Graced(); got != (grace > 0) {
			t.Errorf("with a grace of %d ms it asks for confirmation: %v", grace, got)
		}
		w.connect(n)
		w.take(1)
		if got := w.s.Graced(); got != (grace > 0) {
			t.Errorf("with a grace of %d ms it asks for confirmation on another connection: %v", grace, got)
		}
		w.do(rota.VerbComplete, lease)
		if err := w.s.Bye(within(t, ample)); err != nil {
			t.Fatal(err)
		}
	}
}
