package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func inDomain(name string) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Domain = name } }

// zoned has jobs of two failure domains that never wait after a failure, one slot per assignment.
func zoned(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.every = 10
	b.ok(queueOp("default", "backoff_base", "0", "attempt_max", "1000", "min_health", "0", "oldest_every", "0"))
	return b
}

// end runs one job of a domain to an outcome, and returns the events of its end.
func (b *bench) end(domain string, v rota.LeaseVerb) []rota.Event {
	b.t.Helper()
	id := fmt.Sprint(domain, b.entries)
	worker := "w-" + id // a worker each, as failures cool a worker down
	b.worker(worker, 1)
	b.submit(id, inDomain(domain), func(s *rota.JobSpec) { s.Worker = rota.WorkerID(worker) })
	l, ok := b.match()[rota.JobID(id)]
	if !ok {
		b.t.Fatalf("job %s was not placed", id)
	}
	events := b.entry(verb(v, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry })).Events
	if b.View.JobState(rota.JobID(id)) == rota.JobQueued { // declined
		b.ok(cancelOp(id))
	}
	b.ok(statusOp(worker, rota.WorkerRetired, 0))
	return events
}

// outcomes gives a domain this many failures and successes; ten outcomes can isolate it.
func (b *bench) outcomes(domain string, failures, successes int) (events []rota.Event) {
	b.t.Helper()
	for range successes {
		events = append(events, b.end(domain, rota.VerbComplete)...)
	}
	for range failures {
		events = append(events, b.end(domain, rota.VerbFail)...)
	}
	return events
}

