package sim

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// graced returns a script whose leases have a grace of 10 s.
func graced(t *testing.T, change ...func(*Options)) *script {
	return newScript(t, append(change, func(o *Options) {
		o.Grace = true
		o.Policy = []rota.Setting{{Key: "lease_grace_on_disconnect", Value: "10s"},
			{Key: "backoff_base", Value: "100ms"}, {Key: "backoff_cap", Value: "100ms"}}
	})...)
}

// A worker dies: its node sees its connection end, and its lease does after the grace.
func TestGrace_ends_a_dead_workers_lease(t *testing.T) {
	t.Parallel()
	s := graced(t)
	l, k := s.job("j")
	k.Die()
	s.run(11_000)
	s.wantOpen(l, true)
	s.run(5_000)
	s.wantOpen(l, false)
	if s.audit.Disconnected == 0 {
		t.Fatal("the end of the connection was not reported")
	}
}

// A connection is cut on the node's side only: the worker opens another in time, and keeps its lease.
func TestGrace_a_worker_that_connects_again_keeps_its_lease(t *testing.T) {
	t.Parallel()
	s := graced(t)
	l, k := s.job("j")
	for range 10 {
		s.Sever(k)
		s.run(15_000)
	}
	s.wantOpen(l, true)
	for _, u := range k.order {
		if u.given.Lease.ID == l.ID && (u.ended || !k.believes(u)) {
			t.Fatal("the worker has given up the lease")
		}
	}
	if s.audit.Disconnected == 0 {
		t.Fatal("no end was reported: nothing was tested")
	}
}

// A worker that is cut off completely ends its handlers before the cluster reassigns its lease: its node sees the
// connection end and reports it, at once, or late because it was paused meanwhile.
func TestGrace_a_worker_that_is_cut_off_ends_first(t *testing.T) {
	t.Parallel()
	for name, paused := range map[string]Time{"its node lives": 0, "its node is paused": 4_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := graced(t)
			l, k := s.job("j")
			n, cut := k.conn, s.now
			s.Sever(k)
			s.Cut(k, 1<<40)
			s.PauseNode(n, paused)
			var dead Time
			for s.open(l) {
				s.run(50)
				for _, u := range k.order {
					if u.given.Lease.ID == l.ID && (k.believes(u) || k.dying(u)) {
						dead = s.now
					}
				}
				if s.now > cut+paused+30_000 {
					t.Fatal("silence must end it, not the grace")
				}
			}
			if s.audit.Disconnected == 0 {
				t.Fatal("no end was reported: nothing was tested")
			}
			if dead < cut+5_000 || s.now < dead+1_000 {
				t.Fatalf("cut at %d, the worker's last process exists at %d, its lease ends at %d", cut, dead, s.now)
			}
		})
	}
}

// A lease whose deadline comes before its grace ends by that, and waits for no process of its worker: SPEC §16.7
// promises that they are dead only if the broken stream ends the lease.
func TestGrace_a_deadline_that_comes_sooner_waits_for_nobody(t *testing.T) {
	t.Parallel()
	s := graced(t, func(o *Options) { o.LeaseMs = 6_000 })
	l, k := s.job("j")
	s.Sever(k) // so that it gets no other lease
	s.Cut(k, 1<<40)
	s.run(7_000) // too soon for the grace
	s.wantOpen(l, false)
	if now := s.audit.jobs["j"].lease; s.audit.Disconnected == 0 || now.IsZero() || s.audit.leases[now].worker == k {
		t.Fatalf("no other worker has it: nothing was tested (%s)", s.audit.figures)
	}
}

// Bugs that the auditor must find: a node that confirms beats of a connection which it has seen end, and a worker that
// does not keep the grace that it declared.
func TestGrace_faults_are_found(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Options){
		"a node hears what has ended":  func(o *Options) { o.HearEnded = true },
		"a worker keeps its grace not": func(o *Options) { o.NoGrace = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := graced(t, plant)
			_, k := s.job("j")
			s.Sever(k)
			if !s.HearEnded {
				s.Cut(k, 1<<40)
			}
			if err := s.Run(s.now + 40_000); err == nil || !strings.Contains(err.Error(), "both believe") {
				t.Fatalf("the auditor reports %v", err)
			}
		})
	}
}
