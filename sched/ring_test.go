package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
)

// maxGhosts is the number of ghosts at which a ring is compacted (SPEC §14, DFPS-R §4).
const maxGhosts = 20_000

// ring is the FIFO of a tier that the source describes and the product does not use (DESIGN.md): jobs in the order of
// entering. Removed jobs stay as ghosts until they come up or there are too many.
type ring struct {
	seats  []ringSeat // a power of two
	at, n  int
	live   map[rota.JobID]uint64
	ticket uint64
	ghosts int
	most   int
}

type ringSeat struct {
	item   *Item
	ticket uint64
}

func newRing(most int) *ring { return &ring{live: map[rota.JobID]uint64{}, most: most} }

func (r *ring) seat(i int) *ringSeat { return &r.seats[(r.at+i)&(len(r.seats)-1)] }

func (r *ring) is(s *ringSeat) bool { return r.live[s.item.ID] == s.ticket }

func (r *ring) add(it *Item) {
	if r.n == len(r.seats) {
		seats := make([]ringSeat, max(8, 2*r.n))
		for i := range r.n {
			seats[i] = *r.seat(i)
		}
		r.seats, r.at = seats, 0
	}
	r.ticket++
	r.live[it.ID] = r.ticket
	*r.seat(r.n) = ringSeat{it, r.ticket}
	r.n++
}

func (r *ring) remove(it *Item) {
	delete(r.live, it.ID)
	if r.ghosts++; r.ghosts < r.most {
		return
	}
	kept := 0
	for i := range r.n {
		if s := *r.seat(i); r.is(&s) {
			*r.seat(kept) = s
			kept++
		}
	}
	for i := kept; i < r.n; i++ {
		*r.seat(i) = ringSeat{}
	}
	r.n, r.ghosts = kept, 0
}

// pop removes the first job.
func (r *ring) pop() *Item {
	for r.n > 0 {
		s := *r.seat(0)
		*r.seat(0) = ringSeat{}
		r.at, r.n = (r.at+1)&(len(r.seats)-1), r.n-1
		if r.is(&s) {
			delete(r.live, s.item.ID)
			return s.item
		}
		r.ghosts--
	}
	return nil
}

// sample finds the first jobs that may go.
func (r *ring) sample(n int, may func(*Item) bool) (out []*Item) {
	for i := 0; i < r.n && len(out) < n; i++ {
		if s := r.seat(i); r.is(s) && may(s.item) {
			out = append(out, s.item)
		}
	}
	return out
}

// TestRing compares the ring with the index: the same jobs in the same order, whatever is added, removed and taken.
func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, p := newRing(rapid.IntRange(1, 9).Draw(t, "ghosts")), NewTiered(5)
		var live []*Item
		leave := func(it *Item) {
			p.Remove(it)
			live = slices.DeleteFunc(live, func(x *Item) bool { return x == it })
		}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what < 3:
				it := &Item{ID: rota.JobID(fmt.Sprint("j", rapid.IntRange(0, 30).Draw(t, "id"))),
					TierPlace: &TierPlace{TierSeq: uint64(i)}, JobSpec: &rota.JobSpec{}}
				if slices.ContainsFunc(live, func(x *Item) bool { return x.ID == it.ID }) {
					continue
				}
				r.add(it)
				p.Add(it)
				live = append(live, it)
			case what == 3 && len(live) > 0:
				it := rapid.SampledFrom(live).Draw(t, "job")
				r.remove(it)
				leave(it)
			case what == 4:
				front := p.TierFront(0)
				if got := r.pop(); got != front {
					t.Fatalf("the ring gives %v, the index %v", got, front)
				}
				if front != nil {
					leave(front)
				}
			}
			if r.ghosts >= r.most || r.n-r.ghosts != p.Len() || len(live) != p.Len() {
				t.Fatalf("%d seats, %d ghosts of %d, %d jobs, %d in the index", r.n, r.ghosts, r.most, len(live),
					p.Len())
			}
		}
		if got := r.sample(99, func(*Item) bool { return true }); !slices.Equal(got, live) {
			t.Fatalf("the ring holds %d jobs, want %d, or in another order", len(got), len(live))
		}
	})
}

// tierFIFO is one of the two implementations.
type tierFIFO struct {
	add, remove func(*Item)
	pop         func()
	sample      func(may func(*Item) bool) int
}

func ringFIFO() tierFIFO {
	r := newRing(maxGhosts)
	return tierFIFO{r.add, r.remove, func() { r.pop() },
		func(may func(*Item) bool) int { return len(r.sample(256, may)) }}
}

// indexFIFO is the whole adaptive queue, including lanes and ages.
func indexFIFO() tierFIFO {
	p := NewTiered(5)
	s := NewSupply()
	s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 256}})
	s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q"}))
	policy := rota.StandardPolicy()
	p.Throttle("blocked", true)
	return tierFIFO{p.Add, func(it *Item) { p.Remove(it) }, func() { p.Remove(p.TierFront(2)) },
		func(func(*Item) bool) int {
			return len(NewDraft(s, nil).Round(p, RoundInput{Policy: &policy, Limit: 256}))
		}}
}

// orderFIFO is only the ordered index of a tier.
func orderFIFO() tierFIFO {
	var o ordered[entry]
	of := NewTiered(5).entryOf
	return tierFIFO{func(it *Item) { o.insert(of(it), entryLess) }, func(it *Item) { o.remove(of(it), entryLess) },
		func() {
			e, _ := o.min()
			o.remove(e, entryLess)
		}, nil}
}

// BenchmarkTierFIFO measures both implementations of SPEC §14 with 1,000,000 jobs in one tier.
func BenchmarkTierFIFO(b *testing.B) {
	const million = 1_000_000
	items := make([]*Item, million)
	for i := range items {
		tenant := rota.TenantID("open")
		if i < million/10 {
			tenant = "blocked"
		}
		items[i] = &Item{ID: rota.JobID(fmt.Sprintf("job-%016x", i)),
			TierPlace: &TierPlace{Tier: 2, TierSeq: uint64(i)}, JobSpec: &rota.JobSpec{Priority: 5, Tenant: tenant}}
	}
	for _, c := range []struct {
		name string
		open func() tierFIFO
	}{{"ring with ghosts", ringFIFO}, {"ordered index", orderFIFO}, {"adaptive queue", indexFIFO}} {
		before := heapNow()
		f := c.open()
		for _, it := range items {
			f.add(it)
		}
		perJob := float64(heapNow()-before) / million
		fill := func(b *testing.B) {
			b.StopTimer()
			f = c.open()
			for i, it := range items {
				it.TierSeq = uint64(i)
				f.add(it)
			}
			b.StartTimer()
		}
		b.Run(c.name+"/remove and add", func(b *testing.B) {
			r := rand.New(rand.NewChaCha8(Hash{1}))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				it := items[r.IntN(million)]
				f.remove(it)
				it.TierSeq = uint64(million + i)
				f.add(it)
			}
			b.ReportMetric(perJob, "B/job")
		})
		b.Run(c.name+"/drain 5000", func(b *testing.B) {
			for b.Loop() {
				fill(b)
				for range 5_000 {
					f.pop()
				}
			}
		})
		if f.sample != nil {
			b.Run(c.name+"/256 behind 100000 blocked", func(b *testing.B) {
				fill(b)
				for b.Loop() {
					if f.sample(func(it *Item) bool { return it.Tenant != "blocked" }) != 256 {
						b.Fatal("too few")
					}
				}
			})
		}
	}
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
