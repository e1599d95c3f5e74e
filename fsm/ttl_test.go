package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
)

func presetOp(name, preset string, pairs ...string) *fsmpb.Op {
	op := queueOp(name, pairs...)
	op.GetSetQueue().Preset = preset
	return op
}

// expired checks a tombstone and its reason, at the exact moment.
func (b *bench) expired(id string, why rota.Reason) {
	b.t.Helper()
	if j := b.state(id, rota.JobExpired); j.Reason != why || j.Lease != nil {
		b.t.Fatalf("job %s: got %+v, want %s", id, j, why)
	}
	if t := b.ended.tombs.Get(rota.JobID(id)); t == nil || t.Reason != why || t.Finished.Clock != b.Header.Clock {
		b.t.Fatalf("job %s: tombstone %+v", id, t)
	}
}

// TestJob_tellsWhenItExpires checks the reported expiry: the earliest of a live job's times to live and the deadline
// for its start, as long as each counts.
func TestJob_tellsWhenItExpires(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	expires := func(id rota.JobID, in rota.Clock) {
		t.Helper()
		j, _ := b.View.Job(id)
		if want := b.Header.Now().At(b.Header.Clock + in); in == 0 && !j.Expires.IsZero() || in != 0 &&
			j.Expires != want {
			t.Errorf("job %s expires at %v, want %v", id, j.Expires, want)
		}
	}
	b.submit("never")
	expires("never", 0)
	b.worker("w", 1)
	b.match()
	b.submit("j", func(s *rota.JobSpec) { s.TTL, s.StartBy, s.Priority = time.Hour, time.Minute, 0 })
	expires("j", 60_000)
	b.pass(10_000)
	expires("j", 50_000)
	b.ok(cancelOp("never"))
	b.worker("other", 1)
	if _, ok := b.match()["j"]; !ok {
		t.Fatal("not placed")
	}
	expires("j", 3_590_000) // it has started in time
	b.ok(cancelOp("j"))
	expires("j", 0)
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newBench(t))
		})
	}
	ttl := func(ms int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.TTL = millis.Duration(ms) } }
	run("absolute_ends_a_job_that_waits", func(b *bench) {
		b.submit("j", ttl(5_000))
		b.pass(4_999)
		b.state("j", rota.JobQueued)
		b.pass(1)
		b.expired("j", rota.ReasonTTLAbsolute)
	})
	run("absolute_ends_a_job_that_is_delayed", func(b *bench) {
		b.submit("j", ttl(5_000), func(s *rota.JobSpec) { s.Delay = time.Minute })
		b.submit("dated", ttl(5_000), func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock + 60_000).Time() })
		b.pass(5_000)
		b.expired("j", rota.ReasonTTLAbsolute)
		b.expired("dated", rota.ReasonTTLAbsolute)
		b.pass(60_000)
		b.state("j", rota.JobExpired) // and no timer wakes it
		b.state("dated", rota.JobExpired)
	})
	run("absolute_ends_a_job_in_backoff", func(b *bench) {
		l := b.leased("j", "w", ttl(5_000))
		b.ok(verb(rota.VerbFail, l))
		b.state("j", rota.JobDelayed)
		b.pass(4_500)
		b.state("j", rota.JobDelayed)
		b.pass(500)
		b.expired("j", rota.ReasonTTLAbsolute)
	})
	for _, acked := range []bool{false, true} {
		run(fmt.Sprintf("cancels_the_lease_and_tells_its_worker/acked_%v", acked), func(b *bench) {
			l := b.leased("j", "w", ttl(4_000))
			if acked {
				b.ok(verb(rota.VerbAck, l))
			}
			events := b.pass(4_000)
			i := slices.IndexFunc(events, func(e rota.Event) bool { return e.Kind == rota.EventLeaseCancelled })
			if i < 0 || events[i].Reason != rota.ReasonTTLAbsolute || events[i].Worker != "w" ||
				events[i].Session != l.Session ||
				events[i].Lease != l.ID || len(events) < i+2 || events[i+1].Kind != rota.EventJobExpired ||
				events[i+1].Reason != rota.ReasonTTLAbsolute {
				b.t.Fatalf("events %+v", events)
			}
			b.expired("j", rota.ReasonTTLAbsolute)
			if w, _ := b.View.Worker("w"); w.Open != 0 || w.Failed != 0 {
				b.t.Fatalf("worker %+v", w) // the worker is not at fault
			}
			o := b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l)) // too late
			if rota.JobState(o.GetJobState()) != rota.JobExpired {
				b.t.Fatalf("outcome %v", o)
			}
		})
	}
	run("relative_counts_from_the_first_lease_through_all_attempts", func(b *bench) {
		b.ok(queueOp("default", "ttl_rel_max", "20s", "backoff_base", "0", "ack_timeout", "5s"))
		b.submit("j")
		b.pass(30_000) // waiting costs nothing
		b.state("j", rota.JobQueued)
		b.worker("w", 1)
		first := b.now
		for b.now < first+15_000 { // attempt after attempt
			if l, placed := b.match()["j"]; placed {
				b.ok(verb(rota.VerbFail, l))
			}
			b.pass(3_000)
		}
		b.pass(first + 19_999 - b.now)
		if j, _ := b.View.Job("j"); j.State.Terminal() || j.Attempt == 0 || j.FirstLease.Clock != first {
			b.t.Fatalf("job %+v", j)
		}
		b.pass(1)
		b.expired("j", rota.ReasonTTLRelative)
	})
	run("the_earlier_of_the_two_counts", func(b *bench) {
		b.ok(queueOp("default", "ttl_rel_max", "10s"))
		l := b.leased("rel", "w", ttl(11_000))
		b.ok(verb(rota.VerbAck, l))
		l = b.leased("abs", "w", ttl(9_000))
		b.ok(verb(rota.VerbAck, l))
		b.pass(9_000)
		b.expired("abs", rota.ReasonTTLAbsolute)
		b.pass(1_000)
		b.expired("rel", rota.ReasonTTLRelative)
	})
	run("a_lease_that_ends_in_the_same_sweep_ends_first", func(b *bench) {
		b.ok(queueOp("default", "ttl_rel_max", "5s", "ack_timeout", "5s"))
		b.leased("j", "w")
		events := b.pass(5_000)
		kinds := ""
		for _, e := range events {
			if e.Job == "j" {
				kinds += e.Kind.String() + " "
			}
		}
		if kinds != "leaseCancelled jobRetryScheduled jobExpired " {
			b.t.Fatalf("events %s", kinds)
		}
	})
	run("a_retry_gives_both_anew", func(b *bench) {
		b.ok(queueOp("default", "ttl_rel_max", "20s"))
		l := b.leased("j", "w", ttl(30_000))
		b.ok(verb(rota.VerbAck, l))
		b.pass(20_000)
		b.expired("j", rota.ReasonTTLRelative)
		b.ok(retryOp("j"))
		j := b.JobTable.Get("j")
		free := b.state("j", rota.JobDelayed).Due // its worker may not know yet
		if free.Clock != l.Deadline.Clock || j.ExpireAbs != free.Clock+30_000 || j.ExpireRel != 0 ||
			!j.FirstLease.IsZero() {
			b.t.Fatalf("row %+v", j)
		}
		b.pass(free.Clock - b.now)
		again := b.now
		l = b.match()["j"]
		b.ok(verb(rota.VerbAck, l))
		b.pass(again + 19_999 - b.now)
		b.state("j", rota.JobRunning)
		b.pass(1)
		b.expired("j", rota.ReasonTTLRelative)
	})
	run("outlives_a_change_of_the_queue", func(b *bench) {
		b.ok(queueOp("default", "ttl_abs", "5s"))
		b.submit("before")
		b.ok(queueOp("default", "ttl_abs", "0"))
		b.submit("after")
		b.pass(5_000)
		b.expired("before", rota.ReasonTTLAbsolute) // the value at submission counts
		b.state("after", rota.JobQueued)
	})
}

