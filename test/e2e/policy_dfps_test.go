package e2e

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
)

// The four rows of DFPS-S §5 over the wire: real workers complete and fail jobs, the statistics are those of `queue
// show`, and every score is that of SPEC §5.3, computed here independently of the code that decides.

var errWork = errors.New("the work fails")

// dfps makes a cluster with a queue of the preset dfps, without the turn of the oldest and with immediate retries.
func dfps(t *testing.T) (*nodes, *client.Client, rota.QueueName) {
	t.Helper()
	c := newCluster(t, 3)
	q := c.policyQueue(t, "demand", "dfps", "oldest_every=0", "backoff_base=0", "attempt_max=1000",
		"domain_failure_threshold=1",
		"estimate=user")
	cl := c.dial(t)
	return c, cl, q
}

// knows checks the statistics of a type in `queue show`, and that its weight is W of its numbers.
func (c *nodes) knows(t testing.TB, queue rota.QueueName, want rota.TypeStats) rota.TypeStats {
	t.Helper()
	q := decode[rota.Queue](t, c.rota(t, "queue", "show", string(queue), "-o", "json"))
	for _, got := range q.Types {
		if got.Type != want.Type {
			continue
		}
		want.Weight = weightOf(float64(want.Success), float64(want.Fail), float64(want.Expected.Milliseconds()),
			float64(want.EMA.Microseconds())/1000)
		if got != want {
			t.Errorf("of type %s %+v is known, want %+v", want.Type, got, want)
		}
		return got
	}
	t.Fatalf("nothing is known of type %s: %+v", want.Type, q.Types)
	return rota.TypeStats{}
}

// tookUs is the duration that an attempt counts for, in microseconds: from its acknowledgement. An acknowledgement that
// came with the completion itself, or not before the failure, does not count; then it is from the assignment.
func tookUs(t testing.TB, a rota.Attempt) int64 {
	t.Helper()
	if a.Acked.IsZero() || a.End == rota.ReasonDone && a.Acked == a.Ended {
		return int64(a.Ended.Clock-a.Started.Clock) * 1000
	}
	return int64(a.Ended.Clock-a.Acked.Clock) * 1000
}

func ofType(typ rota.JobType) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Type = typ } }

func sized(bytes int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.SizeBytes = bytes } }

func priority(p int32) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Priority = p } }

func TestEarlySampleBias(t *testing.T) {
	t.Parallel()
	c, cl, q := dfps(t)
	const expected = 5
	fresh := func(id string, change ...func(*rota.JobSpec)) rota.JobSpec {
		return policyJob(id, q, append(change, ofType("fresh"),
			func(s *rota.JobSpec) { s.Expected = millis.Duration(expected) })...)
	}
	w := c.puppet(t, "w", q, 1)
	submitAll(t, cl, fresh("first"))
	ema, weight := int64(0), 1.0
	for n := range 2 {
		w.serves("first")
		placedBy(t, cl, "first", n, weight)
		// At least ten times the declared time, by the cluster clock.
		started := c.awaitState(t, cl, "first", 20*time.Second, rota.JobRunning).Lease.Acked
		eventually(t, 20*time.Second, "the work takes long", func() error {
			if s, err := cl.Status(within(t)); err != nil || s.Clock < started.Clock+10*expected {
				return fmt.Errorf("clock %d, %v", s.Clock, err)
			}
			return nil
		})
		if n == 1 { // otherwise the job would be placed again at once
			submitAll(t, cl, policyJob("between", q, priority(0)))
		}
		w.ends("first", errWork)
		took := tookUs(t, jobOf(t, cl, "first").Attempts[n])
		if n == 0 {
			ema = took
		} else {
			ema += (took - ema) >> 3
		}
		weight = weightOf(0, float64(n+1), expected, float64(ema)/1000)
	}
	w.serves("between")
	got := c.knows(t, q, rota.TypeStats{Type: "fresh", Fail: 2, EMA: millis.Micros(ema),
		Expected: millis.Duration(expected)})
	// Two samples, both bad and ten times too slow, are trusted for 4 %.
	if raw := expected / (float64(ema) / 1000) * 2 / 6; raw > 0.04 || got.Weight < 0.96 || got.Weight > 0.97 {
		t.Errorf("weight %v, of a raw one of %v", got.Weight, raw)
	}

	// So an unknown type goes before it where everything else is equal, and behind it where it is only a tenth larger.
	c.rota(t, "job", "cancel", "first").want(t, 0)
	equal, larger := int64(1<<20), int64(1<<20+1<<20/10)
	submitAll(t, cl, fresh("known-bad", sized(equal)), policyJob("unknown", q, ofType("other"), sized(equal)),
		policyJob("unknown-larger", q, ofType("other"), sized(larger)))
	w.ends("between", nil)
	w.serves("unknown")
	placedBy(t, cl, "unknown", 0, 1)
	w.ends("unknown", nil)
	w.serves("known-bad")
	placedBy(t, cl, "known-bad", 0, weight)
	w.ends("known-bad", nil)
	w.serves("unknown-larger")
	w.ends("unknown-larger", nil)
	c.verified(t, 3)
}

