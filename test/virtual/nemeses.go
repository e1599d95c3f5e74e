package virtual

import (
	"time"
)

// rollingRestart restarts one node after another, each once the previous one serves, as an upgrade does.
func rollingRestart(l *life) func() {
	for _, i := range l.random.Perm(len(l.servers)) {
		s := l.servers[i]
		s.stop()
		l.pause(time.Duration(100+l.random.IntN(900)) * time.Millisecond)
		l.restart(s)
	}
	return func() {}
}

// resetLinks breaks all connections of a node repeatedly: everything in flight is lost, and its sender knows.
func resetLinks(l *life) func() {
	s := l.anyServer().host
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			l.net.Reset(s)
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// cutRing leaves each node only its neighbours: with five nodes every one has a majority, and each a different one.
// Three have a cut between two of them.
func cutRing(l *life) func() {
	nodes, _ := l.hosts()
	l.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var heals []func()
	for i := range nodes {
		for j := range i {
			if apart := i - j; (apart > 1 && apart < len(nodes)-1) || len(nodes) == 3 && apart == 2 {
				heals = append(heals, l.cutBoth(nodes[i:i+1], nodes[j:j+1], false))
			}
		}
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

// strobeWall moves a node's wall clock back and forth five times a second.
func strobeWall(l *life) func() {
	s := l.servers[l.random.IntN(len(l.servers))]
	by := time.Duration(l.random.Int64N(int64(2*time.Minute))) - time.Minute
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for skew := by; ; skew = by - skew {
			s.mu.Lock()
			s.skew = skew
			s.mu.Unlock()
			select {
			case <-stop:
				s.mu.Lock()
				s.skew = 0
				s.mu.Unlock()
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
