package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota/client"
)

// Addrs are the addresses that a node listens on.
type Addrs struct{ API, Raft, Admin, Gossip string }

// FreeAddrs returns free addresses on loopback.
func FreeAddrs() (a Addrs, err error) {
	for _, addr := range []*string{&a.API, &a.Raft, &a.Admin, &a.Gossip} {
		if *addr, err = FreeAddr(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// Node is one `rota server`, started once or several times on one directory.
type Node struct {
	Addrs
	ID, Dir string
	// Line begins its command line: the binary, preceded by any program that runs it.
	Line []string
	// Flags are those in addition to id, directory and addresses.
	Flags []string
	// Env is its environment; nil is that of Bare.
	Env []string
	// Log is a file for its output; without one each run keeps its own.
	Log string

	mu   sync.Mutex
	life *Process
	// starts counts its runs.
	starts int
}

// NewNode returns a node with free ports and a directory in dir that has its name.
func NewNode(id, dir string, line ...string) (*Node, error) {
	addrs, err := FreeAddrs()
	return &Node{Addrs: addrs, ID: id, Dir: filepath.Join(dir, id), Line: line}, err
}

// Args returns the command line after the binary. The machine's free disk space is ignored, unless Flags set it.
func (n *Node) Args() []string {
	return append([]string{"server", "--node", n.ID, "--data", n.Dir, "--api", n.API, "--raft", n.Raft, "--admin",
		n.Admin, "--gossip", n.Gossip, "--disk-low", "0", "--disk-critical", "0"}, n.Flags...)
}

// Start starts its next run; it may not be ready yet.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Running() {
		return fmt.Errorf("%s runs", n.ID)
	}
	n.starts++
	cmd := exec.Command(n.Line[0], append(n.Line[1:len(n.Line):len(n.Line)], n.Args()...)...)
	if cmd.Env = n.Env; cmd.Env == nil {
		cmd.Env = Bare()
	}
	life, err := Start(fmt.Sprintf("%s, start %d", n.ID, n.starts), cmd, n.Log)
	if err == nil {
		n.life = life
	}
	return err
}

// Life returns the process that runs, or the last one; nil before the first.
func (n *Node) Life() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// Running reports whether it has been started and has not ended.
func (n *Node) Running() bool { return n.Life().Running() }

// Kill sends SIGKILL and waits for the end.
func (n *Node) Kill() { n.Life().Kill() }

// Ready requests /readyz once; nil means that the node serves.
func (n *Node) Ready() error {
	asking := http.Client{Timeout: time.Second}
	answer, err := asking.Get("http://" + n.Admin + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// AwaitReady waits until the node serves. If the node or ctx ends, it fails with the node's last output.
func (n *Node) AwaitReady(ctx context.Context) error {
	life := n.Life()
	err := Until(ctx, func() error {
		if !life.Running() {
			return Final(fmt.Errorf("it ended with %s", life.State()))
		}
		return n.Ready()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w: %s", life.Name, err, life.LastWords(lastLines))
	}
	return nil
}

// Nodes are those of a cluster.
type Nodes []*Node

// NewNodes returns n nodes that create a cluster, with directories and logs in dir.
func NewNodes(n int, dir string, line ...string) (Nodes, error) {
	var all Nodes
	for i := range n {
		one, err := NewNode(fmt.Sprintf("n%d", i+1), dir, line...)
		if err != nil {
			return nil, err
		}
		one.Log = filepath.Join(dir, one.ID+".log")
		all = append(all, one)
	}
	all.Found()
	return all, nil
}

// Found makes all nodes create a cluster together when they are started.
func (ns Nodes) Found() {
	for _, n := range ns {
		n.Flags = append(append(n.Flags, "--bootstrap-expect", strconv.Itoa(len(ns))), ns.Joins(n)...)
	}
}

// Joins returns the flags that connect a node to all others.
func (ns Nodes) Joins(except *Node) (flags []string) {
	for _, n := range ns {
		if n != except {
			flags = append(flags, "--join", n.Gossip)
		}
	}
	return flags
}

// Start starts all nodes and waits until they serve.
func (ns Nodes) Start(ctx context.Context) error {
	for _, n := range ns {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return ns.AwaitReady(ctx)
}

// AwaitReady waits until all nodes serve.
func (ns Nodes) AwaitReady(ctx context.Context) error {
	for _, n := range ns {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Kill kills all nodes, as a power cut would.
func (ns Nodes) Kill() {
	for _, n := range ns {
		n.Kill()
	}
}

// Stop ends all running nodes at once, each within a time limit; it fails if one does not end cleanly.
func (ns Nodes) Stop(most time.Duration) error {
	errs := make([]error, len(ns))
	var all sync.WaitGroup
	for i, n := range ns {
		if n.Life() != nil {
			all.Go(func() { errs[i] = n.Life().Stop(most) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// ByID returns a node, nil if there is none.
func (ns Nodes) ByID(id string) *Node {
	for _, n := range ns {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// APIs returns the addresses for clients, of running and stopped nodes.
func (ns Nodes) APIs() (addrs []string) {
	for _, n := range ns {
		addrs = append(addrs, n.API)
	}
	return addrs
}

// Dial returns a client of the nodes.
func (ns Nodes) Dial() (*client.Client, error) { return client.Dial(ns.APIs(), client.WithInsecure()) }