func TestFastFailureTrap(t *testing.T) {
	t.Parallel()
	c, cl, q := dfps(t)
	const crashes = 50
	var jobs []rota.JobSpec
	for i := range crashes {
		jobs = append(jobs, policyJob(fmt.Sprintf("crash%02d", i), q, ofType("crash")))
	}
	submitAll(t, cl, jobs...)
	w := c.puppet(t, "crashing", q, crashes)
	for range crashes {
		w.takes()
	}
	ema, known := int64(0), 0
	for i := range jobs {
		w.ends(jobs[i].ID, client.NoRetry(errWork))
		job := jobOf(t, cl, jobs[i].ID)
		if took := tookUs(t, job.Attempts[0]); i == 0 {
			ema = took
		} else {
			ema += (took - ema) >> 3
		}
		known++
	}
	got := c.knows(t, q, rota.TypeStats{Type: "crash", Fail: int64(known), EMA: millis.Micros(ema)})
	if yield := 2.0 / (crashes + 4); yield >= 0.1 || got.Weight != 0.1 {
		t.Errorf("weight %v: the floor must be visible", got.Weight)
	}
	w.leave()

	// Any other type goes first, but one that crashes is never locked out.
	submitAll(t, cl, policyJob("again", q, ofType("crash")), policyJob("sound", q, ofType("sound")))
	w = c.puppet(t, "fixed", q, 1)
	w.serves("sound")
	placedBy(t, cl, "sound", 0, 1)
	w.ends("sound", nil)
	w.serves("again")
	placedBy(t, cl, "again", 0, 0.1)

	// The fix is deployed: successes bring the weight back by themselves.
	w.ends("again", nil)
	for i := 1; i < crashes; i++ {
		id := rota.JobID(fmt.Sprint("fixed", i))
		submitAll(t, cl, policyJob(string(id), q, ofType("crash")))
		w.serves(id)
		if i%10 == 0 {
			placedBy(t, cl, id, 0, weightOf(float64(i), crashes, 0, 0))
		}
		w.ends(id, nil)
	}
	q1 := decode[rota.Queue](t, c.rota(t, "queue", "show", string(q), "-o", "json"))
	for _, s := range q1.Types {
		if s.Type == "crash" && (s.Success != crashes || s.Fail != crashes || s.Weight != 0.5) {
			t.Errorf("after the fix got %+v", s)
		}
	}
	c.verified(t, 3)
}

func TestHeavyWallAgainstVIP(t *testing.T) {
	t.Parallel()
	c, cl, q := dfps(t)
	const wall = 500
	var jobs []rota.JobSpec
	for i := range wall {
		jobs = append(jobs, policyJob(fmt.Sprintf("huge%03d", i), q, sized(1<<30), ofType("huge")))
	}
	submitAll(t, cl, jobs...)
	w := c.puppet(t, "w", q, 1)
	huge := func() rota.JobID { // they tie: which of the first 16 it is, a hash decides
		t.Helper()
		id := w.takes().ID()
		if !strings.HasPrefix(string(id), "huge") {
			t.Fatalf("job %s comes instead of a huge one", id)
		}
		return id
	}
	first := huge()
	// However old the wall becomes, a tiny critical job is above it.
	if old := scoreOf(2, math.MaxInt32, 1.5, 1<<30); old >= scoreOf(100, 0, 0.1, 1<<20) {
		t.Errorf("a huge job may come to %v", old)
	}
	submitAll(t, cl, policyJob("vip", q, priority(0), sized(1<<10), ofType("vip")),
		policyJob("high", q, priority(2), sized(1<<20), ofType("high")),
		policyJob("low", q, priority(7), sized(1<<20), ofType("low")),
		policyJob("low-large", q, priority(7), sized(512<<20), ofType("low")))
	w.ends(first, nil)
	for _, id := range []rota.JobID{"vip", "high", "low"} {
		w.serves(id)
		placedBy(t, cl, id, 0, 1)
		w.ends(id, nil)
	}
	// Huge jobs are not buried: one of 1 GiB goes before a LOW one of half its size.
	weight := weightOf(1, 0, 0, 0)
	if scoreOf(2, 0, weight, 1<<30) <= scoreOf(1, 30_000, 1, 512<<20) {
		t.Error("the sizes leave no visible difference")
	}
	second := huge()
	placedBy(t, cl, second, 0, weight)
	w.ends(second, nil)
	huge()
	if job := jobOf(t, cl, "low-large"); job.State != rota.JobQueued {
		t.Errorf("a large LOW job is %s", job.State)
	}
	c.verified(t, 3)
}

