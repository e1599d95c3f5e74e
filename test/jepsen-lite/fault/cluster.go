package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// Server is one node: a process, its addresses, and a client that calls only it.
type Server struct {
	*Process
	ID    string
	place *place
	rig.Addrs
	wall   *wallClock
	Client *client.Client
	// founder means that it founded the cluster; disk is its data directory, nil for the host's own.
	founder bool
	disk    *disk
	rotten  suspicion
	// others are clients that show other badges than Client does.
	others  map[*Badge]*client.Client
	cluster *Cluster
}

// Cluster holds all nodes that this run ever had.
type Cluster struct {
	Binary string
	Dir    string
	net    Network
	rec    *check.Recorder
	// lock is nil where the cluster is open.
	lock *lock

	// Backlog is the number of jobs that were not over at the last check.
	Backlog atomic.Int64

	Mu sync.Mutex
	// servers are the founders, then the nodes that a nemesis added.
	servers  []*Server
	Founders int
	// Added counts all extra nodes so far; joining means that one is there now.
	Added   int
	joining bool
	// rotting means that a node's disk is damaged and not repaired yet; replacing is its replacement, which has one
	// user at a time.
	rotting   bool
	replacing *replacement
	leaderID  string
	closing   bool
	// heir is the node whose disk was recovered: the node that the others join from then on.
	heir *Server
	// deadAfter shortens autopilot's patience; 0 leaves it.
	deadAfter time.Duration
	// testClock means that nodes' wall clocks can be moved.
	testClock bool
	// disks means that nodes' disks can fail.
	disks bool
}

// NewCluster returns a cluster with the given number of founders, none of which runs yet.
func NewCluster(binary, dir string, network Network, rec *check.Recorder, founders int, o Options) (*Cluster, error) {
	k := &Cluster{Binary: binary, Dir: dir, net: network, rec: rec, Founders: founders,
		testClock: hasTestClock(binary)}
	if !k.testClock {
		rec.Note("all wall clocks stay right: the binary was not built with the tag %s", TestClockTag)
	}
	k.disks = wantsDisks(o, rec)
	if o.Locked {
		var err error
		if k.lock, err = newLock(binary, dir); err != nil {
			return nil, err
		}
	}
	for i := range founders {
		s, err := k.Make(fmt.Sprintf("n%d", i+1))
		if err != nil {
			return nil, errors.Join(err, k.unmount())
		}
		s.founder = true
	}
	return k, nil
}

// Make makes a node that has not been started.
func (k *Cluster) Make(id string) (*Server, error) {
	at, err := k.net.Place(id)
	if err != nil {
		return nil, err
	}
	ports, err := at.ports()
	if err != nil {
		return nil, err
	}
	return k.makeAt(id, at, ports)
}

