package fsm

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// TestAllocs checks which parts of applying allocate nothing: each of these runs several times per job, on every node.
// No test may run concurrently.
func TestAllocs(t *testing.T) {
	b := newBench(t)
	leased := b.leased("leased", "w").Job
	for i := range 200 {
		b.submit(fmt.Sprintf("j%03d", i))
	}
	m := b.Machine
	id := rota.JobID("j100")
	m.Ledger.Gen++ // as in an entry of its own
	row, lease := m.JobTable.Edit(id), m.JobTable.Edit(leased)
	q := m.QueueTable.Edit(row.Spec.Queue)
	m.Ledger.Settle()
	kept := (&state.TombRow{ID: id, Worker: "w", Seq: 1}).Keep(&m.Ledger.Enc, &entry.Texts{})
	for _, c := range []struct {
		what string
		run  func()
	}{
		{"finding a row", func() { m.JobTable.Last = nil; m.JobTable.Get(id) }},
		{"changing rows in place, and their hashes", func() {
			m.Ledger.Gen++
			m.JobTable.Edit(id)
			m.JobTable.Edit(leased)
			m.Ledger.Settle()
		}},
		{"an item of a lane", func() { *row.Item = m.placement.itemOf(row, q) }},
		{"out of a lane and into it", func() {
			m.placement.unfile(row, q)
			m.placement.file(row, q)
		}},
		{"a row that leaves, and the next", func() {
			j := m.NewJob()
			m.own(j)
			m.JobTable.Dropped = append(m.JobTable.Dropped, j)
			m.JobTable.Recycle()
		}},
		{"the check of a pair", func() { m.admission.blocked(row, q, false) }},
		{"a timer", func() {
			m.Timers.Lease.Refile("x", 0, 5)
			m.Timers.Lease.Refile("x", 5, 0)
		}},
		{"an outcome", func() { m.Became(rota.JobQueued, false) }},
		{"a tombstone's bytes, hashed and read", func() {
			m.Ledger.HashTomb(kept)
			_ = kept.Row()
		}},
		{"when a lease ends", func() {
			state.LeaseDue(m.leasing.leases.Get(string(lease.Lease[:])), m.fleet.workers.Get("w"))
		}},
	} {
		c.run()
		if n := testing.AllocsPerRun(100, c.run); n != 0 {
			t.Errorf("%s allocates %v times", c.what, n)
		}
	}
	spec := jobSpec("another")
	if n := testing.AllocsPerRun(100, func() { m.Specs.Keep(spec) }); n != 1 {
		t.Errorf("keeping a spec allocates %v times, 1 is its own part", n)
	}
}

// TestSizes checks row and item sizes. Every pending job pays for an additional field: sizes are the allocator's, so
// one byte more takes the next class.
func TestSizes(t *testing.T) {
	t.Parallel()
	for what, c := range map[string][2]uintptr{
		"jobRow":     {unsafe.Sizeof(state.JobRow{}), 144},
		"keptSpec":   {unsafe.Sizeof(state.KeptSpec{}), 48},
		"sched.Item": {unsafe.Sizeof(sched.Item{}), 96},
		"jobLife":    {unsafe.Sizeof(state.JobLife{}), 224},
	} {
		if c[0] > c[1] {
			t.Errorf("%s takes %d bytes, %d are free of a larger class", what, c[0], c[1])
		}
	}
}
