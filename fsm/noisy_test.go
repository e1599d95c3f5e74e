package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
)

// flood queues jobs of a tenant, a thousand per entry.
func (b *bench) flood(id string, jobs int, change func(i int, s *rota.JobSpec)) {
	b.t.Helper()
	for i := 0; i < jobs; {
		var ops []*fsmpb.Op
		for ; i < jobs && len(ops) < 1000; i++ {
			ops = append(ops, submitOp(jobSpec(fmt.Sprintf("%s-%06d", id, i), func(s *rota.JobSpec) { change(i, s) })))
		}
		for _, o := range b.entry(ops...).Outcomes {
			if o.GetKind() != 0 {
				b.t.Fatalf("refused: %v", o)
			}
		}
	}
}

// TestNoisyNeighbour has one tenant with 100,000 queued jobs of the highest rank, preceded by an impossible one, half
// of them in a failing domain; any of them that runs on the only worker fails or is declined. Another tenant's next job
// is still in the next round: at once if fair share or max_concurrent leaves it a slot, and at most one round later if
// the turn of the oldest (SPEC §7.10) takes the free slot.
func TestNoisyNeighbour(t *testing.T) {
	t.Parallel()
	jobs := 100_000
	if testing.Short() {
		jobs = 5_000
	}
	for _, c := range []struct {
		name  string
		setup []*fsmpb.Op
		// fair: a slot becomes free when one of the noisy tenant's leases ends; otherwise one is free, as that tenant
		// may not have them all.
		fair bool
	}{
		{"with_fair_share", []*fsmpb.Op{queueOp("default", "fair_share", "on")}, true},
		{"with_max_concurrent", []*fsmpb.Op{queueOp("default", "fair_share", "off"),
			tenantOp("noisy", "max_concurrent", "3")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := zoned(t)
			b.every = 1000
			b.ok(queueOp("default", "queue_cap", "1000000", "oldest_every", "20", "lease_ms", "3600000", "ack_timeout",
				"3600000"))
			for _, op := range c.setup {
				b.ok(op)
			}
			b.outcomes("zone-1", 10, 0)
			b.submit("impossible", tenant("noisy"), priority(0), cpuJob(1_000_000))
			b.now++
			b.flood("noisy", jobs, func(i int, s *rota.JobSpec) {
				s.Tenant, s.Priority = "noisy", 0
				if i%2 == 0 {
					s.Domain = "zone-1"
				}
			})
			b.worker("w", 4)
			running := inOrder(b.match())
			late := 0
			for i := range 60 {
				id := rota.JobID(fmt.Sprint("quiet", i))
				b.now += 50
				b.submit(string(id), tenant("quiet"), priority(10))
				rounds := 0
				for placed := false; !placed; rounds++ {
					if rounds > 1 {
						t.Fatalf("job %s waits after %d rounds", id, rounds)
					}
					if c.fair || rounds > 0 {
						b.ok(verb([]rota.LeaseVerb{rota.VerbFail, rota.VerbFail, rota.VerbFail, rota.VerbDecline}[i%4],
							running[0]))
						running = running[1:]
					}
					for _, l := range inOrder(b.match()) {
						if l.Job == id {
							placed = true
							b.ok(verb(rota.VerbComplete, l))
						} else {
							running = append(running, l)
						}
					}
				}
				if rounds > 1 {
					late++
				}
				running = append(running, inOrder(b.match())...) // the quiet one's slot is filled again
				b.pass(250)
			}
			if late > 60*2/20+1 {
				t.Fatalf("%d of 60 jobs waited for a second round", late)
			}
			if !b.admission.domains.Get(state.DomainKey("default", "zone-1")).Isolated {
				t.Fatal("the domain recovered meanwhile")
			}
			b.sound()
			b.state("impossible", rota.JobQueued)
		})
	}
}
