package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// demoNode is a node of the demonstration: a process of this very binary.
type demoNode struct {
	id      rota.NodeID
	ports   nodePorts
	args    []string
	binary  string
	logPath string

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{}
}

// demoStop is how long a node may take to end on SIGTERM.
const demoStop = 12 * time.Second

func newDemoNode(i int, ports []nodePorts, dir string) (*demoNode, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("n%d", i+1)
	p := ports[i]
	n := &demoNode{
		id: rota.NodeID(id), ports: p, binary: binary, logPath: filepath.Join(dir, id+".log"),
		args: []string{"server", "--node", id, "--data", filepath.Join(dir, id), "--cluster", "demo", "--api",
			p.API,
			"--raft", p.Raft, "--admin", p.Admin, "--gossip", p.Gossip, "--bootstrap-expect", strconv.Itoa(len(ports))},
	}
	for k := range ports {
		if k != i {
			n.args = append(n.args, "--join", ports[k].Gossip)
		}
	}
	return n, nil
}

// start starts the process; what it says goes to its log file.
func (n *demoNode) start() error {
	log, err := os.OpenFile(n.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.binary, n.args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Settings of the caller's shell are not meant for these nodes; and its
	// Ctrl-C is handled here, not there.
	cmd.Env = withoutPrefix(os.Environ(), envPrefix)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.id, err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	n.mu.Lock()
	n.cmd, n.gone = cmd, gone
	n.mu.Unlock()
	return nil
}

func (n *demoNode) process() (*os.Process, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil, nil
	}
	return n.cmd.Process, n.gone
}

func (n *demoNode) pid() int {
	p, _ := n.process()
	if p == nil {
		return 0
	}
	return p.Pid
}

// kill ends the process without a word and waits until it is gone.
func (n *demoNode) kill() error {
	p, gone := n.process()
	if p == nil {
		return nil
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-gone
	return nil
}

// stop ends the process properly, or else for good.
func (n *demoNode) stop() {
	p, gone := n.process()
	if p == nil {
		return
	}
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(demoStop):
		_ = n.kill()
	}
}

// awaitReady waits until the node's /readyz says so.
func (n *demoNode) awaitReady(ctx context.Context) error {
	_, gone := n.process()
	dead := false
	err := until(ctx, func() bool {
		select {
		case <-gone:
			dead = true
			return true
		default:
		}
		return n.ready(ctx)
	})
	if dead {
		return failf("node %s ended; the last of its log: %s", n.id, n.lastWords())
	}
	if err != nil {
		return fmt.Errorf("node %s is not ready: %w", n.id, err)
	}
	return nil
}

func (n *demoNode) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ports.Admin+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (n *demoNode) lastWords() string {
	text, _ := os.ReadFile(n.logPath)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// node finds a node by its id, nil if there is none.
func (d *demonstration) node(id rota.NodeID) *demoNode {
	for _, n := range d.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// others is a client of all nodes but one.
func (d *demonstration) others(but *demoNode) (*client.Client, error) {
	var addrs []string
	for _, n := range d.nodes {
		if n != but {
			addrs = append(addrs, n.ports.API)
		}
	}
	return client.Dial(addrs, client.WithInsecure())
}

// end ends the nodes, all at once.
func (d *demonstration) end() {
	if d.c != nil {
		_ = d.c.Close()
	}
	var all sync.WaitGroup
	for _, n := range d.nodes {
		all.Go(n.stop)
	}
	all.Wait()
}

// until waits for a condition, looking often.
func until(ctx context.Context, condition func() bool) error {
	for !condition() {
		if err := pause(ctx, demoPoll); err != nil {
			return err
		}
	}
	return nil
}

// withoutPrefix leaves out variables whose names begin so.
func withoutPrefix(environ []string, prefix string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, prefix) {
			kept = append(kept, v)
		}
	}
	return kept
}
