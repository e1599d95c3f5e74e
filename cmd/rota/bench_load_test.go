package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// A load that does not slow down gives up what is refused, counts it, and loses none of
// what was accepted.
func TestProducers_drop(t *testing.T) {
	t.Parallel()
	book, to := newLedger("run", 25), &flaky{tries: map[rota.JobID]int{}}
	for i := 0; i < 25; i += 5 {
		to.tries[book.id(i)] = 2 // these were refused before
	}
	p := &producers{to: to, book: book, count: 3, batch: 10, drop: true,
		spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: book.id(i)} }}
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if book.accepted.Load() != 5 || book.refused.Load() != 20 || book.hintless.Load() != 0 {
		t.Errorf("accepted %d, refused %d, of them without a delay %d: 5, 20 and 0 are wanted", book.accepted.Load(),
			book.refused.Load(), book.hintless.Load())
	}
	book.refuse(3, 0)
	if book.refused.Load() != 23 || book.hintless.Load() != 3 {
		t.Errorf("refused %d, without a delay %d", book.refused.Load(), book.hintless.Load())
	}
}

// A second handler of a job is counted, also where the first has ended.
func TestLedger_reruns(t *testing.T) {
	t.Parallel()
	l := newLedger("run", 2)
	for range 2 {
		l.start(l.id(0))
		l.stop(l.id(0))
	}
	l.start(l.id(1))
	if l.reruns.Load() != 1 || l.overlaps.Load() != 0 {
		t.Errorf("%d reruns, %d overlaps: 1 and 0 are wanted", l.reruns.Load(), l.overlaps.Load())
	}
}

// Every queue is served, however they are parted, and nobody serves more than one may.
func TestCrewQueues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ queues, workers int }{{1, 1}, {3, 4}, {256, 1}, {257, 2}, {1_000, 4}, {1_000, 7}, {1_000, 10_000}} {
		plan := crewPlan{queues: benchQueues("q", c.queues), workers: c.workers}
		served := map[rota.QueueName]bool{}
		for i := range c.workers {
			own := plan.queuesOf(i)
			if len(own) > rota.MaxQueuesPerWorker {
				t.Fatalf("%d queues, %d workers: worker %d serves %d", c.queues, c.workers, i, len(own))
			}
			for _, q := range own {
				served[q] = true
			}
		}
		if len(served) != c.queues {
			t.Errorf("%d queues, %d workers: %d are served", c.queues, c.workers, len(served))
		}
	}
}

// Jobs take turns among queues and tenants; one of each is the plain case.
func TestBenchSpecs(t *testing.T) {
	t.Parallel()
	book := newLedger("run", 6)
	one := benchSpecs(book, benchQueues("q", 1), 1, 3)(4)
	if one.Queue != "q" || one.Tenant != rota.DefaultTenant || string(one.Payload) != "abc" {
		t.Errorf("%+v", one)
	}
	several := benchSpecs(book, benchQueues("q", 2), 3, 0)
	var got []string
	for i := range 6 {
		s := several(i)
		got = append(got, string(s.Queue)+"/"+string(s.Tenant))
	}
	want := []string{"q/default", "q-1/bench-1", "q/bench-2", "q-1/default", "q/bench-1", "q-1/bench-2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBenchFlags_check(t *testing.T) {
	t.Parallel()
	good := benchFlags{jobs: 1, producers: 1, batch: 1, workers: 2, slots: 1, queues: 512, tenants: 1, queue: "q"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	many := good
	if many.queues = 513; many.check() == nil {
		t.Error("more queues than the workers serve are not refused")
	}
	for _, line := range []string{"bench jobs --queue a!b", "bench fill --queue a!b", "bench jobs --tenants 0", "bench jobs --hold -1s",
		"bench fill --jobs 0", "bench fill --batch 1001", "bench fill --payload -1"} {
		if code, _, stderr := rotaLine(strings.Fields(line)...); code != exitUsage {
			t.Errorf("%s exits with %d: %s", line, code, stderr)
		}
	}
}