func TestDomain(t *testing.T) {
	t.Parallel()
	t.Run("is_isolated_above_the_threshold_with_enough_samples", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		if e := b.outcomes("zone-1", 3, 7); len(kinds(e, rota.EventDomainIsolated)) != 0 {
			t.Fatal("isolated at the threshold, want only above it")
		}
		if e := b.outcomes("zone-2", 9, 0); len(kinds(e, rota.EventDomainIsolated)) != 0 {
			t.Fatal("isolated with nine samples")
		}
		e := kinds(b.outcomes("zone-1", 1, 0), rota.EventDomainIsolated)
		want := `{"domain":"zone-1","outcomes":11,"failures":4,"threshold_permille":300}`
		if len(e) != 1 || e[0].Queue != "default" || e[0].Payload != want {
			t.Fatalf("events %+v", e)
		}
		q, _ := b.View.QueueInFull("default")
		if len(q.Domains) != 2 || !q.Domains[0].Isolated || q.Domains[0].Failures != 4 || q.Domains[1].Isolated {
			t.Fatalf("domains %+v", q.Domains)
		}
	})
	t.Run("declines_cancellations_and_no_domain_count_nothing", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		for range 12 {
			b.end("zone-1", rota.VerbDecline)
			b.end("", rota.VerbFail)
		}
		b.worker("w", 1)
		b.submit("c", inDomain("zone-1"))
		b.match()
		b.ok(cancelOp("c"))
		if b.admission.domains.Len() != 0 {
			t.Fatalf("%d domains", b.admission.domains.Len())
		}
	})
	t.Run("lost_leases_and_bad_proofs_count", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.worker("w", 3)
		b.submit("no-ack", inDomain("z"))
		b.submit("lost", inDomain("z"))
		b.submit("proof", inDomain("z"), func(s *rota.JobSpec) { s.ExpectedDigest = make([]byte, 32) })
		l := b.match()
		b.ok(verb(rota.VerbAck, l["lost"]))
		b.entry(verb(rota.VerbComplete, l["proof"]))
		b.pass(61_000 - 50_000)
		if d := b.admission.domains.Get(state.DomainKey("default", "z")); d == nil {
			t.Fatal("no failure is counted")
		} else if _, fail := d.Window.Total(); fail != 2 {
			t.Fatalf("%d failures are counted", fail)
		}
		b.pass(55_000)
		if q, _ := b.View.QueueInFull("default"); len(q.Domains) != 1 || q.Domains[0].Failures == 0 {
			t.Fatalf("an expired lease is not counted: %+v", q.Domains)
		}
	})
	t.Run("jobs_of_an_isolated_one_pass_a_bucket", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.outcomes("zone-1", 10, 0)
		b.worker("w", 100)
		for i := range 20 {
			b.submit(fmt.Sprint("probe", i), inDomain("zone-1"))
		}
		b.submit("other", inDomain("zone-2"))
		b.submit("none")
		if l := b.match(); len(l) != 7 { // the burst, and the two that are not isolated
			t.Fatalf("%d were started", len(l))
		}
		if why := b.dropped("probe19", "w"); why != "DOMAIN_ISOLATED" {
			t.Fatalf("dropped for %s", why)
		}
		if q, _ := b.View.Queue("default"); q.Throttled != 1 {
			t.Fatalf("%d lanes are throttled", q.Throttled)
		}
		b.pass(750)
		if len(b.match()) != 0 {
			t.Fatal("a token came early")
		}
		b.pass(250)
		b.twin = b.restored()
		if l := b.match(); len(l) != 1 {
			t.Fatalf("after a second %d were started", len(l))
		}
		b.pass(2000)
		if l := b.match(); len(l) != 2 {
			t.Fatalf("after two more %d were started", len(l))
		}
	})
	t.Run("recovers_at_half_the_threshold_and_not_before", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.outcomes("zone-1", 4, 6)
		for n := int64(11); ; n++ {
			b.pass(1000) // one probe
			e := kinds(b.end("zone-1", rota.VerbComplete), rota.EventDomainRecovered)
			if recovered := 4*2000 <= 300*n; recovered != (len(e) == 1) {
				t.Fatalf("with 4 failures in %d: events %+v", n, e)
			} else if recovered {
				break
			}
		}
		b.worker("w", 100)
		for i := range 20 {
			b.submit(fmt.Sprint("more", i), inDomain("zone-1"))
		}
		if l := b.match(); len(l) != 20 {
			t.Fatalf("%d were started after it recovered", len(l))
		}
	})
	t.Run("recovers_when_nothing_was_heard_for_a_window_and_leaves_no_row", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.outcomes("zone-1", 10, 0)
		if b.View.AtRest() {
			t.Fatal("at rest while a domain is isolated")
		}
		if e := b.pass(49_000); len(kinds(e, rota.EventDomainRecovered)) != 0 {
			t.Fatal("recovered while failures are in the window")
		}
		e := kinds(b.pass(11_000), rota.EventDomainRecovered)
		if len(e) != 1 || e[0].Payload != `{"domain":"zone-1","outcomes":0,"failures":0,"threshold_permille":300}` {
			t.Fatalf("events %+v", e)
		}
		if b.admission.domains.Len() != 0 || b.Timers.Domain.Len() != 0 {
			t.Fatal("a domain at rest has a row")
		}
	})
	t.Run("isolates_none_at_a_threshold_of_0", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.ok(queueOp("default", "domain_failure_threshold", "0"))
		if e := b.outcomes("zone-1", 20, 0); len(kinds(e, rota.EventDomainIsolated)) != 0 {
			t.Fatalf("events %+v", e)
		}
		b.ok(queueOp("default", "domain_failure_threshold", "0.3"))
		b.outcomes("zone-2", 10, 0)
		e := b.entry(queueOp("default", "domain_failure_threshold", "0")).Events
		if len(kinds(e, rota.EventDomainRecovered)) == 0 {
			t.Fatalf("a domain stays isolated: %+v", e)
		}
	})
	t.Run("is_kept_a_queue", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.ok(queueOp("other"))
		b.outcomes("zone-1", 10, 0)
		b.worker("w", 100, serving("other"))
		for i := range 9 {
			b.submit(fmt.Sprint("o", i), inDomain("zone-1"), queue("other"))
		}
		if l := b.match(); len(l) != 9 {
			t.Fatalf("%d were started in the other queue", len(l))
		}
	})
	t.Run("follows_a_policy_that_changes", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		b.outcomes("zone-1", 4, 6)
		e := b.entry(queueOp("default", "domain_failure_threshold", "0.9")).Events
		if len(kinds(e, rota.EventDomainRecovered)) != 1 {
			t.Fatalf("events %+v", e)
		}
		e = b.entry(queueOp("default", "domain_failure_threshold", "0.3", "domain_probe_burst", "1")).Events
		if len(kinds(e, rota.EventDomainIsolated)) != 1 {
			t.Fatalf("events %+v", e)
		}
		b.worker("w", 9)
		b.submit("a", inDomain("zone-1"))
		b.submit("b", inDomain("zone-1"))
		if l := b.match(); len(l) != 1 {
			t.Fatalf("%d were started", len(l))
		}
		b.ok(queueOp("default", "ranking", "fifo"))
		if why := b.dropped(pending(b, "a", "b"), "w"); why != "DOMAIN_ISOLATED" {
			t.Fatalf("dropped for %s", why)
		}
	})
	t.Run("beyond_the_most_nothing_is_counted", func(t *testing.T) {
		t.Parallel()
		b := zoned(t)
		for i := range limits.MaxDomains {
			d := &state.DomainRow{Key: state.DomainKey("default", fmt.Sprint("d", i)), Queue: "default",
				Name: fmt.Sprint("d", i)}
			d.Window.Count(domainSpan, b.Header.Clock, 1, 0)
			d.Due = d.Window.Leaves(domainSpan)
			for _, m := range []*Machine{b.Machine, b.twin} {
				row := *d
				m.Ledger.Gen++
				m.admission.domains.Insert(d.Key, &row)
				m.Timers.Domain.Refile(state.DomainKey(d.Queue, d.Name), 0, int64(d.Due))
				m.Ledger.Settle()
			}
		}
		b.end("one-more", rota.VerbFail)
		if b.admission.domains.Len() != limits.MaxDomains {
			t.Fatalf("%d domains", b.admission.domains.Len())
		}
		b.pass(70_000)
		if b.admission.domains.Len() != 0 {
			t.Fatalf("%d domains at rest", b.admission.domains.Len())
		}
	})
}

