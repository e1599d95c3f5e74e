package sched

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/rotasched/rota"
)

// fewAtATime limits each key to a number of leases; keys in full get none.
type fewAtATime struct {
	most int64
	full map[string]bool
}

func (fewAtATime) Tenant(rota.TenantID) int64                 { return math.MaxInt64 }
func (fewAtATime) Window(rota.QueueName, rota.TenantID) int64 { return math.MaxInt64 }
func (fewAtATime) Domain(rota.QueueName, string) int64        { return math.MaxInt64 }

func (r fewAtATime) Counts(it *Item, to []string) ([]string, bool) {
	return append(to, it.Keys...), true
}
func (r fewAtATime) Party(it *Item) string         { return it.Keys[0] }
func (r fewAtATime) Turn(*Item, int64, bool) int64 { return 0 }
func (r fewAtATime) Full(count string) bool        { return r.full[count] }
func (fewAtATime) Amount(string) Amount            { return Amount{Left: math.MaxInt64} }
func (fewAtATime) Weight(string, *Item) int64      { return 1 }
func (r fewAtATime) Key(count string) int64 {
	if r.full[count] {
		return 0
	}
	return r.most
}

func keyedItem(n int, keys ...string) *Item {
	return &Item{ID: rota.JobID(fmt.Sprint("j", n)), Key: int64(n),
		JobSpec: &rota.JobSpec{Queue: "q", Type: "t", Tenant: "t", Keys: keys}}
}

// TestKeys_countWithinARound checks that assignments of a round count at once, and that a full key's jobs delay no
// others.
func TestKeys_countWithinARound(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 100}})
	class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Type: "t"}))
	ring := fewAtATime{most: 2, full: map[string]bool{"a:full": true}}
	p, keys := NewPending(false), NewKeys(ring)
	p.SetKeys(keys)
	for i, key := range []string{"a:full", "a:1", "a:1", "a:1", "a:full", "a:2", "a:1", "a:2", "a:2"} {
		it := keyedItem(i, key)
		it.Class = class
		p.Add(it)
	}
	policy := rota.StandardPolicy()
	got := map[string]int{}
	for _, pair := range NewDraft(s, ring).Round(p, RoundInput{Queue: "q", Policy: &policy, Limit: 256}) {
		got[pair.Item.Keys[0]]++
	}
	if len(got) != 2 || got["a:1"] != 2 || got["a:2"] != 2 {
		t.Fatalf("%v were assigned", got)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	delete(ring.full, "a:full")
	keys.SetFull("a:full", false)
	if err := p.Check(); err != nil || p.ThrottledLanes() != 0 {
		t.Fatal(p.ThrottledLanes(), err)
	}
	p.Forget()
	if len(keys.rows) != 0 {
		t.Errorf("%d counts have lanes of a queue that is gone", len(keys.rows))
	}
}

// TestKeys_comeBackInNoOrder checks that parties whose lanes come back at once have the same turns whichever was filed
// first, as a restored machine files them in another order.
func TestKeys_comeBackInNoOrder(t *testing.T) {
	t.Parallel()
	turns := func(parties ...string) map[string]int64 {
		ring := newWorldRing()
		ring.turn, ring.last, ring.restoring = map[string]int64{"p:a": 4, "p:b": 5}, 4, true
		s, keys, p := NewSupply(), NewKeys(ring), NewGrouped()
		p.SetKeys(keys)
		for i, party := range parties {
			it := keyedItem(i, "c:1", party)
			it.Class = s.Intern(RequirementsOf(it.JobSpec))
			p.Add(it)
		}
		ring.restoring = false
		for _, full := range []bool{true, false} {
			ring.full["c:1"] = full
			keys.SetFull("c:1", full)
		}
		return ring.turn
	}
	if got, other := turns("p:a", "p:b"), turns("p:b", "p:a"); !maps.Equal(got, other) || got["p:a"] != 4 {
		t.Errorf("turns are %v, filed in another order %v: they are to stay as they were", got, other)
	}
}

// BenchmarkRound_blockedKeys measures a round of 256 jobs with many full keys.
func BenchmarkRound_blockedKeys(b *testing.B) {
	for _, n := range []int{0, 1_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := NewSupply()
			for i := range 64 {
				s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
					Queues: []rota.QueueName{"q"}, Slots: 8}})
			}
			class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Type: "t"}))
			ring := fewAtATime{most: math.MaxInt64, full: map[string]bool{}}
			p := NewPending(false)
			p.SetKeys(NewKeys(ring))
			for i := range n {
				it := keyedItem(i, fmt.Sprint("k:", i))
				ring.full[it.Keys[0]] = true
				it.Class = class
				p.Add(it)
			}
			for i := range 1000 {
				it := keyedItem(n+i, fmt.Sprint("free:", i))
				it.Class = class
				p.Add(it)
			}
			policy := rota.StandardPolicy()
			b.ReportAllocs()
			for b.Loop() {
				if pairs := NewDraft(s, ring).Round(p, RoundInput{Queue: "q", Policy: &policy,
					Limit: 256}); len(pairs) != 256 {
					b.Fatal(len(pairs))
				}
			}
		})
	}
}

// turnless is a ring in which no job's turn has come; it knows no count of jobs that wait for theirs.
type turnless struct{ fewAtATime }

func (turnless) Counts(*Item, []string) ([]string, bool) { return nil, false }
func (turnless) Full(string) bool                        { panic("asked of no count") }
func (turnless) Key(string) int64                        { panic("asked of no count") }
func (turnless) Weight(string, *Item) int64              { panic("asked of no count") }

// TestKeys_promiseOfAJobInLine checks that a job whose turn has not come can be counted, as for room that was revoked for
// it before.
func TestKeys_promiseOfAJobInLine(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	ring := turnless{}
	p := NewPending(false)
	p.SetKeys(NewKeys(ring))
	it := keyedItem(1, "a:1")
	it.Class = s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Type: "t"}))
	p.Add(it)
	policy := rota.StandardPolicy()
	NewDraft(s, ring).Promise(Lot{Queue: "q", Pending: p, Policy: &policy}, it)
}