// T_aging is ten minutes, so the crossing of LOW over fresh NORMAL jobs is shown at sizes that bring it near: NORMAL
// ones so large that LOW outweighs them once it has waited 1.5 s.
func TestStarvingPeasant(t *testing.T) {
	t.Parallel()
	c, cl, q := dfps(t)
	const crossing = 1_500
	factor := 1 + float64(crossing)/1000/600
	size := int64(0.1 * 4 / (factor * factor) * (1 << 20))
	if scoreOf(1, crossing-10, 1, 1) >= scoreOf(2, 0, 1, size) ||
		scoreOf(1, crossing+10, 1, 1) <= scoreOf(2, 0, 1, size) {
		t.Fatalf("%d bytes do not put the crossing at %d ms", size, crossing)
	}
	w := c.puppet(t, "w", q, 1)
	submitAll(t, cl, policyJob("running", q, priority(0), ofType("running")))
	w.serves("running")
	submitAll(t, cl, policyJob("peasant", q, priority(7), ofType("peasant"), sized(1)))
	born := jobOf(t, cl, "peasant").Enqueued
	before, last := rota.JobID("running"), rota.JobID("")
	for n := 0; ; n++ {
		last = rota.JobID(fmt.Sprintf("normal%04d", n))
		submitAll(t, cl, policyJob(string(last), q, ofType(rota.JobType(fmt.Sprint("normal", n))), sized(size)))
		w.ends(before, nil)
		before = w.takes().ID()
		if before == "peasant" {
			break
		}
		if before != last {
			t.Fatalf("job %s comes instead of %s", before, last)
		}
		if n%8 == 0 {
			_, then := placedBy(t, cl, last, 0, 1)
			if then-born.Clock > 20*crossing {
				t.Fatalf("the LOW job still waits after %d ms", then-born.Clock)
			}
			if scoreOf(1, then-born.Clock, 1, 1) >= scoreOf(2, then-jobOf(t, cl, last).Enqueued.Clock, 1, size) {
				t.Errorf("a NORMAL job went before the LOW one that had waited %d ms", then-born.Clock)
			}
		}
	}
	_, then := placedBy(t, cl, "peasant", 0, 1)
	fresh := jobOf(t, cl, last)
	if fresh.State != rota.JobQueued || scoreOf(2, then-fresh.Enqueued.Clock, 1, size) >= scoreOf(1, then-born.Clock, 1,
		1) {
		t.Errorf("the LOW job went before %s, which is %s, after %d ms", last, fresh.State, then-born.Clock)
	}
	if waited := then - born.Clock; waited < crossing-100 {
		t.Errorf("it waited %d ms, the crossing is at %d", waited, crossing)
	}

	// Age is limited to three times the base: no LOW job is ever above a fresh HIGH or CRITICAL one of its size.
	if old := scoreOf(1, math.MaxInt32, 1, 1); old != scoreOf(3, 0, 1, 1) || old >= scoreOf(10, 0, 1, 1) {
		t.Errorf("a LOW job comes to %v", old)
	}
	submitAll(t, cl, policyJob("high", q, priority(2), ofType("high"), sized(1)),
		policyJob("critical", q, priority(0), ofType("critical"), sized(1)))
	w.ends("peasant", client.Decline(errWork))
	w.serves("critical")
	w.ends("critical", nil)
	w.serves("high")
	c.verified(t, 3)
}
