package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// server is one node: a process, its addresses, and a client of it alone.
type server struct {
	*process
	id    string
	place *place
	rig.Addrs
	wall *wallClock
	c    *client.Client
	// founder says that it founded the cluster; disk is its data directory, nil for
	// the host's own.
	founder bool
	disk    *disk
	rotten  suspicion
}

// eventsRetained is how many events nodes keep: all of a run of an hour.
const eventsRetained = 8_000_000

// cluster is all nodes that this run ever had.
type cluster struct {
	binary string
	dir    string
	net    network
	rec    *recorder

	// backlog is how many jobs were not over when last asked.
	backlog atomic.Int64

	mu sync.Mutex
	// servers are the founders, then those that a nemesis added.
	servers  []*server
	founders int
	// added counts extra nodes ever; joining says that one is there.
	added   int
	joining bool
	// rotting says that a node's disk is damaged and not made good yet; replacing is
	// its replacement, which has one user at a time.
	rotting   bool
	replacing *replacement
	leaderID  string
	closing   bool
	// testClock says that nodes' wall clocks can be moved.
	testClock bool
	// disks says that nodes' disks can fail.
	disks bool
}

func newCluster(binary, dir string, network network, rec *recorder, founders int, o Options) (*cluster, error) {
	k := &cluster{binary: binary, dir: dir, net: network, rec: rec, founders: founders,
		testClock: hasTestClock(binary)}
	if !k.testClock {
		rec.note("all wall clocks stay right: the binary was not built with the tag %s", testClockTag)
	}
	k.disks = wantsDisks(o, rec)
	for i := range founders {
		s, err := k.make(fmt.Sprintf("n%d", i+1))
		if err != nil {
			return nil, errors.Join(err, k.unmount())
		}
		s.founder = true
	}
	return k, nil
}

// make makes a node that has not been started.
func (k *cluster) make(id string) (*server, error) {
	at, err := k.net.place(id)
	if err != nil {
		return nil, err
	}
	ports, err := at.ports()
	if err != nil {
		return nil, err
	}
	return k.makeAt(id, at, ports)
}

func (k *cluster) makeAt(id string, at *place, ports []int) (s *server, err error) {
	addr := func(i int) string { return net.JoinHostPort(at.ip, strconv.Itoa(ports[i])) }
	s = &server{id: id, place: at, Addrs: rig.Addrs{API: addr(0), Raft: addr(1), Admin: addr(2), Gossip: addr(3)},
		wall: &wallClock{path: filepath.Join(k.dir, id+".clock")}}
	if s.c, err = client.Dial([]string{s.API}, client.WithInsecure()); err != nil {
		return nil, err
	}
	s.process = &process{
		name: id, rec: k.rec, log: filepath.Join(k.dir, id+".log"),
		make:   func() (*exec.Cmd, func(), error) { return k.command(s), nil, nil },
		died:   func(exit string) { k.crashed(s, exit) },
		stuck:  func(patience time.Duration) { k.stuck(s, patience) },
		keeper: at.keeper,
	}
	if k.disks {
		if s.disk, err = startDisk(filepath.Join(k.dir, "disks", id), k.dataOf(s)); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.servers = append(k.servers, s)
	return s, nil
}

func (k *cluster) command(s *server) *exec.Cmd {
	n := rig.Node{ID: s.id, Dir: k.dataOf(s), Addrs: s.Addrs,
		Flags: []string{"--cluster", "chaos", "--insecure", "--events-retained", strconv.Itoa(eventsRetained)}}
	args := n.Args()
	if s.rotten.suspected() {
		args = append(args, "--scrub-every", scrubEvery)
	}
	founders := k.all()[:k.founders]
	for i, other := range founders {
		if other == s {
			if s.founder {
				args = append(args, "--bootstrap-expect", strconv.Itoa(k.founders))
			}
			founders = append(founders[:i:i], founders[i+1:]...)
			break
		}
	}
	for _, other := range founders {
		args = append(args, "--join", other.Gossip)
	}
	cmd := s.place.command(k.binary, args...)
	if cmd.Env == nil {
		cmd.Env = rig.Inherited()
	}
	cmd.Env = append(cmd.Env, testClockKey+"="+s.wall.path)
	return cmd
}

// crashed notes a node that ended by itself and, as an init system would, starts
// it again.
func (k *cluster) crashed(s *server, exit string) {
	k.mu.Lock()
	closing := k.closing
	k.mu.Unlock()
	if closing {
		return
	}
	crash := Crash{At: k.rec.now(), Node: s.id, Exit: exit, Log: s.lastWords()}
	k.rec.with(func(h *History) { h.Crashes = append(h.Crashes, crash) })
	s.rotten.ended(crash.Log)
	time.Sleep(time.Second)
	if err := s.start(); err != nil {
		k.rec.note("%s does not start again: %v", s.id, err)
	}
}

// goodbyeMost is how long a node may take to end once it was told to.
const goodbyeMost = 25 * time.Second

// stuck notes a node that does not end though it was told to, and what all its
// goroutines wait for.
func (k *cluster) stuck(s *server, patience time.Duration) {
	at := k.rec.now()
	path := filepath.Join(k.dir, s.id+"-stuck.txt")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	text := "its goroutines could not be had"
	dump := "http://" + s.Admin + "/debug/pprof/goroutine?debug=2"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, dump, nil)
	if err == nil {
		var answer *http.Response
		if answer, err = http.DefaultClient.Do(request); err == nil {
			goroutines, rerr := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
			_ = answer.Body.Close()
			if rerr == nil && os.WriteFile(path, goroutines, 0o600) == nil {
				text = "its goroutines are in " + path
			}
		}
	}
	if err != nil && s.dump() {
		text = "its goroutines are in its log"
	}
	stuck := Crash{At: at - int64(patience), Node: s.id, Exit: patience.String(), Log: text + "; " + s.lastWords()}
	k.rec.with(func(h *History) { h.Stuck = append(h.Stuck, stuck) })
}

