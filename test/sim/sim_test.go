package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/rotasched/rota"
)

var (
	seeds = flag.Int("seeds", 0, "how many seeds to run; ROTA_SIM_SEEDS is its twin")
	from  = flag.Uint64("from", 1, "the first seed; ROTA_SIM_FROM is its twin")
)

// budget says which seeds to run. ROTA_SIM_SEED=n runs ten beginning with n.
func budget(t *testing.T) (first uint64, n int) {
	first, n = *from, *seeds
	number := func(name string) (uint64, bool) {
		v, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil && os.Getenv(name) != "" {
			t.Fatalf("%s: %v", name, err)
		}
		return v, os.Getenv(name) != ""
	}
	if v, given := number("ROTA_SIM_SEEDS"); given && n == 0 {
		n = int(v)
	}
	if v, given := number("ROTA_SIM_FROM"); given && first == 1 {
		first = v
	}
	if v, given := number("ROTA_SIM_SEED"); given && n == 0 {
		return v, 10
	}
	switch {
	case n > 0:
	case testing.Short():
		n = 20
	default:
		n = 200
	}
	return first, n
}

// policies are the queues that seeds run over; the seeds that once found
// something keep the first.
var policies = [][]rota.Setting{
	{},
	{{Key: "ranking", Value: "adaptive"}, {Key: "aging_threshold", Value: "5s"}},
	{{Key: "preempt", Value: "on"}},
	{{Key: "ranking", Value: "adaptive"}, {Key: "preempt", Value: "on"}, {Key: "hold_max", Value: "3s"}},
	{},
}

func mixed(seed uint64) Options {
	return Options{Policy: policies[seed%uint64(len(policies))],
		Seed: seed, Nodes: 3 + 2*int(seed%3)/2, Workers: 4, Jobs: 120, LeaseMs: 20_000, Heal: 150_000, End: 900_000}
}

// live runs a whole life of faults, and then heals the world.
func live(o Options) (*World, error) {
	w := NewWorld(o)
	w.Elect(w.nodes[0])
	w.Supervise()
	w.Break()
	if err := w.Run(o.Heal); err != nil {
		return w, err
	}
	return w, w.Drain()
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	first, n := budget(t)
	var granted, expired, completed, leaderships, promoted, preempted int
	for seed := first; seed < first+uint64(n); seed++ {
		w, err := live(mixed(seed))
		if err != nil {
			t.Fatalf("seed %d: %v\nrepeat with: go test ./test/sim -run TestSeeds -seeds 1 -from %d", seed, err, seed)
		}
		granted, expired = granted+w.audit.Granted, expired+w.audit.Expired
		completed, leaderships = completed+w.audit.Completed, leaderships+w.audit.Leaderships
		promoted, preempted = promoted+w.audit.Promoted, preempted+w.audit.Preempted
	}
	t.Log(fmt.Sprintf("%d seeds: %d leaderships, %d leases, %d of them expired, %d preempted, %d jobs completed, %d promotions",
		n, leaderships, granted, expired, preempted, completed, promoted))
	if n >= 4*len(policies) && (promoted == 0 || preempted == 0) {
		t.Error("no seed promoted or preempted anything: the policies of the seeds are without effect")
	}
}

// TestFoundSeeds runs the seeds that once found something, each by its finding.
func TestFoundSeeds(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]uint64{
		"a renewal was under way when its worker died": 4184485015,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := live(mixed(seed)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
}

func TestASeedRepeatsItself(t *testing.T) {
	t.Parallel()
	o := mixed(7)
	o.Heal, o.End = 60_000, 300_000
	a, errA := live(o)
	b, errB := live(o)
	if errA != nil || errB != nil || len(a.log) != len(b.log) {
		t.Fatalf("%d entries (%v), then %d (%v)", len(a.log), errA, len(b.log), errB)
	}
	for i, d := range a.audit.digests {
		if b.audit.digests[i] != d {
			t.Fatalf("entry %d: digest %s, then %s", i+1, d, b.audit.digests[i])
		}
	}
}

// TestTheClockKeepsPace is SPEC §3.11 for a stable leader.
func TestTheClockKeepsPace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := newScript(t, func(o *Options) { o.Seed = seed })
		clock, at := s.clock(), s.now
		s.run(120_000)
		if rate := float64(s.clock()-clock) / float64(s.now-at); rate < 0.98 || rate > 1.01 {
			t.Fatalf("seed %d: the clock ran at %.4f of real time", seed, rate)
		}
	}
}
