package virtual

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/virtualnet"
)

// server is the host of one node: its disk and clocks, and the node's process while
// one runs.
type server struct {
	life *life
	host host
	// name is the node's id with its data directory, which change together.
	name atomic.Pointer[nodeName]

	mu sync.Mutex
	// away means that its node is being replaced, and must not be started elsewhere.
	away bool
	// run is the current process, nil while there is none; starts counts them. last is the one that began last, and may
	// still be ending.
	run, last *process
	starts    int
	// skew is how far the wall clock is off, leapt how far the monotonic clock is ahead of the other hosts' because of
	// pauses of the whole machine.
	skew, leapt time.Duration
	// writeDelay delays each write; while hung is not nil, writes block.
	writeDelay time.Duration
	// writes counts the writes.
	writes int
	hung   chan struct{}
}

// nodeName is a node's id and its directory.
type nodeName struct {
	id   rota.NodeID
	data string
}

func (s *server) id() rota.NodeID { return s.name.Load().id }
func (s *server) data() string    { return s.name.Load().data }

// process is one run of a node.
type process struct {
	server *server
	node   *virtualnet.Node // nil while it starts
	// dead is closed when the process crashes: from then on its writes and messages are lost.
	dead chan struct{}
	// gone is closed when nothing of it runs any longer.
	gone chan struct{}
}

func (s *server) api() string  { return string(s.host) + ":6470" }
func (s *server) raft() string { return string(s.host) + ":6471" }

// node returns the current process's node, nil while there is none.
func (s *server) node() *cluster.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.node == nil {
		return nil
	}
	return s.run.node.Node
}

// serving returns the current process with its node, nil while there is none.
func (s *server) serving() (*process, *cluster.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil, nil
	}
	if s.run.node == nil {
		return s.run, nil
	}
	return s.run, s.run.node.Node
}

// wall returns the host's wall clock.
func (s *server) wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew)
}

// sinceBoot returns the host's monotonic clock.
func (s *server) sinceBoot() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.sinceBoot() + s.leapt
}

// beforeWrite simulates the speed of the disk.
func (p *process) beforeWrite() {
	s := p.server
	s.mu.Lock()
	delay, hung := s.writeDelay, s.hung
	s.writes++
	s.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-p.dead:
		}
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.dead:
		}
	}
}

func (p *process) isDead() bool { return closed(p.dead) }
func (p *process) isGone() bool { return closed(p.gone) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// config returns the node's configuration: rota's own, except for the world.
func (p *process) config(start int) cluster.Config {
	s, l := p.server, p.server.life
	world := l.net.Environment(s.host, l.finder)
	world.SinceBoot, world.Wall, world.BeforeWrite = s.sinceBoot, s.wall, p.beforeWrite
	return cluster.Config{
		Node: s.id(), Cluster: "virtual", Data: s.data(), API: s.api(), Raft: s.raft(),
		Gossip:          string(s.host) + ":6473",
		BootstrapExpect: len(l.servers), Version: "virtual", Open: true, DiskLow: -1, DiskCritical: -1,
		Timing: l.timing(), AuditRetention: 1,
		Log: slog.New(watchLog{l.log.With("node", string(s.id()), "start", start).Handler(), p}),
		Fatal: func(err error) {
			if !p.isDead() {
				l.fatal(s, err)
			}
		},
		Environment: world,
	}
}

// watchLog counts the snapshots that another node sent: a starting node restores its own before it serves.
type watchLog struct {
	slog.Handler
	process *process
}

// Enabled implements slog.Handler.
func (w watchLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || w.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (w watchLog) Handle(ctx context.Context, r slog.Record) error {
	if s := w.process.server; r.Message == "snapshot restored" && s.node() != nil {
		s.life.note(func(f *figures) { f.installs++ })
	}
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (w watchLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watchLog{w.Handler.WithAttrs(attrs), w.process}
}

// WithGroup implements slog.Handler.
func (w watchLog) WithGroup(name string) slog.Handler {
	return watchLog{w.Handler.WithGroup(name), w.process}
}

// start starts a process, and returns when its node serves calls or could not start.
func (s *server) start() error {
	l := s.life
	p, starts := s.begin()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	node, err := l.net.Start(ctx, s.host, p.config(starts), l.log)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.run = nil
		close(p.gone)
		return err
	}
	p.node = node
	return nil
}

// begin creates a process once the previous one has ended; nil if one runs.
func (s *server) begin() (p *process, start int) {
	for {
		s.mu.Lock()
		if s.run != nil {
			s.mu.Unlock()
			return nil, 0
		}
		last := s.last
		if last == nil || last.isGone() {
			p = &process{server: s, dead: make(chan struct{}), gone: make(chan struct{})}
			s.run, s.last = p, p
			s.starts++
			start = s.starts
			s.mu.Unlock()
			return p, start
		}
		s.mu.Unlock()
		<-last.gone
	}
}

// stop ends the process as SIGTERM does: leadership is handed over, streams are redirected.
func (s *server) stop() {
	p := s.take()
	if p == nil {
		return
	}
	defer close(p.gone)
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Second)
	defer cancel()
	_, _ = p.node.TransferLeadership(ctx, "") // refused if it does not lead, or no other node can
	_ = p.node.API.Drain(ctx)
	s.mu.Lock()
	hung := s.hung != nil
	s.mu.Unlock()
	if hung { // it cannot close its files: the end of the process does, and loses the hanging write
		p.perish()
		return
	}
	p.close(ctx)
}

// take removes the current process, nil if none serves.
func (s *server) take() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.node == nil {
		return nil
	}
	p := s.run
	s.run = nil
	return p
}

func (p *process) close(ctx context.Context) {
	if err := p.node.Close(ctx); err != nil {
		p.server.life.violate("stop", "%s did not stop: %v", p.server.id(), err)
	}
}

// crash ends the process as a power cut does: its connections fall silent, or are reset, and its disk keeps its current
// content. Writes that wait on a slow disk are lost with their answers. It returns when the process has ended.
func (s *server) crash(silent bool) {
	p := s.take()
	if p == nil {
		return
	}
	defer close(p.gone)
	s.life.net.Crash(s.host, silent)
	p.perish()
}

// perish ends the process with the current content of its disk.
func (p *process) perish() {
	s := p.server
	s.life.rest() // writes without a delay are done, without effect
	image := s.data() + ".image"
	if err := keepImage(s.data(), image); err != nil {
		s.life.violate("harness", "image of %s: %v", s.id(), err)
	}
	close(p.dead)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.close(ctx)
	if err := restoreImage(image, s.data()); err != nil {
		s.life.violate("harness", "image of %s: %v", s.id(), err)
	}
}
