package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// lossBench is a bench under the newest rules, with jobs of at most one second's backoff.
func lossBench(t *testing.T, set ...string) *bench {
	b := newBench(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(queueOp("default", append([]string{"backoff_base_ms", "100", "backoff_cap_ms", "1000", "t_lease", "10m",
		"fair_share", "off"}, set...)...))
	return b
}

// crash starts a worker, gives it jobs, and lets its guard report that it died; it returns the jobs and the events.
func (b *bench) crash(n int, slots int32) (ran []rota.JobID, events []rota.Event) {
	b.t.Helper()
	id := fmt.Sprint("w", n)
	s := b.worker(id, slots)
	for _, l := range inOrder(b.match()) {
		if l.Worker == rota.WorkerID(id) {
			b.ok(verb(rota.VerbAck, l))
			ran = append(ran, l.Job)
		}
	}
	events = b.entry(goneOp(id, s, id)).Events
	slices.Sort(ran)
	return ran, events
}

func kindsOf(events []rota.Event, kind rota.EventKind) (jobs []rota.JobID) {
	for _, e := range events {
		if e.Kind == kind {
			jobs = append(jobs, e.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// TestLosses_isolatesTheCulprit has one of four jobs kill its worker each time it runs: after two losses they run one
// at a time, the third loss of the same job identifies it, and the others lose no attempt.
func TestLosses_isolatesTheCulprit(t *testing.T) {
	t.Parallel()
	b := lossBench(t)
	for i, id := range []string{"j1", "j2", "j3", "culprit"} {
		b.submit(id, func(s *rota.JobSpec) { s.Priority = int32(i) + 1 })
	}
	all := "[culprit j1 j2 j3]"
	for n := range 2 {
		ran, events := b.crash(n, 4)
		if fmt.Sprint(ran) != all {
			t.Fatalf("loss %d: ran %v", n, ran)
		}
		if isolated := fmt.Sprint(kindsOf(events, rota.EventJobIsolated)); n == 0 && isolated != "[]" || n == 1 &&
			isolated != all {
			t.Fatalf("loss %d isolated %s", n, isolated)
		}
		b.pass(2_000)
	}
	j := b.state("j1", rota.JobQueued)
	if j.Attempt != 0 || j.WorkerLosses != 2 || !j.Isolated || j.Attempts[1].End != rota.ReasonWorkerLost ||
		j.Reason != rota.ReasonWorkerLost {
		t.Fatalf("job %+v", j)
	}
	// j1 runs alone, though its worker has four slots; no other job gets one of those.
	s := b.worker("w2", 4)
	first := inOrder(b.match())
	if len(first) != 1 || first[0].Job != "j1" {
		t.Fatalf("leases %+v", first)
	}
	b.ok(verb(rota.VerbAck, first[0]))
	b.submit("new")
	if more := b.match(); len(more) > 0 {
		t.Fatalf("leases next to the isolated job: %v", more)
	}
	for id, detail := range map[rota.JobID]string{"j2": "2 workers were lost while they ran it: it runs alone on a worker",
		"new": "another job runs there alone"} {
		if x, _ := b.View.Why(id, 100); !slices.ContainsFunc(x.Reasons,
			func(w rota.Why) bool { return w.Reason == "RUNS_ALONE" && strings.Contains(w.Detail, detail) }) ||
			!slices.ContainsFunc(x.WouldRun, func(s string) bool { return strings.Contains(s, "runs there alone") }) {
			t.Errorf("why %s: %+v", id, x)
		}
	}
	b.sound()
	b.ok(verb(rota.VerbComplete, first[0]))
	b.ok(cancelOp("new"))
	b.ok(cancelOp("j2"))
	// j3 is leased alone on another worker when the culprit is identified: it is cleared, and its worker accepts other
	// jobs again.
	b.match()
	b.state("j3", rota.JobAssigned)
	ran, events := b.crash(3, 4)
	if fmt.Sprint(ran) != "[culprit]" {
		t.Fatalf("ran %v", ran)
	}
	if dead := fmt.Sprint(kindsOf(events, rota.EventJobDead)); dead != "[culprit]" {
		t.Fatalf("dead %s", dead)
	}
	if cleared := fmt.Sprint(kindsOf(events, rota.EventJobCleared)); cleared != "[j3]" {
		t.Fatalf("cleared %s", cleared)
	}
	if dead := b.state("culprit", rota.JobDead); dead.Reason != rota.ReasonWorkerLost || dead.Attempt != 0 {
		t.Fatalf("culprit %+v", dead)
	}
	if j := b.state("j3", rota.JobAssigned); j.WorkerLosses != 0 || j.Isolated {
		t.Fatalf("job %+v", j)
	}
	b.submit("beside")
	if l, ok := b.match()["beside"]; !ok || l.Worker != "w2" || l.Session != s {
		t.Fatalf("lease %+v", l)
	}
	b.sound()
	retry := b.state("culprit", rota.JobDead)
	b.ok(retryOp(string(retry.ID)))
	if j := b.state("culprit", rota.JobQueued); j.WorkerLosses != 0 {
		t.Fatalf("a retried job has %d losses", j.WorkerLosses)
	}
}

// TestLosses_limit checks the limit of losses: that of its queue, one for a job with one attempt, and 0 as under rules
// version 1.
func TestLosses_limit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, max string
		attempts  int64
		want      []string // state, reason, attempt and losses after each loss
	}{
		{"usual", "3", 0, []string{"DELAYED WORKER_LOST 0 1", "DELAYED WORKER_LOST 0 2", "DEAD WORKER_LOST 0 0"}},
		{"one", "1", 0, []string{"DEAD WORKER_LOST 0 0"}},
		{"five", "5", 0, []string{"DELAYED WORKER_LOST 0 1", "DELAYED WORKER_LOST 0 2", "DELAYED WORKER_LOST 0 3",
			"DELAYED WORKER_LOST 0 4", "DEAD WORKER_LOST 0 0"}},
		{"of one attempt", "3", 1, []string{"DEAD WORKER_LOST 0 0"}},
		{"off", "0", 2, []string{"DELAYED LEASE_EXPIRED 1 0", "DEAD LEASE_EXPIRED 1 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := lossBench(t, "worker_losses_max", c.max)
			b.submit("j", func(s *rota.JobSpec) { s.Retry.Attempts = c.attempts })
			for n, want := range c.want {
				b.crash(n, 2)
				j, _ := b.View.Job("j")
				if got := fmt.Sprint(j.State, " ", j.Reason, " ", j.Attempt, " ", j.WorkerLosses); got != want {
					t.Fatalf("after loss %d: %s, want %s", n+1, got, want)
				}
				b.pass(2_000)
			}
		})
	}
}

// TestLosses_whatCounts covers each end of an attempt that is a lost worker, and those that are not.
func TestLosses_whatCounts(t *testing.T) {
	t.Parallel()
	silent := func(b *bench, l rota.Lease) { b.ok(reachOp("w", l.Session, false, b.now)) }
	for _, c := range []struct {
		name string
		ack  bool
		end  func(b *bench, l rota.Lease)
		want rota.Reason
	}{
		{"silence", true, func(b *bench, l rota.Lease) { silent(b, l); b.pass(40_000) }, rota.ReasonWorkerLost},
		{"silence before the acknowledgement", false, func(b *bench, l rota.Lease) { silent(b, l); b.pass(5_000) },
			rota.ReasonWorkerLost},
		{"a broken stream", true, func(b *bench, l rota.Lease) {
			b.ok(disconnectOp("w", l.Session, 5))
			b.pass(10_000)
		}, rota.ReasonWorkerLost},
		{"a broken stream before the acknowledgement", false, func(b *bench, l rota.Lease) {
			b.ok(disconnectOp("w", l.Session, 5))
			b.pass(5_000)
		}, rota.ReasonWorkerLost},
		{"silence beyond max_runtime", true, func(b *bench, l rota.Lease) {
			b.pass(20_000)
			silent(b, l)
			b.pass(10_000)
		}, rota.ReasonWorkerLost},
		{"a takeover that is not confirmed", true, func(b *bench, _ rota.Lease) {
			b.ok(registerOp("w", 1, "other", true))
			b.pass(40_000)
		}, rota.ReasonWorkerLost},
		{"a takeover that is confirmed", true, func(b *bench, l rota.Lease) {
			b.ok(registerOp("w", 1, "other", true))
			b.ok(verb(rota.VerbDecline, l))
		}, rota.ReasonTakenOver},
		{"no acknowledgement", false, func(b *bench, _ rota.Lease) { b.pass(5_000) }, rota.ReasonAckTimeout},
		{"max_runtime", true, func(b *bench, _ rota.Lease) { b.pass(30_000) }, rota.ReasonTimedOut},
		{"a goodbye", true, func(b *bench, l rota.Lease) { b.ok(statusOp("w", rota.WorkerRetired, l.Session)) },
			rota.ReasonWorkerRetired},
		{"a suspension while silent", true, func(b *bench, l rota.Lease) {
			silent(b, l)
			b.ok(statusOp("w", rota.WorkerSuspended, 0))
		}, rota.ReasonWorkerSuspended},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := lossBench(t, "lease_grace_on_disconnect", "10s")
			b.ok(linked(registerOp("w", 1, "w", false), 5))
			b.submit("j", func(s *rota.JobSpec) {
				if strings.Contains(c.name, "max_runtime") {
					s.MaxRuntime = 30_000 * 1_000_000
				}
			})
			l := b.match()["j"]
			if c.ack {
				b.ok(verb(rota.VerbAck, l))
			}
			c.end(b, l)
			j, _ := b.View.Job("j")
			lost := c.want == rota.ReasonWorkerLost
			if len(j.Attempts) != 1 || j.Attempts[0].End != c.want || (j.WorkerLosses == 1) != lost || lost &&
				(j.Attempt != 0 || j.Attempts[0].Error == "") {
				t.Fatalf("job %+v", j)
			}
			b.sound()
		})
	}
}

// TestLosses_offClears turns off the counting of losses in a queue: its jobs run next to others again.
func TestLosses_offClears(t *testing.T) {
	t.Parallel()
	b := lossBench(t)
	b.submit("a")
	b.submit("b")
	for n := range 2 {
		b.crash(n, 2)
		b.pass(2_000)
	}
	o := b.entry(queueOp("default", "worker_losses_max", "0"))
	if cleared := fmt.Sprint(kindsOf(o.Events, rota.EventJobCleared)); cleared != "[a b]" {
		t.Fatalf("cleared %s", cleared)
	}
	b.worker("w", 2)
	if got := b.match(); len(got) != 2 {
		t.Fatalf("leases %v", got)
	}
	b.sound()
}

// TestLosses_moveClears moves an isolated job to a queue that counts no losses. The job is no longer isolated there.
func TestLosses_moveClears(t *testing.T) {
	t.Parallel()
	b := lossBench(t, "worker_losses_max", "0")
	b.ok(queueOp("other", "backoff_base_ms", "100"))
	b.submit("a", func(s *rota.JobSpec) { s.Queue = "other" })
	for n := range 2 {
		id := fmt.Sprint("w", n)
		s := b.worker(id, 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"other"} })
		b.ok(verb(rota.VerbAck, b.match()["a"]))
		b.ok(goneOp(id, s, id))
		b.pass(2_000)
	}
	if !b.JobTable.Get("a").Isolated() {
		t.Fatal("the job is not isolated")
	}
	o := b.entry(drainOp("other", "default"))
	if cleared := fmt.Sprint(kindsOf(o.Events, rota.EventJobCleared)); cleared != "[a]" ||
		b.JobTable.Get("a").Isolated() {
		t.Fatalf("cleared %s: %v, %v", cleared, o.Events, o.Outcomes)
	}
	b.sound()
}

