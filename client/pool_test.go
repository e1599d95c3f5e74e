package client

import (
	"context"
	"runtime"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestPool checks that a goroutine runs handlers one after another. If a handler panics or ends its goroutine, its
// outcome is still reported, and the next lease gets another goroutine. When Run has returned, no goroutine is left.
func TestPool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		w := f.worker(rota.WorkerSpec{Slots: 1, Prefetch: 1}, func(_ context.Context, job *Job) (Result, error) {
			switch job.ID() {
			case "panics":
				panic("oh no")
			case "ends":
				runtime.Goexit()
			}
			return Result{}, nil
		})
		s, _ := f.stream()
		s.welcome(1)
		s.answerBeat(100_000)
		for _, one := range []struct {
			job  rota.JobID
			verb rota.LeaseVerb
		}{{"first", rota.VerbComplete}, {"panics", rota.VerbFail}, {"ends", rota.VerbFail}, {"last",
			rota.VerbComplete}} {
			s.assign(leaseOf(one.job))
			s.answer(s.expect(one.verb), peer.LeaseAnswer{})
		}
		w.stopped(t, s)
	})
}
