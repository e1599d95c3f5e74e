package sched

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
)

func TestHash(t *testing.T) {
	t.Parallel()
	t.Run("is the same for long parts", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200), 0, 6).Draw(t, "parts")
			var m Message
			for _, p := range parts {
				m.Text(string(p))
			}
			if m.Sum() != H(parts...) {
				t.Fatal("text and bytes differ")
			}
		})
	})
}

// TestTieAllocates is not parallel, as counting allocations requires.
func TestTieAllocates(t *testing.T) {
	seed := Hash{1}
	if n := testing.AllocsPerRun(100, func() { Tie("job-0123456789", "worker-0123456789", seed) }); n != 0 {
		t.Errorf("a tie allocates %v times", n)
	}
}

func TestBackoffMs(t *testing.T) {
	t.Parallel()
	p := rota.StandardPolicy()
	for attempt := range int32(1000) {
		d := BackoffMs("job", attempt, &p)
		if d < 0 || d > p.BackoffCapMs*11/10 {
			t.Fatalf("attempt %d waits %d ms", attempt, d)
		}
	}
	p.BackoffBaseMs = 0
	if d := BackoffMs("job", 9, &p); d != 0 {
		t.Errorf("a base of 0 waits %d ms", d)
	}
	p.BackoffBaseMs, p.BackoffCapMs = 5_000, 1_000
	if d := BackoffMs("job", 0, &p); d > 1_100 {
		t.Errorf("a base over the cap waits %d ms", d)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	t.Run("counts failures without a sample", func(t *testing.T) {
		t.Parallel()
		s := Stats{}.Observe(-1, false, 1000).Observe(800, true, 1000)
		if s.Fail != 1 || s.Success != 1 || s.EMAus != 800 {
			t.Errorf("%+v: the first sample must count as it is", s)
		}
		if s = s.Observe(0, true, 1000); s.EMAus != 700 {
			t.Errorf("ema is %d, want 700", s.EMAus)
		}
	})
	t.Run("halves at the window", func(t *testing.T) {
		t.Parallel()
		s := Stats{Success: 5, Fail: 4}.Observe(1, true, 10)
		if s.Success != 3 || s.Fail != 2 {
			t.Errorf("%+v, want 3 and 2", s)
		}
	})
}

func TestScoreAt(t *testing.T) {
	t.Parallel()
	p := rota.StandardPolicy()
	key := RankKey(&p, 5, 0, 0, rota.TierFree, 1_000, 0)
	for _, c := range []struct {
		now  rota.Clock
		want int64
	}{{1_000, 5_000}, {11_000, 4_000}, {61_000, -1_000}, {61_001, -1_001}} {
		if got := ScoreAt(&p, key, c.now); got != c.want {
			t.Errorf("aging at %d: %d, want %d", c.now, got, c.want)
		}
	}
	p.Ranking = rota.RankFIFO
	if got := ScoreAt(&p, RankKey(&p, 5, 0, 0, rota.TierFree, 1_000, 0), 1_500); got != 500 {
		t.Errorf("fifo: %d, want 500", got)
	}
	p.Ranking = rota.RankShortest
	for aging, want := range map[int64]int64{10: 6_950, 0: 7_000} { // of 7 s, after half a second
		p.ShortestAging = aging
		if got := ScoreAt(&p, RankKey(&p, 5, 0, 0, rota.TierFree, 1_000, 7_000), 1_500); got != want {
			t.Errorf("shortest, aging %d: %d, want %d", aging, got, want)
		}
	}
}

func TestCompareTurn(t *testing.T) {
	t.Parallel()
	const most = 1<<64 - 1
	for _, c := range []struct {
		a, aw uint64
		an    rota.QueueName
		b, bw uint64
		bn    rota.QueueName
		want  int
	}{
		{1, 2, "a", 1, 3, "a", 1},
		{2, 4, "a", 1, 2, "b", -1},
		{2, 4, "b", 1, 2, "a", 1},
		{most, most, "a", most - 1, most, "a", 1},
		{most, 1, "a", most, 2, "a", 1},
		{0, 0, "a", 0, 1, "a", 0},
	} {
		if got := CompareTurn(c.a, c.aw, c.an, c.b, c.bw, c.bn); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
		if got := CompareTurn(c.b, c.bw, c.bn, c.a, c.aw, c.an); got != -c.want {
			t.Errorf("%+v: %d the other way round", c, got)
		}
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	t.Run("are sorted copies", func(t *testing.T) {
		t.Parallel()
		spec := rota.JobSpec{Requires: []string{"b", "a", "b"}}
		r := RequirementsOf(&spec)
		sorted := slices.Equal(r.Requires, []string{"a", "b"})
		if !sorted || spec.Requires[0] != "b" || r.Queue != rota.DefaultQueue {
			t.Errorf("%+v of %+v", r, spec)
		}
	})
	t.Run("have keys that tell them apart", func(t *testing.T) {
		t.Parallel()
		words := rapid.SampledFrom([]string{"", "a", "b", "ab", "\x01a", "a\x00b"})
		rapid.Check(t, func(t *rapid.T) {
			var specs [2]Requirements
			for i := range specs {
				list := func(name string) []string { return rapid.SliceOfN(words, 0, 3).Draw(t, name) }
				specs[i] = RequirementsOf(&rota.JobSpec{
					Queue: rota.QueueName("q" + words.Draw(t, "queue")), Requires: list("requires"),
					RegionsAllow: list("allow"), RegionsDeny: list("deny"),
					Worker:      rota.WorkerID(words.Draw(t, "worker")),
					CPUMilli:    rapid.Int64Range(0, 300).Draw(t, "cpu"),
					MemoryBytes: rapid.Int64Range(0, 2).Draw(t, "mem"),
				})
			}
			equal := reflect.DeepEqual(specs[0], specs[1])
			if (specs[0].Key() == specs[1].Key()) != equal {
				t.Fatalf("%+v and %+v: equal %v", specs[0], specs[1], equal)
			}
		})
	})
}

// TestFits checks each rule by which a worker may not take a job.
func TestFits(t *testing.T) {
	t.Parallel()
	spec := rota.WorkerSpec{
		ID: "w", Queues: []rota.QueueName{"q"}, Slots: 2, Prefetch: 1, Region: "eu", Capabilities: []string{"gpu"},
		CPUMilli: 1000, MemoryBytes: 1000,
	}
	idle := WorkerEntry{Spec: &spec, Active: true}
	for _, c := range []struct {
		name   string
		worker WorkerEntry
		job    rota.JobSpec
		most   int64
		want   Unfit
		ever   int
	}{
		{"fits", idle, rota.JobSpec{Requires: []string{"gpu"}, CPUMilli: 1000}, 0, Fit, 1},
		{"another worker", idle, rota.JobSpec{Worker: "x"}, 0, NotThePinnedWorker, 0},
		{"another queue", idle, rota.JobSpec{Queue: "r"}, 0, NotServingTheQueue, 0},
		{"draining", WorkerEntry{Spec: &spec}, rota.JobSpec{}, 0, NotActive, 0},
		{"denied", idle, rota.JobSpec{RegionsDeny: []string{"eu"}}, 0, RegionDenied, 0},
		{"not allowed", idle, rota.JobSpec{RegionsAllow: []string{"us"}}, 0, RegionDenied, 0},
		{"incapable", idle, rota.JobSpec{Requires: []string{"tpu"}}, 0, CapabilityMissing, 0},
		{"too small", idle, rota.JobSpec{CPUMilli: 1001}, 0, CPUFull, 0},
		{"full", WorkerEntry{Spec: &spec, Active: true, Open: 3}, rota.JobSpec{}, 0, NoFreeSlot, 1},
		{"at the queue's most", WorkerEntry{Spec: &spec, Active: true, Open: 2}, rota.JobSpec{}, 2, NoFreeSlot, 1},
		{"below it", WorkerEntry{Spec: &spec, Active: true, Open: 1}, rota.JobSpec{}, 2, Fit, 1},
		{"cpu taken", WorkerEntry{Spec: &spec, Active: true, CPUTaken: 1}, rota.JobSpec{CPUMilli: 1000}, 0,
			CPUFull, 1},
		{"needs no cpu", WorkerEntry{Spec: &spec, Active: true, CPUTaken: 2000}, rota.JobSpec{}, 0, Fit, 1},
		{"memory taken", WorkerEntry{Spec: &spec, Active: true, MemoryTaken: 1}, rota.JobSpec{MemoryBytes: 1000}, 0,
			MemoryFull, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := NewSupply()
			s.Put(c.worker)
			if c.job.Queue == "" {
				c.job.Queue = "q"
			}
			class := s.Intern(RequirementsOf(&c.job))
			s.SetRules("q", Rules{LeasesMax: c.most, PrefetchMax: rota.MaxPrefetch})
			ok, why := s.Fits(Ask{Class: class}, "w")
			if why != c.want || ok != (why == Fit) || s.EverFits(Ask{Class: class}) != c.ever {
				t.Errorf("%v %s, want %s; %d ever fit, want %d", ok, why, c.want, s.EverFits(Ask{Class: class}), c.ever)
			}
			if _, why := s.Fits(Ask{Class: class}, "nobody"); why != NoSuchWorker {
				t.Errorf("unknown worker: %s", why)
			}
		})
	}
}

// TestClasses interns and releases: the last user removes the class.
func TestClasses(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	plain := RequirementsOf(&rota.JobSpec{Queue: "q"})
	gpu := RequirementsOf(&rota.JobSpec{Queue: "q", Requires: []string{"gpu"}})
	a, b := s.Intern(plain), s.Intern(gpu)
	if a == b || s.Intern(plain) != a || s.Classes("q") != 2 {
		t.Fatalf("classes %d and %d, %d live", a, b, s.Classes("q"))
	}
	s.Release(a)
	if s.Classes("q") != 2 {
		t.Error("a class was forgotten before its last user")
	}
	s.Release(a)
	if s.Classes("q") != 1 || s.Intern(RequirementsOf(&rota.JobSpec{Queue: "r"})) != a {
		t.Error("a free number was not given again")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestOrder compares the order of entries with that of SPEC §5, and checks that it is total.
func TestOrder(t *testing.T) {
	t.Parallel()
	small := rapid.Int64Range(0, 1)
	rapid.Check(t, func(t *rapid.T) {
		var e [3]entry
		for i := range e {
			e[i] = entryOf(&Item{Key: small.Draw(t, "key"), Enqueued: rota.Clock(small.Draw(t, "enqueued")),
				Number: uint64(small.Draw(t, "number")),
				ID:     rota.JobID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"))})
		}
		a, b, c := e[0], e[1], e[2]
		want := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.age, b.age), cmp.Compare(a.item.Number, b.item.Number),
			cmp.Compare(a.item.ID, b.item.ID))
		if entryLess(a, b) != (want < 0) || entryLess(b, a) != (want > 0) {
			t.Fatalf("%v and %v", a, b)
		}
		if entryLess(a, b) && entryLess(b, c) && !entryLess(a, c) {
			t.Fatalf("%v, %v and %v", a, b, c)
		}
	})
}

// TestDraft spans queues: what one round takes is gone for the next one.
func TestDraft(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	spec := rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q", "r"}, Slots: 3}
	s.Put(WorkerEntry{Active: true, Spec: &spec})
	policy := rota.StandardPolicy()
	draft, total := NewDraft(s, nil), 0
	for _, q := range []rota.QueueName{"q", "r"} {
		pending := NewPending(true)
		class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: q}))
		for i := range 2 {
			pending.Add(&Item{ID: rota.JobID(fmt.Sprintf("%s%d", q, i)), Class: class,
				JobSpec: &rota.JobSpec{Tenant: "t"}})
		}
		total += len(draft.Round(pending, RoundInput{Policy: &policy, Limit: 256}))
		if pending.Len() != 2 {
			t.Error("a round changed its queue")
		}
	}
	if total != 3 {
		t.Errorf("%d assignments on 3 slots", total)
	}
	if ok, why := s.Fits(Ask{}, "w"); !ok {
		t.Errorf("a round changed the supply: %s", why)
	}
}
