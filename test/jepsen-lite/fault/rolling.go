package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// rollingRestart restarts one or all nodes with SIGTERM, one after the other,
// as an upgrade does.
func rollingRestart(ctx context.Context, w *World, r *rand.Rand) blow {
	servers := some(w, r, 1)
	if r.IntN(2) == 0 {
		servers = some(w, r, 100)
	}
	b := blow{}
	for _, s := range servers {
		if s.running() && !s.awake() || s.barred() {
			b.note += s.ID + " is another's; "
			continue
		}
		b.targets = append(b.targets, s.ID)
		if !s.stop(check.MaxGoodbye) {
			b.note += s.ID + " did not end; "
		}
		if b.err = s.Start(); b.err != nil {
			return b
		}
		// The next one waits until this one serves, as an operator would, but not forever: another nemesis may be
		// active.
		serves, cancel := context.WithTimeout(ctx, 6*time.Second)
		if w.Cluster.Serves(serves, s) != nil {
			b.note += s.ID + " did not serve within 6 s; "
		}
		cancel()
	}
	return b
}

// barred reports whether any caller keeps it from being started.
func (p *Process) barred() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept > 0
}
