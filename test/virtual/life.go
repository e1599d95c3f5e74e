package virtual

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/virtualnet"
)

// host is a machine: a node, a worker, or a user.
type host = virtualnet.Host

// options sets the length and the parts of a life.
type options struct {
	seed    uint64
	nodes   int
	workers int
	users   int
	// length is virtual time, without the last settling.
	length time.Duration
	dir    string
	log    *slog.Logger
}

// life is one cluster from its founding to its end, in one bubble.
type life struct {
	options
	random  *rand.Rand // of the one goroutine that causes the faults
	net     *virtualnet.Network
	finder  *virtualnet.Finder
	servers []*server
	workers []*worker
	users   []*user
	ledger  *ledger
	watch   *clockWatch
	began   time.Time
	ctx     context.Context
	end     context.CancelFunc
	// resting lets one goroutine at a time wait until the bubble is at rest.
	resting chan struct{}
	// doomed holds servers whose node may stop itself.
	mu         sync.Mutex
	doomed     map[rota.NodeID]bool
	minted     int // node ids
	violations []string
	figures    figures
	chores     sync.WaitGroup
	// steady is the worker that no fault touches.
	steady *worker
	// calm means that no new work starts: the life settles, or is checked.
	calm atomic.Bool
	// told has a checksum after each event that each node returned at the end.
	told [][]uint64
	// replacing means that a node is being replaced: one at a time, because two would be a majority.
	replacing atomic.Bool
	// leaps counts how often a monotonic clock leapt.
	leaps atomic.Int64
}

// queueName is the queue of all work; its leases are short, so that many end.
const queueName rota.QueueName = "work"

var queueSettings = []rota.Setting{{Key: "lease_ms", Value: "10s"}, {Key: "ack_timeout_ms", Value: "3s"},
	{Key: "attempt_max", Value: "8"}, {Key: "backoff_base_ms", Value: "500ms"}, {Key: "backoff_cap_ms", Value: "4s"},
	{Key: "min_health", Value: "0"}}

// newLife creates the world; it must be called inside the bubble.
func newLife(o options) *life {
	l := &life{options: o, random: rand.New(rand.NewPCG(o.seed, 2)), net: virtualnet.New(o.seed),
		finder: virtualnet.NewFinder(),
		ledger: newLedger(), began: time.Now(), resting: make(chan struct{}, 1), doomed: make(map[rota.NodeID]bool)}
	l.figures.faults = make(map[string]int)
	l.ctx, l.end = context.WithCancel(context.Background())
	l.ledger.violate = l.violate
	l.watch = newClockWatch(l)
	for i := range o.nodes {
		s := &server{life: l, host: host(fmt.Sprintf("n%d", i+1))}
		s.name.Store(l.mint())
		l.servers = append(l.servers, s)
	}
	for i := range o.workers {
		l.workers = append(l.workers, newWorker(l, i))
	}
	l.steady = newWorker(l, len(l.workers))
	l.steady.host, l.steady.queue = steadyWorker, steadyQueue
	for i := range o.users {
		l.users = append(l.users, newUser(l, i))
	}
	return l
}

// timing is that of a network a little slower than a data centre's. Commit can be long: followers learn of commits at
// once (cluster/stream/committed.go).
func (l *life) timing() cluster.Timing {
	return cluster.Timing{Heartbeat: time.Second, Election: time.Second, LeaderLease: time.Second,
		Commit: time.Second, SnapshotThreshold: 80, TrailingLogs: 40, SnapshotInterval: 10 * time.Second}
}

// sinceBoot returns the monotonic clock of all hosts: they run at one rate, because none is suspended.
func (l *life) sinceBoot() time.Duration { return time.Since(l.began) + time.Hour }

// rest waits until everything in the bubble waits for time to pass.
func (l *life) rest() {
	l.resting <- struct{}{}
	synctest.Wait()
	<-l.resting
}

// violate records a broken promise.
func (l *life) violate(promise, format string, args ...any) {
	text := fmt.Sprintf("at %s: %s: ", time.Since(l.began).Round(time.Millisecond), promise) + fmt.Sprintf(format,
		args...)
	l.log.Error("VIOLATION", "what", text)
	l.note(func(f *figures) { f.violations++ })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.violations) < 20 {
		l.violations = append(l.violations, text)
	}
}

// note changes a figure that several goroutines count.
func (l *life) note(f func(*figures)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.figures)
}

// fatal handles a node's report that it must not continue. Only a hanging disk excuses it.
func (l *life) fatal(s *server, err error) {
	if !l.isDoomed(s) || !hangs(err) {
		l.violate("a node gave itself up", "%s: %v", s.id(), err)
	}
	go func() {
		s.crash(false)
		if l.pause(time.Second) {
			l.restart(s)
		}
	}()
}

