package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota/internal/virtualnet"
)

// A fault is a problem that lasts for a while. apply causes it and returns the function that ends it; nil if it was
// impossible. Both may take virtual time.
type fault struct {
	kind   string
	weight int
	// lasts bounds how long it stays.
	least, most time.Duration
	apply       func(l *life) (heal func())
}

// faults are drawn by their weights.
var faults = []fault{
	{"node crash", 10, 300 * time.Millisecond, 5 * time.Second, crashFollower},
	{"leader crash", 12, 300 * time.Millisecond, 5 * time.Second, crashLeader},
	{"crash with unfinished writes", 8, 300 * time.Millisecond, 4 * time.Second, crashWriting},
	{"all nodes crash", 2, 200 * time.Millisecond, 3 * time.Second, crashAll},
	{"graceful restart", 5, 100 * time.Millisecond, 2 * time.Second, restartNode},
	{"partition in halves", 8, 500 * time.Millisecond, 8 * time.Second, cutHalves},
	{"leader alone", 8, 500 * time.Millisecond, 8 * time.Second, cutLeader},
	{"one-way cut", 10, 500 * time.Millisecond, 8 * time.Second, cutOneWay},
	{"bridge", 6, 500 * time.Millisecond, 8 * time.Second, cutBridge},
	{"flapping link", 4, 2 * time.Second, 6 * time.Second, flapLink},
	{"slow links", 6, 1 * time.Second, 8 * time.Second, slowNode},
	{"node stalls", 8, 500 * time.Millisecond, 6 * time.Second, stallNode},
	{"slow disk", 6, 1 * time.Second, 6 * time.Second, slowDisk},
	{"hung disk", 3, 1 * time.Second, 20 * time.Second, hungDisk},
	{"wall clock jump", 10, 500 * time.Millisecond, 6 * time.Second, jumpWall},
	{"wall clocks of most jump", 5, 500 * time.Millisecond, 6 * time.Second, maxJump},
	{"monotonic clock leaps", 6, 100 * time.Millisecond, 1 * time.Second, leap},
	{"worker drained", 4, 500 * time.Millisecond, 8 * time.Second, drainWorker},
	{"leadership transfer", 10, 100 * time.Millisecond, 1 * time.Second, transfer},
	{"node cut off until its log is gone", 4, 35 * time.Second, 70 * time.Second, lag},
	{"worker crash", 12, 500 * time.Millisecond, 6 * time.Second, crashWorker},
	{"worker restart", 5, 100 * time.Millisecond, 2 * time.Second, restartWorker},
	{"worker cut off", 10, 500 * time.Millisecond, 15 * time.Second, cutWorker},
	{"worker cut off for long", 2, 31 * time.Second, 60 * time.Second, cutWorker},
	{"rolling restart", 2, 100 * time.Millisecond, 1 * time.Second, rollingRestart},
	{"node removed and replaced", 3, 100 * time.Millisecond, 5 * time.Second, removeNode},
	{"node leaves and is replaced", 3, 100 * time.Millisecond, 5 * time.Second, leaveNode},
	{"node loses its data and is replaced", 3, 100 * time.Millisecond, 5 * time.Second, loseData},
	{"connections reset", 6, 500 * time.Millisecond, 3 * time.Second, resetLinks},
	{"ring of majorities", 4, 500 * time.Millisecond, 8 * time.Second, cutRing},
	{"wall clock strobes", 4, 1 * time.Second, 5 * time.Second, strobeWall},
	{"user cut off", 4, 500 * time.Millisecond, 6 * time.Second, cutUser},
}

// draw draws a fault.
func (l *life) draw() fault {
	all := 0
	for _, f := range faults {
		all += f.weight
	}
	k := l.random.IntN(all)
	for _, f := range faults {
		if k -= f.weight; k < 0 {
			return f
		}
	}
	panic("unreachable")
}

// lastFaults end a storm: they leave no leader, so that a new one must be elected.
var lastFaults = []fault{
	{"all nodes crash", 0, 200 * time.Millisecond, 3 * time.Second, crashAll},
	{"every node alone", 0, 3 * time.Second, 10 * time.Second, cutAll},
}

// storm causes count faults, one after another or two and three together. Long ones overlap later ones.
func (l *life) storm(count int) {
	var under sync.WaitGroup
	defer under.Wait()
	for i := range count {
		f := l.draw()
		if i == count-1 {
			f = lastFaults[l.random.IntN(len(lastFaults))]
		}
		heal := f.apply(l)
		if heal == nil {
			continue
		}
		l.figures.faults[f.kind]++
		lasts := f.least + time.Duration(l.random.Int64N(int64(f.most-f.least)))
		l.log.Info("FAULT", "kind", f.kind, "lasts", lasts)
		under.Go(func() {
			l.pause(lasts)
			heal()
			l.log.Info("HEALED", "kind", f.kind)
		})
		if l.random.IntN(4) > 0 { // else the next one overlaps it
			l.pause(min(lasts, 5*time.Second) + time.Duration(l.random.Int64N(int64(13*time.Second))))
		}
	}
}

