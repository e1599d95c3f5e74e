package virtual

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// A node is replaced as operators do it (SPEC §13.4): its id is removed, or it leaves, or its disk is gone. A node that
// comes back under the old id is refused. Another one with an unused id and an empty directory takes its place, on the
// same host and addresses.
const (
	// removedWithin and joinedWithin include the wait for the end of other faults.
	removedWithin = 5 * time.Minute
	joinedWithin  = 5 * time.Minute
)

// withdraw reserves a server whose node serves, so that nothing else uses it.
func (l *life) withdraw(s *server) bool {
	if s == nil || !l.replacing.CompareAndSwap(false, true) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.node == nil || s.hung != nil {
		l.replacing.Store(false)
		return false
	}
	s.away = true
	return true
}

// giveBack makes a server available again.
func (l *life) giveBack(s *server) {
	s.mu.Lock()
	s.away = false
	s.mu.Unlock()
	l.replacing.Store(false)
	l.restart(s) // in case another fault has ended it meanwhile
}

// halt ends the process, and waits for its end.
func (s *server) halt(end func()) {
	end()
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	<-last.gone
}

// removeNode removes a running node as an operator.
func removeNode(l *life) func() {
	s := l.anyServer()
	if !l.withdraw(s) {
		return nil
	}
	seed := l.random.Uint64()
	return func() {
		l.remove(s)
		s.halt(s.stop)
		l.replace(s, seed)
	}
}

// leaveNode makes a node leave by itself.
func leaveNode(l *life) func() {
	s := l.anyServer()
	if !l.withdraw(s) {
		return nil
	}
	seed := l.random.Uint64()
	return func() {
		if n := s.node(); n != nil {
			ctx, cancel := context.WithTimeout(l.ctx, 15*time.Second)
			_ = n.Leave(ctx) // if it cannot, or the outcome is unknown, it is removed
			cancel()
		}
		s.halt(s.stop)
		l.remove(s)
		l.replace(s, seed)
	}
}

// loseData crashes a node and deletes its disk. It must not come back under its id: it would have lost its votes and
// the entries it acknowledged.
func loseData(l *life) func() {
	s := l.anyServer()
	if !l.withdraw(s) {
		return nil
	}
	s.halt(func() { s.crash(l.random.IntN(2) == 0) })
	if err := os.RemoveAll(s.data()); err != nil {
		l.violate("harness", "%v", err)
	}
	seed := l.random.Uint64()
	return func() {
		l.comesBack(s, "with an empty directory")
		l.remove(s)
		l.join(s, seed)
	}
}

// replace lets a removed node try to come back, and puts another one in its place.
func (l *life) replace(s *server, seed uint64) {
	l.comesBack(s, "after it was removed")
	l.join(s, seed)
}

// patiently tries until a try succeeds, and reports whether one did.
func (l *life) patiently(most time.Duration, try func(context.Context) bool) bool {
	for until := time.Now().Add(most); time.Now().Before(until); {
		ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
		done := try(ctx)
		cancel()
		if done || !l.pause(time.Second) {
			return true
		}
	}
	return false
}

// remove removes a server's node from the cluster.
func (l *life) remove(s *server) {
	admin := l.dial("operator", l.servers)
	defer admin.Close()
	var last error
	if !l.patiently(removedWithin, func(ctx context.Context) bool {
		last = l.removeOnce(ctx, admin, s)
		return last == nil || rota.KindOf(last) == rota.KindNotFound
	}) {
		l.violate("a node can be removed", "%s cannot be removed in %s: %v", s.id(), removedWithin, last)
	}
}

func (l *life) removeOnce(ctx context.Context, admin *client.Client, s *server) error {
	if n := s.node(); n != nil {
		if _, leads := n.Pulse(); leads {
			_, _ = n.TransferLeadership(ctx, "")
		}
	}
	return admin.RemovePeer(ctx, s.id())
}

// comesBack starts a node under an id that is no longer its own: it is refused at its start or, if it reaches no other
// node then, as soon as it does.
func (l *life) comesBack(s *server, how string) {
	var last error
	if !l.patiently(joinedWithin, func(context.Context) bool {
		last = s.start()
		if last == nil && l.ctx.Err() == nil {
			l.patiently(time.Minute, func(context.Context) bool {
				n := s.node()
				if n != nil {
					last = n.Ready()
				}
				return n == nil || refused(last)
			})
			s.halt(s.stop)
		}
		return refused(last)
	}) {
		l.violate("an id never comes back", "%s %s: it got %v", s.id(), how, last)
	}
	if l.ctx.Err() == nil {
		l.note(func(f *figures) { f.refusedIDs++ })
	}
}

// refused reports whether a node was refused participation.
func refused(err error) bool {
	kind := rota.KindOf(err)
	return kind == rota.KindConflict || kind == rota.KindDenied
}

// join starts a fresh node on a server in place of the previous one. It has joined once it has a vote: until then one
// voter fewer may lose its data.
func (l *life) join(s *server, seed uint64) {
	admin := l.dial("operator", l.servers)
	defer admin.Close()
	votes := func(ctx context.Context) bool {
		peers, err := admin.Peers(ctx)
		return err == nil && slices.ContainsFunc(peers, func(p rota.RaftPeer) bool { return p.ID == s.id() && p.Voter })
	}
	random := rand.New(rand.NewPCG(seed, 3))
	l.finder.Forget(s.id())
	s.name.Store(l.mint())
	l.pause(time.Duration(random.IntN(3_000)) * time.Millisecond)
	var last error
	if !l.patiently(joinedWithin, func(ctx context.Context) bool {
		last = s.start()
		n := s.node()
		return last == nil && n != nil && n.Ready() == nil && votes(ctx)
	}) {
		l.violate("a fresh node joins", "%s did not within %s: %v", s.id(), joinedWithin, last)
	}
	l.giveBack(s)
}
