package main

import (
	"context"
	"fmt"
)

// measureAlone is `make bench-alone`: a cluster of one with a growing number of pending jobs, as many as one machine's
// memory may hold.
func (p *plan) measureAlone(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var all []point
	var own, peak, start float64
	err = p.clusterOf(ctx, 1, p.rota, nil, func(s *servers) (err error) {
		stop := s.watch(ctx, func(samples []sample) {
			for _, one := range samples {
				own = max(own, ownMemory(one))
			}
		})
		all, err = p.besidePending(ctx, s, 1)
		stop()
		if err != nil {
			return err
		}
		peak = s.peak()
		start, err = timed(func() error { return s.restartAll(ctx) })
		p.say("it took %.0f MiB at most, %.0f with mapped files; killed and started again it was ready after %.1f s",
			own/(1<<20), peak/(1<<20), start)
		return err
	})
	if err != nil {
		return err
	}
	links, err := p.draw([]picture{
		{"alone-throughput", "Throughput of one server beside pending jobs", "pending jobs", false, all},
		{"alone-latency", "End to end at one server beside pending jobs", "pending jobs", true, all},
	})
	if err != nil {
		return err
	}
	return p.publish("bench-alone", m.markdown()+p.scaleTable("pending jobs, one server", all)+fmt.Sprintf(
		"\nThe most that it ever took of its own, looked at once a second, with %s pending: %.0f MiB; with the pages of files that the kernel "+
			"maps and takes back: %.0f. Killed (SIGKILL) and started again it was ready after %.1f s.\n",
		thousands(p.scale.pending[len(p.scale.pending)-1]), own/(1<<20), peak/(1<<20), start)+links)
}