// anyServer draws a server; the leader is more likely than each other one.
func (l *life) anyServer() *server {
	if l.random.IntN(3) == 0 {
		if s := l.leader(); s != nil {
			return s
		}
	}
	return l.servers[l.random.IntN(len(l.servers))]
}

// follower draws a server that does not lead.
func (l *life) follower() *server {
	leader := l.leader()
	for {
		if s := l.servers[l.random.IntN(len(l.servers))]; s != leader {
			return s
		}
	}
}

func (l *life) crashOne(s *server) func() {
	if s == nil || s.node() == nil {
		return nil
	}
	s.crash(l.random.IntN(2) == 0)
	return func() { l.restart(s) }
}

func crashFollower(l *life) func() { return l.crashOne(l.follower()) }

func crashLeader(l *life) func() { return l.crashOne(l.leader()) }

// crashWriting slows a disk down first, so that the crash loses entries, votes or terms that raft handed over and that
// were not yet written.
func crashWriting(l *life) func() {
	s := l.anyServer()
	l.setDisk(s, time.Duration(20+l.random.IntN(400))*time.Millisecond)
	l.pause(time.Duration(l.random.IntN(1_500)) * time.Millisecond)
	heal := l.crashOne(s)
	l.setDisk(s, 0)
	return heal
}

func (l *life) setDisk(s *server, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeDelay = delay
}

func crashAll(l *life) func() {
	silent := l.random.IntN(2) == 0
	var all sync.WaitGroup
	for _, s := range l.servers {
		all.Go(func() { s.crash(silent) })
	}
	all.Wait()
	return func() { l.startAll() }
}

func restartNode(l *life) func() {
	s := l.anyServer()
	if s.node() == nil {
		return nil
	}
	s.stop()
	return func() { l.restart(s) }
}