func (k *Cluster) makeAt(id string, at *place, ports []int) (s *Server, err error) {
	addr := func(i int) string { return net.JoinHostPort(at.ip, strconv.Itoa(ports[i])) }
	s = &Server{ID: id, place: at, Addrs: rig.Addrs{API: addr(0), Raft: addr(1), Admin: addr(2), Gossip: addr(3)},
		wall: &wallClock{path: filepath.Join(k.Dir, id+".clock")}, others: make(map[*Badge]*client.Client), cluster: k}
	if k.lock != nil {
		if err := k.lock.issue(s); err != nil {
			return nil, err
		}
	}
	if err := s.dial(); err != nil {
		return nil, err
	}
	s.Process = &Process{
		Name: id, rec: k.rec, log: filepath.Join(k.Dir, id+".log"),
		make:   func() (*exec.Cmd, func(), error) { return k.command(s), nil, nil },
		died:   func(exit string) { k.crashed(s, exit) },
		stuck:  func(patience time.Duration) { k.stuck(s, patience) },
		keeper: at.keeper,
	}
	if k.disks {
		if s.disk, err = startDisk(filepath.Join(k.Dir, "disks", id), k.dataOf(s)); err != nil {
			return nil, err
		}
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.servers = append(k.servers, s)
	return s, nil
}

// dial creates the node's client with full rights, once such a token exists.
func (s *Server) dial() (err error) {
	if k := s.cluster; k.lock == nil || k.lock.root.ID() != "" {
		s.Client, err = client.Dial([]string{s.API}, k.options(nil)...)
	}
	return err
}

// clusterName is in the certificates, too.
const clusterName = "chaos"

func (k *Cluster) command(s *Server) *exec.Cmd {
	n := rig.Node{ID: s.ID, Dir: k.dataOf(s), Addrs: s.Addrs,
		Flags: []string{"--cluster", clusterName, "--events-retained", strconv.Itoa(check.EventsRetained), "--pprof"}}
	if k.lock == nil {
		n.Flags = append(n.Flags, "--insecure")
	} else {
		n.Flags = append(n.Flags, k.lock.flags(s)...)
	}
	if s.disk != nil {
		n.Flags = append(n.Flags, "--disk-low", "10", "--disk-critical", "5")
	}
	args := n.Args()
	if s.rotten.suspected() {
		args = append(args, "--scrub-every", scrubEvery)
	}
	k.Mu.Lock()
	heir, deadAfter := k.heir, k.deadAfter
	k.Mu.Unlock()
	joins := k.All()[:k.Founders]
	if heir != nil {
		joins = []*Server{heir}
	} else if s.founder && slices.Contains(joins, s) {
		args = append(args, "--bootstrap-expect", strconv.Itoa(k.Founders))
	}
	for _, other := range joins {
		if other != s {
			args = append(args, "--join", other.Gossip)
		}
	}
	cmd := s.place.command(k.Binary, args...)
	if cmd.Env == nil {
		cmd.Env = rig.Inherited()
	}
	cmd.Env = append(cmd.Env, testClockKey+"="+s.wall.path)
	if deadAfter > 0 {
		cmd.Env = append(cmd.Env, testDeadKey+"="+deadAfter.String())
	}
	return cmd
}

// All returns the current nodes.
func (k *Cluster) All() []*Server {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return append([]*Server(nil), k.servers...)
}

// Members returns the nodes that were not removed.
func (k *Cluster) Members() []*Server {
	var left []*Server
	for _, s := range k.All() {
		s.mu.Lock()
		if !s.retired {
			left = append(left, s)
		}
		s.mu.Unlock()
	}
	return left
}

func (k *Cluster) find(id string) *Server {
	for _, s := range k.All() {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// leader returns the last known leader, nil if none.
func (k *Cluster) leader() *Server {
	k.Mu.Lock()
	id := k.leaderID
	k.Mu.Unlock()
	return k.find(id)
}

// Addresses returns the founders' API addresses, or, once a disk was recovered, those of the recovered cluster.
func (k *Cluster) Addresses() []string {
	servers := k.All()[:k.Founders]
	if k.Heir() != nil {
		servers = k.Members()
	}
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.API)
	}
	return addrs
}

// Client returns a client of all founders with full rights.
func (k *Cluster) Client() (*client.Client, error) { return k.ClientOf(nil) }

// Begin starts the founders, locks the cluster if configured, and waits until they serve.
func (k *Cluster) Begin(ctx context.Context) error {
	for _, s := range k.All() {
		if err := s.Start(); err != nil {
			return err
		}
	}
	if err := k.closeUp(ctx); err != nil {
		return err
	}
	for _, s := range k.All() {
		if err := k.Serves(ctx, s); err != nil {
			return fmt.Errorf("node %s does not serve: %w: %s", s.ID, err, s.LastWords())
		}
	}
	return nil
}

// closeUp locks the cluster: from now on callers without a token have no rights.
func (k *Cluster) closeUp(ctx context.Context) error {
	if k.lock == nil {
		return nil
	}
	all := k.All()
	if err := k.lock.close(ctx, k.dataOf(all[0])); err != nil {
		return fmt.Errorf("%w: %s", err, all[0].LastWords())
	}
	for _, s := range all {
		if err := s.dial(); err != nil {
			return err
		}
	}
	return k.makeRoles(ctx)
}

// Serves waits for a linearizable read at one node.
func (k *Cluster) Serves(ctx context.Context, s *Server) error {
	var last error
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, last = s.Client.Job(try, "no-such-job")
		cancel()
		if rota.KindOf(last) == rota.KindNotFound {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), last)
}

// Heal lets all nodes continue: none paused, none down that should be up.
func (k *Cluster) Heal() error {
	all := k.net.mendAll()
	for _, s := range k.Members() {
		all = errors.Join(all, s.wall.right())
		all = errors.Join(all, s.mendDisk())
		s.LetGo()
		all = errors.Join(all, s.Start())
	}
	return errors.Join(all, k.replace(), k.mendBadges())
}

// run runs the binary as a user would and returns its standard output.
func (k *Cluster) run(ctx context.Context, args ...string) ([]byte, error) {
	with := append(args, "--addr", strings.Join(k.Addresses(), ","))
	if k.lock != nil {
		with = append(with, k.lock.flags(nil)...)
	}
	cmd := exec.CommandContext(ctx, k.Binary, with...)
	cmd.Env = rig.Inherited()
	cmd.SysProcAttr = rig.Attributes()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := strings.TrimSpace(string(exit.Stderr))
		return out, fmt.Errorf("rota %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return out, err
}

// Verify returns all nodes' invariants and digests. It retries a node that does not answer for a while.
func (k *Cluster) Verify(ctx context.Context) (*rota.Verdict, error) {
	var last error
	for range 5 {
		out, err := k.run(ctx, "operator", "verify", "-o", "json", "--timeout", "60s")
		v := &rota.Verdict{}
		if jerr := json.Unmarshal(out, v); jerr != nil {
			last = errors.Join(err, jerr)
			time.Sleep(time.Second)
			continue
		}
		asked := true
		for _, n := range v.Nodes {
			asked = asked && n.Error == ""
		}
		if asked {
			return v, nil
		}
		last = err
		time.Sleep(2 * time.Second)
	}
	return nil, last
}

// End ends all nodes properly and records those that do not end well.
func (k *Cluster) End() {
	k.close(true)
	k.each(func(s *Server) {
		s.LetGo()
		s.Retire(check.MaxGoodbye)
		s.hangUp()
	})
}

// each calls do for all nodes at once.
func (k *Cluster) each(do func(s *Server)) {
	var all sync.WaitGroup
	for _, s := range k.All() {
		all.Go(func() { do(s) })
	}
	all.Wait()
}