// all gives the nodes of now.
func (k *cluster) all() []*server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*server(nil), k.servers...)
}

// members gives those that were not removed.
func (k *cluster) members() []*server {
	var left []*server
	for _, s := range k.all() {
		s.mu.Lock()
		if !s.retired {
			left = append(left, s)
		}
		s.mu.Unlock()
	}
	return left
}

func (k *cluster) find(id string) *server {
	for _, s := range k.all() {
		if s.id == id {
			return s
		}
	}
	return nil
}

// leader is the last known one, nil if none.
func (k *cluster) leader() *server {
	k.mu.Lock()
	id := k.leaderID
	k.mu.Unlock()
	return k.find(id)
}

func (k *cluster) addresses() []string {
	var addrs []string
	for _, s := range k.all()[:k.founders] {
		addrs = append(addrs, s.API)
	}
	return addrs
}

// client is one of all founders.
func (k *cluster) client() (*client.Client, error) {
	return client.Dial(k.addresses(), client.WithInsecure())
}

// begin starts the founders and waits until they serve.
func (k *cluster) begin(ctx context.Context) error {
	for _, s := range k.all() {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, s := range k.all() {
		if err := k.serves(ctx, s); err != nil {
			return fmt.Errorf("node %s does not serve: %w: %s", s.id, err, s.lastWords())
		}
	}
	return nil
}

// serves waits for a linearizable read at one node.
func (k *cluster) serves(ctx context.Context, s *server) error {
	var last error
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, _, last = s.c.Job(try, "no-such-job", rota.ReadOptions{})
		cancel()
		if rota.KindOf(last) == rota.NotFound {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), last)
}

// heal lets all go on: nothing paused, nothing down that should be up.
func (k *cluster) heal() error {
	all := k.net.mendAll()
	for _, s := range k.members() {
		all = errors.Join(all, s.wall.right())
		all = errors.Join(all, s.mendDisk())
		s.letGo()
		all = errors.Join(all, s.start())
	}
	return errors.Join(all, k.replace())
}

// run runs the binary as a user would and gives its standard output.
func (k *cluster) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, k.binary, append(args, "--addr", strings.Join(k.addresses(), ","))...)
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

// verify asks for all nodes' invariants and digests. A node that could not be
// asked is asked again for a while.
func (k *cluster) verify(ctx context.Context) (*rota.Verdict, error) {
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

// end ends all nodes properly and notes those that do not go well.
func (k *cluster) end() {
	k.mu.Lock()
	k.closing = true
	k.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range k.all() {
		all.Go(func() {
			s.letGo()
			s.retire(goodbyeMost)
			_ = s.c.Close()
		})
	}
	all.Wait()
}
