package sim

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// The attacks on time (RAFT §7) that belong at this level, each by a script of its own in a world without random
// faults.

// script is a quiet world: three nodes, one leader, one job in progress.
type script struct {
	*World
	t *testing.T
}

func newScript(t *testing.T, change ...func(*Options)) *script {
	t.Helper()
	// Apart, so that a job exists before its lease, and the steps between the two are visible.
	o := Options{Seed: 1, Nodes: 3, Workers: 2, LeaseMs: 60_000, Quiet: true, Apart: true}
	for _, f := range change {
		f(&o)
	}
	s := &script{NewWorld(o), t}
	s.Elect(s.nodes[0])
	s.run(3_000)
	return s
}

func (s *script) run(length Time) {
	s.t.Helper()
	if err := s.Run(s.now + length); err != nil {
		s.t.Fatal(err)
	}
}

// job submits a job that lasts longer than the script, and waits until it runs.
func (s *script) job(id string) (rota.Lease, *worker) {
	s.t.Helper()
	spec := rota.NewJobSpec("work", nil)
	spec.ID, spec.Tenant = rota.JobID(id), rota.DefaultTenant
	s.leader.propose(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}, nil)
	for range 100 {
		s.run(50)
		for _, k := range s.workers {
			for _, u := range k.order {
				if u.given.Lease.Job == spec.ID && u.acked {
					u.finish, u.report = 1<<60, rota.VerbComplete
					return u.given.Lease, k
				}
			}
		}
	}
	s.t.Fatalf("job %s does not run", id)
	return rota.Lease{}, nil
}

func (s *script) clock() rota.Clock { return s.audit.clock }

// open reports whether the lease is still open, on the node that has applied most.
func (s *script) open(l rota.Lease) bool {
	best := s.nodes[0]
	for _, n := range s.nodes {
		if n.applied > best.applied {
			best = n
		}
	}
	_, ok := best.machine.Assignment(l.ID)
	return ok
}

func (s *script) wantOpen(l rota.Lease, want bool) {
	s.t.Helper()
	if s.open(l) != want {
		s.t.Fatalf("at %d: lease open: got %v, want %v", s.now, !want, want)
	}
}

// wantUncounted checks that the job lost no attempt: after 30 s without an answer its worker gives the lease back by
// itself (SPEC §3.9), which is not an expiry.
func (s *script) wantUncounted(id string) {
	s.t.Helper()
	if j, ok := s.leader.node.machine.Job(rota.JobID(id)); !ok || s.audit.Expired > 0 ||
		j.Reason == rota.ReasonLeaseExpired || j.Reason == rota.ReasonWorkerLost || j.Reason == rota.ReasonAckTimeout {
		s.t.Fatalf("job %s is in attempt %d (%s)", id, j.Attempt, j.Reason)
	}
}

func TestH01_a_restarted_leader_counts_no_replay(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	s.Cut(k, 1<<40) // no renewals
	before, deadline := s.clock(), l.Deadline
	s.Snapshot(s.nodes[1])
	s.Crash(s.nodes[1])
	s.run(500)
	s.Restart(s.nodes[1])
	s.Elect(s.nodes[1]) // it replays at once, and leads
	s.run(100)
	if s.clock() > before+1_500 || s.clock() >= deadline.Clock {
		t.Fatalf("the clock went from %d to %d", before, s.clock())
	}
	s.wantOpen(l, true)
}

func TestH03_a_leader_paused_for_long_costs_no_lease_any_time(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	_, _ = s.job("j")
	before := s.clock()
	s.PauseNode(s.nodes[0], 120_000) // and it stays leader
	s.run(120_100)
	if passed := s.clock() - before; passed > 1_000 {
		t.Fatalf("%d ms passed in a pause", passed)
	}
	s.run(30_000)
	s.wantUncounted("j")
	s = newScript(t)
	l, _ := s.job("j")
	s.PauseNode(s.nodes[0], 25_000) // short enough for the worker to continue
	s.run(40_000)
	s.wantOpen(l, true)
}

func TestH04_time_passes_under_flapping_leaders(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	before, start := s.clock(), s.now
	for i := range 12 {
		s.Elect(s.nodes[i%3])
		s.run(5_000)
	}
	if rate := float64(s.clock()-before) / float64(s.now-start); rate < 0.5 || rate > 1.01 {
		t.Fatalf("the clock ran at %.2f of real time", rate)
	}
	_, k := s.job("j")
	k.Die()
	for i := range 24 { // leaders change until its lease ends all the same
		s.Elect(s.nodes[i%3])
		s.run(5_000)
	}
	if len(s.audit.leases) != 0 {
		t.Fatal("a dead worker's lease is open after two minutes of flapping")
	}
}

