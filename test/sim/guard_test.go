package sim

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// A dead worker's guard need not wait for its silence.
func TestGuard_ends_what_a_dead_worker_held(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	l, k := s.job("j")
	k.Die()
	s.Mourn(k, 0)
	s.run(3_000)
	s.wantOpen(l, false)
	j, _ := s.leader.node.machine.Job("j")
	if j.Attempts[0].End != rota.ReasonWorkerLost || j.Attempt != 0 || s.audit.Gone != 1 {
		t.Fatalf("attempts %+v, %d guards reported", j.Attempts, s.audit.Gone)
	}
	if _, status := s.leader.node.machine.Session(k.id); status != rota.WorkerRetired {
		t.Fatalf("the worker is %s", status)
	}
	s.run(20_000) // its job runs elsewhere
}

// The auditor must find a guard that reports too early: two workers believe.
func TestGuard_that_speaks_too_soon_is_found(t *testing.T) {
	t.Parallel()
	s := newScript(t, func(o *Options) {
		o.Policy = []rota.Setting{{Key: "backoff_base", Value: "100ms"}, {Key: "backoff_cap", Value: "100ms"}}
	})
	_, k := s.job("j")
	s.Cut(k, 1<<40) // so that it gets no message
	s.Mourn(k, 0)   // but it is alive
	if err := s.Run(s.now + 20_000); err == nil || !strings.Contains(err.Error(), "both believe") {
		t.Fatalf("the auditor reports %v", err)
	}
}