// pending returns the first of the jobs that is QUEUED.
func pending(b *bench, ids ...string) string {
	b.t.Helper()
	for _, id := range ids {
		if b.View.JobState(rota.JobID(id)) == rota.JobQueued {
			return id
		}
	}
	b.t.Fatal("no job is QUEUED")
	return ""
}

// TestQuarantineDelays checks that a job pinned to a worker that gets nothing waits for it, however long; FF would
// quarantine "and drop or retry".
func TestQuarantineDelays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 20
	b.ok(minds("default", "backoff_base", "0", "attempt_max", "1000"))
	b.worker("w", 9)
	b.worker("other", 9)
	pinned := func(s *rota.JobSpec) { s.Worker = "w" }
	for range 3 { // three failures in a row cool it down for the type
		b.submit(fmt.Sprint("bad", b.entries), pinned)
		for _, l := range b.match() {
			b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		}
	}
	b.submit("kept", pinned)
	if l := b.match(); len(l) != 0 {
		t.Fatalf("a worker in quarantine got %v", l)
	}
	b.ok(statusOp("w", rota.WorkerSuspended, 0))
	b.pass(24 * 3_600_000 / 100)
	b.state("kept", rota.JobQueued)
	if len(b.match()) != 0 {
		t.Fatal("a suspended worker got a job")
	}
	b.ok(statusOp("w", rota.WorkerActive, 0))
	b.pass(31_000)
	if b.match()["kept"].Worker != "w" {
		t.Fatal("the job did not run once its worker was back")
	}
}
