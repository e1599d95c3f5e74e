package fsm

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/sched"
)

// TestAllocs says what of applying makes no garbage: each of these runs several times a
// job, on every node. No test may run beside it.
func TestAllocs(t *testing.T) {
	b := newBench(t)
	leased := b.leased("leased", "w").Job
	for i := range 200 {
		b.submit(fmt.Sprintf("j%03d", i))
	}
	m := b.Machine
	id := rota.JobID("j100")
	m.ledger.gen++ // as in an entry of its own
	row, lease := m.jobs.edit(id), m.jobs.edit(leased)
	q := m.queues.edit(row.spec.Queue)
	m.ledger.settle()
	kept := (&tombRow{id: id, worker: "w", seq: 1}).keep(&m.ledger.enc, &entry.Texts{})
	for _, c := range []struct {
		what string
		run  func()
	}{
		{"finding a row", func() { m.jobs.last = nil; m.jobs.get(id) }},
		{"changing rows in place, and their hashes", func() {
			m.ledger.gen++
			m.jobs.edit(id)
			m.jobs.edit(leased)
			m.ledger.settle()
		}},
		{"an item of a lane", func() { *row.item = m.placement.itemOf(row, q) }},
		{"out of a lane and into it", func() {
			m.placement.unfile(row, q)
			m.placement.file(row, q)
		}},
		{"a row that leaves, and the next", func() {
			j := m.newJob()
			m.own(j)
			m.jobs.dropped = append(m.jobs.dropped, j)
			m.jobs.recycle()
		}},
		{"a timer", func() {
			m.timers.lease.set("x", 0, 5)
			m.timers.lease.set("x", 5, 0)
		}},
		{"an outcome", func() { m.became(rota.JobQueued, false) }},
		{"a tombstone's bytes, hashed and read", func() {
			m.ledger.hashTomb(kept)
			_ = kept.row()
		}},
		{"when a lease ends", func() { leaseDue(m.leasing.leases.get(string(lease.lease[:])), m.fleet.workers.get("w")) }},
	} {
		c.run()
		if n := testing.AllocsPerRun(100, c.run); n != 0 {
			t.Errorf("%s allocates %v times", c.what, n)
		}
	}
	spec := jobSpec("another")
	if n := testing.AllocsPerRun(100, func() { m.specs.keep(spec) }); n != 1 {
		t.Errorf("keeping a spec allocates %v times, 1 is its own part", n)
	}
}

// A field that a row or an item has more is paid for by every pending job: the sizes are
// the allocator's, so one byte beyond takes the next.
func TestSizes(t *testing.T) {
	t.Parallel()
	for what, c := range map[string][2]uintptr{
		"jobRow":     {unsafe.Sizeof(jobRow{}), 144},
		"keptSpec":   {unsafe.Sizeof(keptSpec{}), 48},
		"sched.Item": {unsafe.Sizeof(sched.Item{}), 96},
		"jobLife":    {unsafe.Sizeof(jobLife{}), 224},
	} {
		if c[0] > c[1] {
			t.Errorf("%s takes %d bytes, %d are free of a larger class", what, c[0], c[1])
		}
	}
}
