package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/rotasched/rota"
)

// TestMain lets garbage grow: a life is small, and collection used half of its time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

var (
	seeds = flag.Int("seeds", 0, "how many seeds to run; ROTA_SIM_SEEDS is its twin")
	from  = flag.Uint64("from", 1, "the first seed; ROTA_SIM_FROM is its twin")
)

// budget returns the seeds to run. ROTA_SIM_SEED=n runs ten beginning with n.
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
		n = allSeeds
	}
	return first, n
}

// allSeeds is the default number of seeds. In so many every rare case happens; in fewer fresh ones chance may leave one
// out, which is not a fault.
const allSeeds = 200

// policies are the queues for the seeds; seeds that once found a bug keep the first.
var policies = [][]rota.Setting{
	{},
	{{Key: "ranking", Value: "adaptive"}, {Key: "aging_threshold", Value: "5s"}},
	{{Key: "preempt", Value: "on"}},
	{{Key: "ranking", Value: "adaptive"}, {Key: "preempt", Value: "on"}, {Key: "hold_max", Value: "3s"}},
	{{Key: "max_runtime", Value: "9s"}, {Key: "t_lease", Value: "6s"}}, // reached by renewals
	{{Key: "ranking", Value: "shortest"}, {Key: "backfill", Value: "easy"}, {Key: "expected.work", Value: "3s"}},
	{{Key: "ranking", Value: "smallest"}, {Key: "backfill", Value: "easy"}, {Key: "estimate", Value: "last2"}},
}

func mixed(seed uint64) Options {
	o := Options{Policy: policies[seed%uint64(len(policies))],
		Seed: seed, Nodes: 3 + 2*int(seed%3)/2, Workers: 4, Jobs: 120, LeaseMs: 20_000, Heal: 150_000, End: 1_200_000}
	if seed%3 != 1 { // the others live the same lives as before
		o.Flows, o.Ghosts = 8, true
		o.Jobs = 60
	}
	o.Guards = seed%12 == 5
	o.Deletes, o.Tokens, o.Removals = seed%7 == 3, seed%7 == 5, seed%7 == 1
	o.Owners, o.Uniques, o.Keys = seed%7 == 0, seed%7 == 2, seed%7 == 4
	o.Plans = seed%7 == 6
	o.Logs = seed%5 == 2
	o.Schedules = seed%8 == 4
	o.Batches = seed%11 == 6
	o.Edits = seed%13 == 6
	o.Hooks = seed%13 == 9 && !o.Deletes
	o.Orders = seed%9 == 4
	if seed%4 == 2 {
		o.IdleBeat = 10_000
	}
	o.Turns = o.Keys && seed%2 == 0
	o.Polls = seed%9 == 7 && seed%12 != 11
	if o.Wide = seed%10 == 8 && !o.Tokens && !o.Owners && !o.Removals && !o.Polls; o.Wide {
		o.Policy = widePolicy
	}
	if seed%12 == 11 {
		o.Grace = true
		o.Policy = append(slices.Clip(o.Policy), rota.Setting{Key: "lease_grace_on_disconnect", Value: "10s"})
	}
	return o
}

// limited is a short life whose jobs have keys, costs and budgets, under every policy.
func limited(seed uint64) Options {
	return Options{Policy: policies[seed/2%uint64(len(policies))], Seed: seed, Nodes: 3, Workers: 3, Jobs: 10,
		LeaseMs: 20_000, Heal: 60_000, End: 600_000, Keys: true, Turns: seed%2 == 0, Ghosts: seed%3 != 0,
		Orders: seed%5 == 4}
}

// lives runs a life for each of n seeds, on all cores, and sums up what happened.
func lives(t *testing.T, first uint64, n int, of func(seed uint64) Options) (sum figures) {
	lanes := uint64(runtime.GOMAXPROCS(0))
	sums := make([]figures, lanes)
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := first + lane; seed < first+uint64(n) && !t.Failed(); seed += lanes {
					sums[lane].add(liveOrTell(t, of(seed)))
				}
			})
		}
	})
	for i := range sums {
		sum.add(sums[i])
	}
	return sum
}