// cutBoth cuts all routes between two groups, or only those from a to b.
func (l *life) cutBoth(a, b []host, oneWay bool) func() {
	var heals []func()
	for _, x := range a {
		for _, y := range b {
			if x == y {
				continue // a host is not cut off from itself
			}
			heals = append(heals, l.net.Cut(virtualnet.Route{From: x, To: y}))
			if !oneWay {
				heals = append(heals, l.net.Cut(virtualnet.Route{From: y, To: x}))
			}
		}
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

func (l *life) hosts() (nodes, others []host) {
	for _, s := range l.servers {
		nodes = append(nodes, s.host)
	}
	for _, w := range l.workers {
		others = append(others, w.host)
	}
	for _, u := range l.users {
		others = append(others, u.host)
	}
	return nodes, others
}

// cutHalves divides everyone, workers and users too.
func cutHalves(l *life) func() {
	nodes, others := l.hosts()
	var sides [2][]host
	for _, i := range l.random.Perm(len(nodes)) {
		side := 0
		if len(sides[0]) > len(nodes)/2 {
			side = 1
		}
		sides[side] = append(sides[side], nodes[i])
	}
	for _, h := range others {
		side := l.random.IntN(2)
		sides[side] = append(sides[side], h)
	}
	return l.cutBoth(sides[0], sides[1], false)
}

// cutAll leaves every node alone.
func cutAll(l *life) func() {
	nodes, _ := l.hosts()
	return l.cutBoth(nodes, nodes, false)
}

// cutLeader cuts the leader off from the other nodes; workers still reach it.
func cutLeader(l *life) func() {
	s := l.leader()
	if s == nil {
		return nil
	}
	nodes, _ := l.hosts()
	return l.cutBoth([]host{s.host}, nodes, false)
}

// cutOneWay makes a node receive but not send, or send but not receive.
func cutOneWay(l *life) func() {
	nodes, others := l.hosts()
	s := []host{l.anyServer().host}
	if l.random.IntN(3) == 0 {
		nodes = append(nodes, others...)
	}
	if l.random.IntN(2) == 0 {
		return l.cutBoth(s, nodes, true)
	}
	return l.cutBoth(nodes, s, true)
}

// cutBridge leaves one node that all others reach, while they cannot reach each other across it.
func cutBridge(l *life) func() {
	nodes, _ := l.hosts()
	l.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	rest := nodes[1:]
	return l.cutBoth(rest[:len(rest)/2], rest[len(rest)/2:], false)
}

// flapLink cuts and heals a node's links five times a second.
func flapLink(l *life) func() {
	nodes, _ := l.hosts()
	s := l.anyServer().host
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			heal := l.cutBoth([]host{s}, nodes, false)
			l.pause(200 * time.Millisecond)
			heal()
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// slowNode delays everything to and from a node.
func slowNode(l *life) func() {
	s := l.anyServer().host
	by := time.Duration(20+l.random.IntN(400)) * time.Millisecond
	nodes, others := l.hosts()
	var heals []func()
	for _, h := range append(nodes, others...) {
		if h != s {
			heals = append(heals, l.net.Slow(virtualnet.Route{From: s, To: h}, by),
				l.net.Slow(virtualnet.Route{From: h, To: s}, by))
		}
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

// stallNode delays everything that a node sends, receives and writes: the closest to a paused process that one process
// can simulate, because its timers continue.
func stallNode(l *life) func() {
	s := l.anyServer()
	nodes, others := l.hosts()
	heal, thaw := l.cutBoth([]host{s.host}, append(nodes, others...), false), l.hang(s)
	return func() { thaw(); heal() }
}

// hang blocks a server's writes.
func (l *life) hang(s *server) (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung != nil || s.run == nil { // a process that is about to end has checked its disk
		return func() {}
	}
	l.doom(s, true) // a disk that hangs for 15 s ends the node, and it stays unfit after 5
	hung := make(chan struct{})
	s.hung = hung
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.hung = nil
		s.mu.Unlock()
		close(hung)
	})
}

func slowDisk(l *life) func() {
	s := l.anyServer()
	l.setDisk(s, time.Duration(5+l.random.IntN(300))*time.Millisecond)
	return func() { l.setDisk(s, 0) }
}

// hungDisk hangs a disk: after more than 5 s a node stops itself.
func hungDisk(l *life) func() {
	s := l.anyServer()
	thaw := l.hang(s)
	return thaw
}

// jumpWall moves a node's wall clock; some stay at their new time.
func jumpWall(l *life) func() {
	s := l.servers[l.random.IntN(len(l.servers))]
	by := time.Duration(l.random.Int64N(int64(2*time.Hour))) - time.Hour
	if l.random.IntN(2) == 0 {
		by /= 600
	}
	set := func(skew time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.skew = skew
	}
	set(by)
	stays := l.random.IntN(3) == 0
	return func() {
		if !stays {
			set(0)
		}
	}
}

// maxJump moves the wall clocks of a majority, so that the date follows.
func maxJump(l *life) func() {
	by := time.Duration(l.random.Int64N(int64(2*time.Hour))) - time.Hour
	var moved []*server
	for _, i := range l.random.Perm(len(l.servers))[:len(l.servers)/2+1] {
		moved = append(moved, l.servers[i])
	}
	set := func(by time.Duration) {
		for _, s := range moved {
			s.mu.Lock()
			s.skew = by
			s.mu.Unlock()
		}
	}
	set(by)
	return func() { set(0) }
}

// leap simulates the end of a machine's pause that only its monotonic clock shows: the process continues as if nothing
// had happened, and a leader still believes that it leads.
func leap(l *life) func() {
	s := l.leader()
	if s == nil {
		return nil
	}
	l.leaps.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leapt += time.Second + time.Duration(l.random.Int64N(int64(90*time.Second)))
	return func() {}
}

// drainWorker drains a worker as an operator, and resumes it.
func drainWorker(l *life) func() {
	w := l.anyWorker()
	w.mu.Lock()
	id := w.id
	w.mu.Unlock()
	n := l.servers[l.random.IntN(len(l.servers))].node()
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	if _, err := n.DrainWorker(ctx, id); err != nil {
		return nil
	}
	at := l.servers[l.random.IntN(len(l.servers))]
	return func() { // the next settling repeats a lost request
		if n := at.node(); n != nil {
			ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
			defer cancel()
			_, _ = n.ResumeWorker(ctx, id)
		}
	}
}

// transfer hands leadership over, to the node that the leader selects.
func transfer(l *life) func() {
	s := l.leader()
	if s == nil {
		return nil
	}
	n := s.node()
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	_, _ = n.TransferLeadership(ctx, "") // refused while no other voter answers
	return func() {}
}

// lag cuts a follower off until the log that it needs is gone; then it needs a snapshot.
func lag(l *life) func() {
	s := l.follower()
	nodes, _ := l.hosts()
	return l.cutBoth([]host{s.host}, nodes, false)
}

func (l *life) anyWorker() *worker { return l.workers[l.random.IntN(len(l.workers))] }

// crashWorker kills a worker; a process that starts on its host is another worker, or the same one again.
func crashWorker(l *life) func() {
	w := l.anyWorker()
	if !w.running() {
		return nil
	}
	same := l.random.IntN(2) == 0
	w.crash(l.random.IntN(2) == 0)
	return func() { w.start(same) }
}

func restartWorker(l *life) func() {
	w := l.anyWorker()
	if !w.running() {
		return nil
	}
	w.leave()
	return func() {
		w.leave()
		w.start(false)
	}
}

// cutWorker cuts a worker off from all nodes, or from some, in one direction or both.
func cutWorker(l *life) func() {
	nodes, _ := l.hosts()
	if l.random.IntN(3) == 0 {
		nodes = nodes[:1+l.random.IntN(len(nodes)-1)]
	}
	w := []host{l.anyWorker().host}
	switch l.random.IntN(3) {
	case 0:
		return l.cutBoth(w, nodes, true)
	case 1:
		return l.cutBoth(nodes, w, true)
	}
	return l.cutBoth(w, nodes, false)
}

func cutUser(l *life) func() {
	nodes, _ := l.hosts()
	u := []host{l.users[l.random.IntN(len(l.users))].host}
	return l.cutBoth(u, nodes, l.random.IntN(2) == 0)
}
