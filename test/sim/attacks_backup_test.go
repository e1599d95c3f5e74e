package sim

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// replayTo applies the log up to the entry that opens a lease. It returns the machine just before that entry, and the
// log from there on.
func (s *script) replayTo(l rota.Lease) (before *fsm.Machine, rest []logEntry) {
	s.t.Helper()
	at := 0
	for m := fsm.New(); ; at++ {
		if at == len(s.log) {
			s.t.Fatal("no entry opens the lease")
		}
		if s.applyTo(m, at, s.log[at]); opened(m, l) {
			break
		}
	}
	before = fsm.New()
	for i, e := range s.log[:at] {
		s.applyTo(before, i, e)
	}
	return before, s.log[at:]
}

func (s *script) applyTo(m *fsm.Machine, at int, e logEntry) {
	s.t.Helper()
	if _, err := m.Apply(rota.Index(at+1), e.term, e.data); err != nil {
		s.t.Fatal(err)
	}
}

func opened(m *fsm.Machine, l rota.Lease) bool {
	_, open := m.Assignment(l.ID)
	return open
}

// TestH17: an assignment is in a leader's log and not committed when a backup is taken. If a recovery brings that part
// of the log back as if it had been committed, it opens no lease in the restored cluster, neither this one nor a later
// one, and lets no time pass: the old cluster's workers may still act on them.
func TestH17_a_recovered_log_revives_no_lease_of_before(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, _ := s.job("j")
	s.run(5_000) // acknowledged, and renewed
	m, tail := s.replayTo(l)
	at := int(m.Head().Index)
	if opened(m, l) || m.JobState("j") != rota.JobQueued || len(tail) < 2 {
		t.Fatalf("the backup knows the lease already: its job is %s, %d entries follow", m.JobState("j"), len(tail))
	}
	if err := m.Reincarnate(fsm.Rebirth{Cluster: "restored"}); err != nil {
		t.Fatal(err)
	}
	clock := m.Head().Clock
	for i, e := range tail {
		s.applyTo(m, at+i, e)
		if opened(m, l) || m.JobState("j") != rota.JobQueued {
			t.Fatalf("entry %d of the old log revived lease %s: job j is %s", at+i+1, l.ID, m.JobState("j"))
		}
	}
	if m.Head().Clock != clock {
		t.Errorf("the old log moved the clock from %d to %d", clock, m.Head().Clock)
	}
	if m.Head().Incarnation <= l.Token.Incarnation {
		t.Errorf("incarnation %d does not exceed that of token %s", m.Head().Incarnation, l.Token)
	}
	if faults := m.Check(); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
}

// TestH17_the_same_log_in_place: if the cluster itself continues from that log, the uncommitted lease is one like any
// other: it is opened once, and only its worker, which learns of it from no other source, holds it.
func TestH17_the_same_log_in_place(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, _ := s.job("j")
	m, tail := s.replayTo(l)
	at := int(m.Head().Index)
	for i, e := range tail {
		s.applyTo(m, at+i, e)
		if !opened(m, l) {
			t.Fatalf("entry %d ended the lease", at+i+1)
		}
	}
	if held, _ := m.Assignment(l.ID); held.Lease.Token != l.Token || held.Lease.Worker != l.Worker {
		t.Errorf("it is %+v, and was %+v", held, l)
	}
}
