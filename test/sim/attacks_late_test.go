package sim

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestH20_an_entry_that_waited_for_terms_moves_no_clock(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	old := seal(s.World, s.nodes[0], &fsmpb.Entry{Term: s.term, NowMs: int64(s.clock() + 950)})
	for range 3 {
		s.Elect(s.nodes[1])
		s.run(50)
	}
	before := s.clock()
	s.append(logEntry{s.term, old})
	s.run(2)
	if s.clock() > before+60 {
		t.Fatalf("the clock went from %d to %d", before, s.clock())
	}
}

func TestH21_stamps_after_a_pause_with_a_full_pipeline(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	before, at := s.clock(), s.now
	for range 20 {
		for range 8 {
			s.leader.propose(&fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}, nil)
		}
		s.PauseNode(s.nodes[0], 3_000)
		s.run(3_200)
	}
	if passed := s.clock() - before; passed > rota.Clock(s.now-at) || passed > 20*1_300 {
		t.Fatalf("%d ms of clock in %d ms, of which most were pauses", passed, s.now-at)
	}
}

func TestH22_an_assignment_heard_late_is_not_believed(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	_, k := s.job("first") // to get a worker with its node
	n := k.conn
	if n == s.leader.node {
		s.Elect(s.nodes[(n.index+1)%3])
		s.run(1_000)
	}
	s.Lag(n, 40, 40_000) // the replica falls behind by seconds
	for i := range 3 {
		spec := rota.NewJobSpec("work", nil)
		spec.ID, spec.Tenant = rota.JobID([]string{"x", "y", "z"}[i]), rota.DefaultTenant
		s.leader.propose(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}, nil)
	}
	s.run(60_000) // the auditor compares the workers' beliefs
}

func TestH23_a_fresh_beat_revives_no_old_deadline(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	s.Cut(k, 55_000)
	s.run(54_000)
	s.wantOpen(l, false)
	s.run(10_000) // connected again, its handler still there
	for _, u := range k.order {
		if u.given.Lease.ID == l.ID && k.believes(u) {
			t.Fatal("a fresh beat made the old lease look valid")
		}
	}
}

func TestH24_silence_counts_on_across_leaders(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	k.Die()
	died := s.clock()
	s.run(39_000)
	s.Elect(s.nodes[1])
	s.run(4_000)
	s.wantOpen(l, false)
	if passed := s.clock() - died; passed > 45_000 {
		t.Fatalf("it took %d ms", passed)
	}
}

func TestH25_the_whole_cluster_stops_and_no_lease_ends(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, _ := s.job("j")
	for _, length := range []Time{25_000, 45_000} {
		for _, n := range s.nodes {
			s.PauseNode(n, length)
		}
		s.run(length + 100)
		s.Elect(s.nodes[2])
		if length < beatLost {
			s.run(5_000)
			s.wantOpen(l, true)
		}
	}
	s.run(5_000)
	s.wantUncounted("j")
}

func TestH27_a_revoked_lease_waits_for_its_worker(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	k.cutUntil = 1 << 40 // it does not learn of the takeover
	hash := make([]byte, 32)
	hash[0] = 77
	s.leader.propose(&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: hash, Takeover: true,
		Spec: entry.WorkerOp(&rota.WorkerSpec{ID: k.id, Queues: []rota.QueueName{"default"}, Slots: slots})}}}, nil)
	taken := s.clock()
	for s.open(l) {
		s.run(250)
		if s.clock() > taken+41_000 {
			t.Fatal("a revoked lease of a session that is over stays open")
		}
	}
	for _, u := range k.order {
		if u.given.Lease.ID == l.ID && k.believes(u) {
			t.Fatal("it was requeued while the old process believed in it")
		}
	}
}

// late builds the case of H28: the answers to a worker's beats arrive 12 s late
// while its other calls do not get through at all.
func late(t *testing.T, change func(*Options)) (believes, open bool) {
	s := newScript(t, change)
	l, k := s.job("j")
	clock := s.clock()
	sent := k.local(s.now)
	n, session := k.conn, k.session
	k.cutUntil, k.soundSince = 1<<40, 1<<40
	for range 120 {
		s.leader.heard[k.id] = s.clock()
		s.run(100)
	}
	k.cutUntil = 0
	k.beatAnswered(n, session, sent, clock, true)
	k.cutUntil = 1 << 40
	for s.open(l) {
		s.leader.heard[k.id] = s.clock() // its beats go on, so it is not silent
		s.run(100)
	}
	for _, u := range k.order {
		if u.given.Lease.ID == l.ID {
			u.ended = false // whatever it did: would it believe?
			return k.local(s.now) < min(k.viewSent+Time(u.deadline-k.viewClock)-viewMargin, 1<<60), s.open(l)
		}
	}
	t.Fatal("the worker forgot its lease")
	return false, false
}

func TestH28_a_view_counts_from_sending(t *testing.T) {
	t.Parallel()
	if believes, _ := late(t, func(*Options) {}); believes {
		t.Fatal("a worker believes in a lease that the cluster has ended")
	}
	if believes, _ := late(t, func(o *Options) { o.ViewFromReceipt = true }); !believes {
		t.Fatal("the planted bug (counting from receipt) went unnoticed: this test detects nothing")
	}
}

// TestPlants runs the mixed worlds with planted bugs: each must be found.
func TestPlants(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Options){
		"stamp_uncapped": func(o *Options) { o.StampUncapped = true },
		"no_ack_by":      func(o *Options) { o.NoAckBy = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 400; seed++ {
				o := mixed(seed)
				plant(&o)
				if _, err := live(o); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("went unnoticed in 400 seeds: the simulation detects nothing")
		})
	}
}