// hangs reports whether a fatal error is that of a node that ends because a write of its log does not return
// (store_writer.go).
func hangs(err error) bool {
	var refused *rota.Error
	return errors.As(err, &refused) && refused.Kind == rota.KindUnavailable && refused.Subject == "data" &&
		strings.Contains(refused.Text, "the disk hangs")
}

// isDoomed reports whether the server's disk hangs, or did since the node started.
func (l *life) isDoomed(s *server) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doomed[s.id()]
}

// doom sets whether a node may stop itself from now on.
func (l *life) doom(s *server, may bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doomed[s.id()] = may
}

// dial returns a client that knows these servers.
func (l *life) dial(from host, servers []*server) *client.Client {
	addresses := make([]string, len(servers))
	for i, s := range servers {
		addresses[i] = s.api()
	}
	c, err := client.Dial(addresses, client.WithDialer(l.net.Dialer(from)),
		client.WithLogger(l.log.With("host", string(from))))
	if err != nil {
		panic(err) // addresses are ours
	}
	return c
}

// pause waits in virtual time, and returns false once the life is over.
func (l *life) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// startAll starts every server that has no process.
func (l *life) startAll() {
	var all sync.WaitGroup
	for _, s := range l.servers {
		all.Go(func() { l.restart(s) })
	}
	all.Wait()
}

// mint returns a node id that was never used, and its directory.
func (l *life) mint() *nodeName {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.minted++
	id := rota.NodeID(fmt.Sprintf("n%d", l.minted))
	return &nodeName{id, filepath.Join(l.dir, string(id))}
}

// restart starts a server, which must succeed unless its disk hangs.
func (l *life) restart(s *server) {
	for l.ctx.Err() == nil {
		s.mu.Lock()
		hung, away := s.hung, s.away
		if hung == nil && !away && s.run == nil { // a running one may be about to stop itself for its disk
			l.doom(s, false) // under the lock that hang holds: a disk that hangs from here on dooms it again
		}
		s.mu.Unlock()
		if away {
			return
		}
		err := s.start()
		if err == nil || l.ctx.Err() != nil {
			return
		}
		if hung == nil {
			l.violate("a node starts again", "%v", err)
			return
		}
		l.pause(time.Second)
	}
}

// keepWorkers starts the workers that ended by themselves, or all of them.
func (l *life) keepWorkers(all bool) {
	for _, w := range l.workers {
		if all || w.ended() {
			w.start(false)
		}
	}
}

// leader returns the server whose node leads, or any that has a node, or nil.
func (l *life) leader() *server {
	var any *server
	for _, s := range l.servers {
		n := s.node()
		if n == nil {
			continue
		}
		any = s
		if _, leads := n.Pulse(); leads {
			return s
		}
	}
	return any
}

// live runs the whole life; its figures are complete then.
func (l *life) live() {
	l.startAll()
	admin := l.dial("admin", l.servers)
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	for name, settings := range map[rota.QueueName][]rota.Setting{queueName: queueSettings,
		steadyQueue: steadySettings} {
		if _, err := admin.SetQueue(ctx, name, "", settings); err != nil {
			l.violate("founding", "queue %s cannot be set: %v", name, err)
		}
	}
	l.makeRules(ctx, admin)
	cancel()
	_ = admin.Close()
	for _, w := range l.workers {
		w.start(false)
	}
	l.steady.start(false)
	for _, u := range l.users {
		l.chores.Go(u.run)
	}
	l.chores.Go(newHostile(l).run)
	l.chores.Go(l.watch.run)
	for time.Since(l.began) < l.length && len(l.violations) == 0 {
		l.storm(30)
		l.settle()
	}
	l.audit()
	l.end()
	l.chores.Wait()
	workers := append(slices.Clone(l.workers), l.steady)
	for _, w := range workers {
		w.crash(false)
	}
	var all sync.WaitGroup
	for _, s := range l.servers {
		all.Go(s.stop)
	}
	all.Wait()
	for _, w := range workers {
		w.gone.Wait()
	}
	l.figures.virtual = time.Since(l.began)
	l.figures.jobs = len(l.ledger.jobs)
	counts := l.ledger.counts
	l.figures.started, l.figures.lost, l.figures.completed = counts.started, counts.lost, counts.completed
	l.figures.submitted, l.figures.unknown = counts.submitted, counts.unknown
	for _, s := range l.servers {
		l.figures.starts += s.starts
	}
	l.figures.flows = len(l.ledger.flows)
}
