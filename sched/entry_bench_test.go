package sched

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// BenchmarkEntry decides a whole entry of one queue with 1,000,000 jobs and 1,000 workers, with holds and turns.
func BenchmarkEntry(b *testing.B) {
	const million = 1_000_000
	wide := scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, mixed: true, cpu: true}
	for _, c := range []struct {
		name  string
		due   int // one worker in this many has a due turn
		holds int
		full  bool // no worker has cpu left
		scene
	}{
		{"neither", 0, 0, false, wide},
		{"a turn in 20 workers", 20, 0, false, wide},
		{"all turns at once", 1, 0, false, wide},
		{"all turns at once, one class", 1, 0, false,
			scene{jobs: million, tenants: 1, classes: 1, batch: 1, fair: true, mixed: true}},
		{"125 holds", 20, 125, false, wide},
		{"all wait, no hold yet", 0, 0, true, wide},
		{"all wait, 125 holds", 0, 125, true, wide},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, pending, _, p := c.build(b)
			p.OldestEvery = 20
			now := rota.Clock(1_700_000_000_000 + 2*million)
			for i := range 1000 {
				id := rota.WorkerID(fmt.Sprintf("worker-%04d", i))
				if c.due > 0 && i%c.due == 0 {
					s.Received(id, 19)
				}
				if c.full {
					s.Take(id, Load{CPU: 8000})
				}
			}
			lot := Lot{Pending: pending, Policy: p}
			var holds []Hold
			d := NewDraft(s, nil)
			for i := range c.holds {
				e := d.oldestServed(lot, false, func(ClassID) bool { return true }, noLane)
				d.holders[e.item] = true
				id := rota.WorkerID(fmt.Sprintf("worker-%04d", 3+7*i))
				s.Take(id, Load{CPU: 8000}) // no room yet
				s.Hold(id, true)
				holds = append(holds, Hold{Item: e.item, Worker: id, Since: now, Lot: lot})
			}
			in := RoundInput{Policy: p, Limit: 256, Now: now}
			b.ReportAllocs()
			pairs, changes := 0, 0
			for b.Loop() {
				in.Seed[0]++
				d := NewDraft(s, nil)
				for _, h := range holds {
					d.PlaceHeld(h, now)
				}
				pairs = len(d.Turns([]Lot{lot}, now, 1000))
				pairs += len(d.Round(pending, in))
				changes = len(d.Keep([]Lot{lot}, holds, now))
			}
			b.ReportMetric(float64(pairs), "pairs")
			b.ReportMetric(float64(changes), "holds")
		})
	}
}
