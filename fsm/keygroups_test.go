package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// grouped is a bench whose default queue lets the keys of account take turns, and a worker of one slot.
func grouped(t *testing.T) *bench {
	b := newBench(t)
	b.ok(queueOp("default", "ranking", "fifo", "fair_share", "off", "oldest_every", "0", "starvation_interleave", "0"))
	b.rule(rota.KeyRule{Queue: "default", Name: "account", Group: true})
	b.worker("w", 1)
	return b
}

// ran completes one job after the other, until none is left.
func (b *bench) ran() (order []rota.JobID) {
	for leases := b.match(); len(leases) > 0; leases = b.match() {
		for id, l := range leases {
			order = append(order, id)
			b.ok(verb(rota.VerbComplete, l))
		}
	}
	return order
}

// TestKeyGroup_turns checks the example of SPEC §19.4, with events in between.
func TestKeyGroup_turns(t *testing.T) {
	t.Parallel()
	b := grouped(t)
	for _, id := range []string{"A1", "A2", "A3", "B1", "B2"} {
		b.submit(id, ofKeys("account:"+id[:1]))
	}
	if got := b.ran(); !slices.Equal(got, []rota.JobID{"A1", "B1", "A2", "B2", "A3"}) {
		t.Fatalf("they ran %v", got)
	}
	for _, id := range []string{"A1", "A2", "A3"} {
		b.submit("x"+id, ofKeys("account:A"))
	}
	b.ok(verb(rota.VerbComplete, b.match()["xA1"]))
	b.ok(verb(rota.VerbComplete, b.match()["xA2"]))
	b.submit("xB1", ofKeys("account:B")) // it returns: its turn is A's
	b.submit("none1")                    // jobs without the key are one party
	b.submit("none2")
	b.submit("xB2", ofKeys("account:B"))
	if got := b.ran(); !slices.Equal(got, []rota.JobID{"xA3", "xB1", "none1", "none2", "xB2"}) {
		t.Fatalf("they ran %v", got)
	}
	b.sound()
}

// TestKeyGroup_refused checks other settings that decide the order, and a second rule of a queue.
func TestKeyGroup_refused(t *testing.T) {
	t.Parallel()
	b := grouped(t)
	b.ok(queueOp("fair", "fair_share", "on"))
	b.ok(queueOp("adaptive", "ranking", "adaptive"))
	for _, r := range []rota.KeyRule{{Name: "a", Group: true}, {Queue: "default", Name: "a", Value: "1", Group: true}} {
		b.refuses(rota.KindInvalid, "group", SetKeyRuleOp(&r))
	}
	for _, queue := range []rota.QueueName{"default", "fair", "adaptive"} {
		o := b.refuses(rota.KindConflict, "group", SetKeyRuleOp(&rota.KeyRule{Queue: queue, Name: "a", Group: true}))
		if remedy := map[rota.QueueName]string{"fair": "--set fair_share=off",
			"adaptive": "--set fair_share=off --set ranking=aging"}[queue]; !strings.Contains(o.GetText(), remedy) {
			t.Errorf("queue %s is refused with %q, which names no %q", queue, o.GetText(), remedy)
		}
	}
	b.refuses(rota.KindConflict, "group", queueOp("default", "fair_share", "on"))
	b.refuses(rota.KindConflict, "group", queueOp("default", "ranking", "adaptive"))
	b.ok(DeleteKeyRuleOp("default", "account", ""))
	b.ok(queueOp("default", "ranking", "adaptive"))
	b.sound()
}

// TestKeyGroupModel compares random lives with a list that is searched again for each turn, through restores, changes
// of the rule and of the queue.
func TestKeyGroupModel(t *testing.T) {
	t.Parallel()
	long(t)
	for seed := range uint64(40) {
		b, d := grouped(t), rand.New(rand.NewPCG(seed, 194))
		b.every = 3
		m := groupModel{turn: map[string]int{}}
		for n := range 120 {
			key := fmt.Sprint("account:", d.IntN(5))
			if d.IntN(5) == 0 {
				key = ""
			}
			switch k := d.IntN(10); {
			case k < 6:
				id := rota.JobID(fmt.Sprint("j", n))
				b.submit(string(id), func(s *rota.JobSpec) {
					if key != "" {
						s.Keys = []string{key}
					}
				})
				m.add(id, key)
			case k == 6 && len(m.jobs) > 0:
				j := m.jobs[d.IntN(len(m.jobs))]
				b.ok(cancelOp(string(j.id)))
				m.drop(j.id)
			case k == 7:
				b.ok(queueOp("default", "weight", fmt.Sprint(1+d.IntN(9)), "aging_factor_ms", fmt.Sprint(1+d.IntN(9))))
			case k == 8:
				b.rule(rota.KeyRule{Queue: "default", Name: "account", Group: true, Concurrency: int64(1 + d.IntN(2))})
			default:
				for id, l := range b.match() {
					if want := m.next(); id != want {
						t.Fatalf("seed %d: job %s runs, want %s as in the model, turns %v of %+v", seed, id, want,
							m.turn, m.jobs)
					}
					b.ok(verb(rota.VerbComplete, l))
				}
			}
		}
		b.sound()
	}
}

// groupModel holds the pending jobs in the order of their submission.
type groupModel struct {
	jobs []groupedJob
	turn map[string]int
	last int
}

type groupedJob struct {
	id  rota.JobID
	key string
}

// add starts a key without pending jobs at the least turn of those that have some, or at the last. Only for the jobs
// without a key the number of turns is known when none is left.
func (m *groupModel) add(id rota.JobID, key string) {
	if !slices.ContainsFunc(m.jobs, func(j groupedJob) bool { return j.key == key }) {
		least := m.last
		for i, j := range m.jobs {
			if i == 0 || m.turn[j.key] < least {
				least = m.turn[j.key]
			}
		}
		if key == "" {
			least = max(least, m.turn[key])
		}
		m.turn[key] = least
	}
	m.jobs = append(m.jobs, groupedJob{id, key})
}

func (m *groupModel) drop(id rota.JobID) {
	m.jobs = slices.DeleteFunc(m.jobs, func(j groupedJob) bool { return j.id == id })
}

// next removes the first job of the key with the least turn.
func (m *groupModel) next() rota.JobID {
	best := -1
	for i, j := range m.jobs {
		if best < 0 || m.turn[j.key] < m.turn[m.jobs[best].key] {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	j := m.jobs[best]
	m.last = m.turn[j.key]
	m.turn[j.key]++
	m.drop(j.id)
	return j.id
}
