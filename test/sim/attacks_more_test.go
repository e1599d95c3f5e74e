package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// bystander returns a node that neither leads nor serves the worker.
func (s *script) bystander(k *worker) *node {
	for _, n := range s.nodes {
		if n != s.leader.node && n != k.conn {
			return n
		}
	}
	s.t.Fatal("no node is left over")
	return nil
}

// submit proposes jobs without waiting.
func (s *script) submit(change func(*rota.JobSpec), ids ...string) {
	for _, id := range ids {
		spec := rota.NewJobSpec("work", nil)
		spec.ID, spec.Tenant = rota.JobID(id), rota.DefaultTenant
		change(&spec)
		s.leader.propose(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}, nil)
	}
}

func TestH02_a_leader_that_applied_late_ends_nothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	n := s.bystander(k)
	s.Lag(n, 2_000, 60_000)
	s.run(60_000)
	before, at, behind := s.clock(), s.now, len(s.log)-n.applied
	if behind < 100 {
		t.Fatalf("it is only %d entries behind", behind)
	}
	s.Elect(n) // it catches up at once, and leads
	s.run(1_000)
	if passed := s.clock() - before; passed > rota.Clock(s.now-at) {
		t.Fatalf("%d ms of clock in %d ms", passed, s.now-at)
	}
	s.run(20_000)
	s.wantOpen(l, true)
}

func TestH07_renewals_do_not_starve_behind_enqueues(t *testing.T) {
	t.Parallel()
	s := newScript(t, func(o *Options) { o.LeaseMs = 20_000 })
	l, k := s.job("j")
	for i := range 600 { // three leases long
		for n := range 20 {
			s.submit(func(spec *rota.JobSpec) { spec.Priority, spec.Delay = 0, 10*time.Minute },
				fmt.Sprint("x", i, "-", n))
		}
		s.run(100)
	}
	s.wantOpen(l, true)
	if renewed := renewals(s, l); renewed < 3 {
		t.Fatalf("%d renewals in three leases of worker %s", renewed, k.id)
	}
}

func TestH10_what_waits_in_a_cluster_at_rest_waits_on_after_a_restart(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.submit(func(spec *rota.JobSpec) { spec.Delay = 30 * time.Second }, "j")
	s.run(10_000)
	before := s.clock()
	for _, n := range s.nodes {
		s.Snapshot(n)
	}
	for _, n := range s.nodes {
		s.Crash(n)
	}
	s.run(3_600_000)
	for _, n := range s.nodes {
		s.Restart(n)
	}
	s.Elect(s.nodes[1])
	s.run(5_000)
	if passed := s.clock() - before; passed < 3_000 || passed > 5_100 {
		t.Fatalf("%d ms of clock passed in an hour without a cluster, and 5 s with one", passed)
	}
	if j, _ := s.leader.node.machine.Job("j"); j.State != rota.JobDelayed {
		t.Fatalf("a job delayed by 30 s is %s after 15 s of clock", j.State)
	}
	s.run(20_000)
	if j, _ := s.leader.node.machine.Job("j"); j.State == rota.JobDelayed {
		t.Fatal("a job delayed by 30 s waits after 35 s of clock")
	}
}

// outlives reports whether a worker ever believed in a lease that the cluster had ended, while it received no messages.
func (s *script) outlives(l rota.Lease, k *worker) bool {
	k.cutUntil, k.soundSince = 1<<40, 1<<40
	for range 1_200 {
		s.run(100)
		for _, u := range k.order {
			if u.given.Lease.ID == l.ID && k.believes(u) && !s.open(l) {
				return true
			}
		}
	}
	if s.open(l) {
		s.t.Fatal("the lease never ended")
	}
	return false
}

func TestH13_a_worker_counts_from_before_the_answer(t *testing.T) {
	t.Parallel()
	for _, lease := range []int64{8_000, 60_000} { // by its deadline, and by silence
		s := newScript(t, func(o *Options) { o.LeaseMs = lease })
		l, k := s.job("j")
		if s.outlives(l, k) {
			t.Fatalf("a worker believes in a lease of %d ms that has ended", lease)
		}
	}
}

func TestH18_clocks_that_run_wrong_by_percents(t *testing.T) {
	t.Parallel()
	believed := func(worker, node int64, lease int64) bool {
		s := newScript(t, func(o *Options) { o.LeaseMs = lease })
		l, k := s.job("j")
		before := s.now // its clock continues from its old value
		k.offset += Time(int64(before) * (k.ppm - worker) / 1_000_000)
		k.ppm = worker
		n := s.leader.node
		n.offset += Time(int64(before) * (n.ppm - node) / 1_000_000)
		n.ppm = node
		return s.outlives(l, k)
	}
	if believed(-20_000, 200, 60_000) || believed(-20_000, 20_000, 20_000) {
		t.Fatal("a worker whose clock is slow by 2 % believes in a lease that has ended")
	}
	if !believed(-200_000, 20_000, 20_000) {
		t.Fatal("a clock that is slow by a fifth went unnoticed: this test detects nothing")
	}
}

// TestH26_a_suspended_leader: its machine and clock sleep while another leader is elected; on waking it gets no notice
// of that. Its messages after that must not count.
func TestH26_a_leader_that_was_suspended_with_its_machine(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	old := s.leader
	const asleep = 45_000
	s.PauseNode(old.node, asleep)
	s.Elect(s.bystander(k))
	s.run(asleep)
	old.node.offset -= asleep // CLOCK_MONOTONIC stopped
	old.over = false
	before, at := s.clock(), s.now
	answered := 0
	for _, w := range s.workers {
		old.beat(w.id, w.session, beatEvery, func(rota.Clock, bool) { answered++ })
	}
	old.propose(&fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}, func(*fsmpb.Outcome) { answered++ })
	for _, f := range old.flying { // and its proposals arrive late
		s.append(logEntry{s.term, f.data})
	}
	s.run(20_000)
	if answered > 0 {
		t.Fatalf("it answered %d times", answered)
	}
	// The previous stamp was up to a sweep old, and clocks are up to 200 ppm off.
	if passed := s.clock() - before; passed > rota.Clock(s.now-at+sweepEvery) {
		t.Fatalf("%d ms of clock in %d ms", passed, s.now-at)
	}
	if k.conn != old.node {
		s.wantOpen(l, true)
	}
}

// TestH16_a_restored_backup repeats no token and believes in no old lease.
func TestH16_a_restored_backup_repeats_no_token(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	s.Snapshot(s.leader.node)
	backup := s.leader.node.snapshot
	s.run(20_000) // renewals and more leases, which the backup does not contain
	m, err := backup.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reincarnate(fsm.Rebirth{Cluster: "restored"}); err != nil {
		t.Fatal(err)
	}
	if _, open := m.Assignment(l.ID); open || m.JobState("j") != rota.JobQueued {
		t.Fatalf("the lease is open after the restore: %v, its job is %s", open, m.JobState("j"))
	}
	if session, status := m.Session(k.id); status != rota.WorkerRetired {
		t.Fatalf("worker %s is %s in session %d", k.id, status, session)
	}
	if m.Head().Incarnation <= s.leader.node.machine.Head().Incarnation {
		t.Fatal("the incarnation did not grow: tokens may repeat")
	}
	if faults := m.Check(); len(faults) > 0 {
		t.Fatalf("%q", faults)
	}
}
