package sched

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// impossible creates a queue of jobs that no worker's capabilities suffice for, one per class, and workers that serve a
// queue and whose turns are due.
func impossible(jobs, workers int, serve rota.QueueName) (*Supply, Lot) {
	s, p, policy := NewSupply(), NewPending(true), rota.StandardPolicy()
	for i := range workers {
		s.Put(WorkerEntry{Spec: &rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("w%05d", i)),
			Queues: []rota.QueueName{serve}, Slots: 4}, Active: true, Received: 100, Health: 1000})
	}
	for i := range jobs {
		spec := &rota.JobSpec{ID: rota.JobID(fmt.Sprint("j", i)), Queue: "q", Type: "t", Tenant: "x", Priority: 5,
			Requires: []string{fmt.Sprint("c", i)}}
		p.Add(&Item{ID: spec.ID, Key: int64(i), Enqueued: rota.Clock(i), Queued: rota.Clock(i),
			Class: s.Intern(RequirementsOf(spec)), JobSpec: spec})
	}
	return s, Lot{Pending: p, Policy: &policy, Queue: "q"}
}

// TestTurnsLookAtNoJobInVain checks the cost of a worker whose turn is due and that could take none of a queue's jobs:
// a bit of a set, not a look at every class, as there may be many idle workers and many impossible jobs.
func TestTurnsLookAtNoJobInVain(t *testing.T) {
	t.Parallel()
	for _, serve := range []rota.QueueName{"q", "other"} {
		t.Run("workers of "+string(serve), func(t *testing.T) {
			t.Parallel()
			s, lot := impossible(50, 20, serve)
			d := NewDraft(s, nil)
			lists := d.ageLists([]Lot{lot})
			for _, slot := range s.order {
				if l, _ := d.oldestFor(lists, slot); l != nil {
					t.Fatal("a job was found for a worker that fits none")
				}
			}
			for _, l := range lists.all {
				if len(l.list) > 0 {
					t.Errorf("%d classes were looked at, of which no worker fits one", len(l.list))
				}
			}
		})
	}
}

// TestTurnsAreNotBoundByPreemption checks that a hold by preemption, which is outside the bound on holds (SPEC §7.9),
// keeps no turn of the oldest from holding its worker.
func TestTurnsAreNotBoundByPreemption(t *testing.T) {
	t.Parallel()
	s, lot := impossible(0, 2, "q")
	for _, id := range []rota.WorkerID{"w00000", "w00001"} { // no cpu is free
		s.Put(WorkerEntry{Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q"}, Slots: 4, CPUMilli: 1000},
			CPUTaken: 1000, Active: true, Received: 100, Health: 1000})
	}
	var items []*Item
	for i, priority := range []int32{0, 5} {
		spec := &rota.JobSpec{ID: rota.JobID(fmt.Sprint("j", i)), Queue: "q", Type: "t", Tenant: "x", CPUMilli: 500,
			Priority: priority}
		items = append(items, &Item{ID: spec.ID, Key: int64(i), Enqueued: rota.Clock(i),
			Class: s.Intern(RequirementsOf(spec)), JobSpec: spec})
		lot.Pending.Add(items[i])
	}
	s.Hold("w00000", true)
	holds := []Hold{{Item: items[0], Worker: "w00000", Lot: lot, Preempted: true}}
	d := NewDraft(s, nil)
	if pair, ok := d.PlaceHeld(holds[0], 10); ok {
		t.Fatalf("placed without room: %v", pair)
	}
	if pairs := d.Turns([]Lot{lot}, 10, 9); len(pairs) != 0 {
		t.Fatalf("placed without room: %v", pairs)
	}
	changes := d.Keep([]Lot{lot}, holds, 10)
	if len(changes) != 1 || changes[0].Item != items[1] || changes[0].Worker != "w00001" || !changes[0].Turn {
		t.Fatalf("holds %+v: the turn of w00001 holds it", changes)
	}
}

// TestWantsRoomAsksOnce checks that for a class without room the workers are searched once, however many critical jobs
// of it wait.
func TestWantsRoomAsksOnce(t *testing.T) {
	t.Parallel()
	s, lot := impossible(2, 0, "q")
	extra := &Item{ID: "more", Key: 9, Enqueued: 9}
	lot.Pending.Critical(func(*Item) bool { t.Fatal("none is critical"); return false })
	spec := &rota.JobSpec{ID: "more", Queue: "q", Type: "t", Tenant: "x", CPUMilli: 5}
	extra.Class, extra.JobSpec = s.Intern(RequirementsOf(spec)), spec
	lot.Pending.Add(extra)
	d := NewDraft(s, nil)
	if !d.WantsRoom(lot, extra) || !d.roomless[ScopedClass{Class: extra.Class}] || len(d.roomless) != 1 {
		t.Fatalf("without any worker: %v", d.roomless)
	}
	if !d.WantsRoom(lot, extra) {
		t.Fatal("asked again it has room")
	}
	s.Put(WorkerEntry{Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 1, CPUMilli: 5},
		Active: true, Health: 1000})
	if d = NewDraft(s, nil); d.WantsRoom(lot, extra) || len(d.roomless) != 0 {
		t.Fatalf("with a worker: %v", d.roomless)
	}
}