// TestLimitSeeds runs random lives of jobs with keys, costs and budgets: 10,000 of them take about as long as 600 of
// TestSeeds.
func TestLimitSeeds(t *testing.T) {
	t.Parallel()
	first, n := budget(t)
	sum := lives(t, first, n, limited)
	t.Logf("%d seeds: %s", n, sum)
	if n >= 20 && !t.Failed() && (sum.Keyed == 0 || sum.Turned == 0 || sum.KeysBlocked == 0 || sum.KeysSkipped == 0 ||
		sum.KeysPaused == 0 || sum.KeysOpened == 0 || sum.BudgetsSpent == 0 || sum.BudgetsTurned == 0 ||
		n >= 200 && sum.BudgetsRefused == 0) {
		t.Errorf("a case that the seeds are chosen for never happened: %s", sum)
	}
}

// TestSeeds runs random lives. Of failing lives it reports the first seed, and its smallest life with the same failure.
func TestSeeds(t *testing.T) {
	t.Parallel()
	first, n := budget(t)
	sum := lives(t, first, n, mixed)
	t.Logf("%d seeds: %s", n, sum)
	if n >= allSeeds && !t.Failed() && (sum.Promoted == 0 || sum.Preempted == 0 || sum.Outlived == 0 ||
		sum.Merged == 0 || sum.Planned == 0 || sum.PlannedRetries == 0 || sum.PlannedDeletions == 0 ||
		sum.PlannedMoves == 0 || sum.LogsKept == 0 || sum.LogsLate == 0 || sum.Batched == 0 || sum.Dated == 0 ||
		sum.DatesSkipped == 0 || sum.DatesMissed == 0 || sum.Keyed == 0 || sum.Turned == 0 || sum.Overtaken == 0 ||
		sum.Foreseen == 0 || sum.Offered == 0 || sum.KeysBlocked == 0 || sum.KeysSkipped == 0 || sum.KeysPaused == 0 || sum.KeysOpened == 0 || sum.BudgetsSpent == 0 || sum.BudgetsTurned == 0 || sum.TimedOut == 0 ||
		sum.Ghosts == 0 || sum.Stale == 0 || sum.Gone == 0 || sum.Deleted == 0 || sum.Interrupted == 0 ||
		sum.RunNow == 0 || sum.Removed == 0 || sum.Moved == 0 || sum.Disconnected == 0 || sum.SignedIn == 0 ||
		sum.With == 0 || sum.Beside == 0 || sum.Refilled == 0 || sum.Owned == 0 || sum.Bounded == 0 ||
		sum.Edited == 0 || sum.EditedLate == 0 || sum.Delivered == 0 || sum.HooksSkipped == 0 ||
		sum.FlowsRetried == 0 || sum.FlowsCancelled == 0 || sum.Skipped == 0 || sum.Lapsed == 0 || sum.Grown == 0) {
		t.Errorf("a case that the seeds are chosen for never happened: %s", sum)
	}
}

// TestFoundSeeds runs the seeds that once found a bug, each named after its finding.
func TestFoundSeeds(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]uint64{
		"a pause with a later date came sooner by the clock":           1211,
		"a job that blocked two sequences was deleted after a restart": 7023,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liveOrTell(t, limited(seed))
		})
	}
	for name, seed := range map[string]uint64{
		"a renewal was under way when its worker died":               4184485015,
		"a workflow was cancelled in the entry that ran it again":    5745,
		"a node was run again before its worker heard of its expiry": 6866,
		"an old leader's entry released a node whose time was over":  2826851010,
		"a lease with a grace was over by its deadline":              2079429659,
		"an abandoned upload went on after the world had healed":     3130926872,
		"a repeated submission came after the job's end had faded":   701261,
		"the clock stood still as an abandoned upload was to lapse":  501657,
		"a leader's chores slept on after the world had healed":      731500530,
		"a submitter died as it committed a workflow with a gate":    3855429972,
		"a gate was reached in a run that a late retry began":        2493725843,
		"a node that had a late log ran again":                       2967181247,
		"a late log came in the entry of a repeated verb":            3177545492,
		"a callback had its sixth attempt as the world ended":        421829524,
		"a job's time to live ended in the entry that leased it":     197,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liveOrTell(t, mixed(seed))
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

// TestTheClockKeepsPace checks SPEC §3.11 for a stable leader.
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