// TestLosses_holdsBusyWorker holds a busy worker for an isolated job: no stream of short jobs starves it.
func TestLosses_holdsBusyWorker(t *testing.T) {
	t.Parallel()
	b := lossBench(t, "hold_after", "1000", "oldest_every", "0")
	b.submit("j")
	for n := range 2 {
		b.crash(n, 1)
		b.pass(2_000)
	}
	b.submit("first", func(s *rota.JobSpec) { s.Priority = 0 })
	b.submit("second", func(s *rota.JobSpec) { s.Priority = 0 })
	b.worker("w", 2)
	leases := b.match()
	if len(leases) != 2 || leases["j"].Job != "" {
		t.Fatalf("leases %v", leases)
	}
	b.pass(1_500)
	b.match()
	if holds := b.placement.holds.Get("j"); holds == nil || holds.Worker != "w" {
		t.Fatalf("hold %+v", holds)
	}
	b.submit("third", func(s *rota.JobSpec) { s.Priority = 0 })
	b.completeAll("first")
	if got := b.match(); len(got) > 0 {
		t.Fatalf("leases %v", got)
	}
	b.completeAll("second")
	if got := b.match(); len(got) != 1 || got["j"].Job != "j" {
		t.Fatalf("leases %v", got)
	}
	b.sound()
}