// TestPresetsTimeToLive checks the defaults of AICF §7.
func TestPresetsTimeToLive(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	for _, c := range []struct {
		preset   string
		abs, rel rota.Clock
	}{{"standard", 0, 0}, {"aicf-ai", 24 * hour, 6 * hour}, {"aicf-quantum", 2 * hour, 6 * hour}, {"dfps", 0, 0}} {
		t.Run(c.preset, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(presetOp("q", c.preset))
			b.worker("w", 2, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"q"} })
			b.submit("default", func(s *rota.JobSpec) { s.Queue = "q" })
			b.submit("own", func(s *rota.JobSpec) { s.Queue, s.TTL = "q", millis.Duration(5*hour) })
			at := b.now
			b.pass(250)
			leases := b.match()
			moment := func(after, from rota.Clock) rota.Clock {
				if after == 0 {
					return 0
				}
				return from + after
			}
			for id, abs := range map[rota.JobID]rota.Clock{"default": c.abs, "own": 5 * hour} {
				j := b.JobTable.Get(id)
				if _, placed := leases[id]; !placed || j.ExpireAbs != moment(abs, at) ||
					j.ExpireRel != moment(c.rel, b.now) {
					t.Fatalf("job %s: placed %v, expires %d and %d after submission", id, placed, j.ExpireAbs-at,
						j.ExpireRel-at)
				}
			}
		})
	}
}

// TestTombstoneCap fills the table of tombstones up to its cap (SPEC §9.4).
func TestTombstoneCap(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a million tombstones take seconds and half a gigabyte")
	}
	b := newBench(t)
	b.every = 1 << 30 // neither restored nor checked
	b.submit("j")
	b.submit("k")
	for _, m := range []*Machine{b.Machine, b.twin} {
		m.Ledger.Gen++
		for i := range limits.TombstoneCap {
			m.Header.TombSeq++
			m.ended.tombs.Insert(&state.TombRow{ID: rota.JobID(fmt.Sprintf("t%07d", i)), Queue: "default", Typ: "work",
				Tenant: "default",
				State:  rota.JobCompleted, Reason: rota.ReasonDone, Finished: m.Header.Now(), Seq: m.Header.TombSeq})
		}
		m.settleHeader()
		m.Ledger.Settle()
	}
	b.ok(cancelOp("j"))
	b.state("t0000000", rota.JobNone) // the oldest was dropped
	b.state("t0000001", rota.JobCompleted)
	b.ok(cancelOp("k"))
	b.state("t0000001", rota.JobNone)
	b.state("j", rota.JobCancelled)
	b.state("k", rota.JobCancelled)
	if n := b.ended.tombs.Len(); n != limits.TombstoneCap || b.Header.DroppedTombs != 2 {
		t.Fatalf("%d tombstones, %d dropped", n, b.Header.DroppedTombs)
	}
}