func TestH05_a_sweep_of_a_deposed_leader_ends_nothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, _ := s.job("j")
	stale := seal(s.World, s.nodes[0], &fsmpb.Entry{Term: s.term, NowMs: int64(s.clock() + 900),
		Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{
			Sweep: &fsmpb.Sweep{}}}}})
	s.Elect(s.nodes[1])
	s.run(100)
	before := s.clock()
	for range 100 {
		s.append(logEntry{s.term, stale})
		s.append(logEntry{s.term - 1, stale})
	}
	s.run(5)
	if s.clock() > before+500 {
		t.Fatalf("the clock went from %d to %d", before, s.clock())
	}
	s.wantOpen(l, true)
}

func TestH06_a_renewal_before_the_sweep_applies_saves_the_lease(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	k.cutUntil, k.soundSince = 1<<40, 1<<40
	for s.clock() < l.Deadline.Clock-100 && s.open(l) {
		s.leader.heard[k.id] = s.clock() // a beat that got through alone
		s.run(20)
	}
	op := entry.LeaseCommandOp(&peer.LeaseCommand{Verb: rota.VerbRenew, Lease: l.ID, Job: l.Job, Worker: l.Worker,
		Session: l.Session, Ordinal: renewals(s, l) + 1})
	s.leader.propose(op, nil)
	s.run(2_000)
	s.wantOpen(l, true)
}

func renewals(s *script, l rota.Lease) int32 {
	a, _ := s.leader.node.machine.Assignment(l.ID)
	return a.Lease.Renewals
}

func TestH08_a_leap_poisons_no_clock(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	before := s.clock()
	for _, now := range []int64{int64(before) + 5_000, 1 << 62, -1} {
		s.append(logEntry{s.term, seal(s.World, s.nodes[0], &fsmpb.Entry{Term: s.term, NowMs: now})})
	}
	s.run(250)
	if s.clock() > before+700 {
		t.Fatalf("the clock leapt from %d to %d", before, s.clock())
	}
}

func TestH09_the_wall_clock_of_a_new_leader_moves_no_clock(t *testing.T) {
	t.Parallel()
	s := newScript(t) // each BeginTerm of this world is stamped by chance
	for i := range 6 {
		before := s.clock()
		s.Elect(s.nodes[i%3])
		s.run(400)
		if s.clock() < before || s.clock() > before+500 {
			t.Fatalf("the clock went from %d to %d", before, s.clock())
		}
	}
}

func TestH12_a_worker_paused_past_its_deadline_does_nothing_more(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	s.Pause(&k.actor, 100_000)
	k.soundSince = k.pausedUntil
	s.run(99_000)
	s.wantOpen(l, false)
	if s.audit.Granted < 2 {
		t.Fatal("no other worker got the job")
	}
	before := s.audit.Completed
	s.run(5_000) // it wakes
	for _, u := range k.order {
		if u.given.Lease.ID == l.ID && k.believes(u) {
			t.Fatal("it believes in a lease that ended")
		}
	}
	if s.audit.Completed != before {
		t.Fatal("it completed another worker's job")
	}
}

func TestH14_a_thousand_deadlines_after_an_outage(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	var leases []rota.Lease
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		l, _ := s.job(id)
		leases = append(leases, l)
	}
	for _, n := range s.nodes {
		s.PauseNode(n, 300_000)
	}
	s.run(320_000)
	for _, l := range leases {
		s.wantUncounted(string(l.Job))
	}
}

func TestH15_a_worker_of_an_isolated_node_stops_in_time(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	_, k := s.job("j")
	n := k.conn
	if n == s.leader.node {
		s.Elect(s.nodes[(n.index+1)%3])
		s.run(1_000)
	}
	s.Isolate(n, 90_000)
	s.run(90_000) // the auditor compares what the two workers believe
	s.run(10_000)
}

func TestH19_a_deposed_leader_answers_no_beat(t *testing.T) {
	t.Parallel()
	answered := func(plant bool) bool {
		s := newScript(t, func(o *Options) { o.AnswerEarly = plant })
		_, k := s.job("j")
		old := s.leader
		s.Isolate(old.node, 60_000)
		s.Elect(s.nodes[1])
		s.run(20_000)
		old.over = false // it has not noticed, and its replica is 20 s behind
		got := false
		old.beat(k.id, k.session, beatEvery, func(rota.Clock, bool) { got = true })
		s.run(30_000)
		return got
	}
	if answered(false) {
		t.Fatal("it sent its worker an old clock")
	}
	if !answered(true) {
		t.Fatal("the planted bug (answering at once) went unnoticed: this test detects nothing")
	}
}