// TestLosses_cancelledStaysAlone cancels a job that runs alone: its worker accepts no other until it confirms, also
// after a restore, and its death then does not count as a loss of the job. The job's retry runs next to others.
func TestLosses_cancelledStaysAlone(t *testing.T) {
	t.Parallel()
	b := lossBench(t)
	b.submit("j")
	for n := range 2 {
		b.crash(n, 2)
		b.pass(2_000)
	}
	b.worker("w", 2)
	l, ok := b.match()["j"]
	if !ok {
		t.Fatal("the job is not placed")
	}
	b.ok(verb(rota.VerbAck, l))
	b.submit("next")
	b.ok(cancelOp("j"))
	b.ok(retryOp("j"))
	if got := b.match(); len(got) > 0 {
		t.Fatalf("leases next to a job that ran alone: %v", got)
	}
	b.sound()
	if faults := b.restored().Check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	b.ok(verb(rota.VerbDecline, l))
	if got := b.match(); len(got) != 2 {
		t.Fatalf("leases %v", got)
	}
	if j := b.state("j", rota.JobAssigned); j.WorkerLosses != 0 || j.Isolated {
		t.Fatalf("job %+v", j)
	}
	b.sound()
}

// TestLosses_needsRules refuses the key under rules version 1, where a lost worker uses up an attempt.
func TestLosses_needsRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindConflict, "rules_version", queueOp("default", "worker_losses_max", "5"))
	if n := entry.Needs(&fsmpb.Op{Op: queueOp("default", "Worker_Losses_Max", "5").GetOp()}); n != lossRules {
		t.Fatalf("the key needs rules version %d", n)
	}
	b.submit("j")
	b.crash(0, 1)
	if j, _ := b.View.Job("j"); j.Attempt != 1 || j.Reason != rota.ReasonLeaseExpired || j.WorkerLosses != 0 {
		t.Fatalf("job %+v", j)
	}
}
