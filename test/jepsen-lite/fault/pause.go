package fault

import (
	"context"
	"math/rand/v2"
)

// pauseOne stops a node in mid-step with SIGSTOP, and resumes it.
func pauseOne(_ context.Context, w *World, r *rand.Rand) blow {
	return pauseThese([]*Server{prey(w, r)})
}

// pauseAll suspends the whole cluster while the workers keep running (H25).
func pauseAll(_ context.Context, w *World, _ *rand.Rand) blow {
	return pauseThese(w.Cluster.Members())
}

func pauseThese(servers []*Server) blow {
	b := blow{}
	var release []func()
	for _, s := range servers {
		if r, err := s.hold(); err == nil {
			b.targets, release = append(b.targets, s.ID), append(release, r)
		}
	}
	b.mend = func() error {
		for _, r := range release {
			r()
		}
		return nil
	}
	return b
}

// hold pauses a process; release resumes only this life of it: the next one may be paused by another caller.
func (p *Process) hold() (release func(), err error) {
	if err := p.pause(); err != nil {
		return nil, err
	}
	life := p.lifeNow()
	return func() {
		if p.lifeNow() == life {
			p.resume()
		}
	}, nil
}

// lifeNow identifies the current life of a process.
func (p *Process) lifeNow() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}
