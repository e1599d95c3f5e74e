package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

const (
	maxStart = 60 * time.Second
	maxStop  = 20 * time.Second
	// maxSaid is how many lines of a failed command an error shows.
	maxSaid = 6
)

// scene holds the parts that rows share: the binary, a directory and a cluster of three nodes.
type scene struct {
	binary, dir, cache string
	nodes              rig.Nodes
	client             *client.Client
	tools              map[string]*installed
	count              int
}

func newScene(binary string) (*scene, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rota-compat-")
	return &scene{binary: binary, dir: dir, cache: cache, tools: make(map[string]*installed)}, err
}

// end stops the cluster and removes the directory.
func (s *scene) end() error {
	var err error
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.nodes != nil {
		err = s.nodes.Stop(maxStop)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// cluster starts the shared nodes, once, and returns a client of them.
func (s *scene) cluster(ctx context.Context) (*client.Client, error) {
	if s.client != nil {
		return s.client, nil
	}
	nodes, err := s.start(ctx, 3, "cluster")
	if err != nil {
		return nil, err
	}
	s.nodes = nodes
	s.client, err = nodes.Dial()
	return s.client, err
}

// start starts a cluster of n nodes with these flags.
func (s *scene) start(ctx context.Context, n int, name string, flags ...string) (rig.Nodes, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	nodes, err := rig.NewNodes(n, dir, s.binary)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		n.Flags = append(n.Flags, flags...)
	}
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	if err := nodes.Start(ctx); err != nil {
		nodes.Kill()
		return nil, err
	}
	return nodes, nil
}

// url returns the HTTP address of the shared cluster's first node.
func (s *scene) url() string { return "http://" + s.nodes[0].API }

// queue creates a queue of its own for a row, and returns its name.
func (s *scene) queue(ctx context.Context) (string, error) {
	c, err := s.cluster(ctx)
	if err != nil {
		return "", err
	}
	s.count++
	name := fmt.Sprintf("compat-%d", s.count)
	_, err = s.rota(ctx, s.nodes.APIs(), "queue", "set", name)
	_ = c
	return name, err
}

// temp returns a new directory of a row.
func (s *scene) temp(name string) (string, error) { return os.MkdirTemp(s.dir, name+"-") }

// completed fails unless a job was completed by a worker.
func (s *scene) completed(ctx context.Context, job string) error {
	c, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	got, err := c.Job(ctx, rota.JobID(job))
	if err != nil {
		return err
	}
	if got.State != rota.JobCompleted {
		return fmt.Errorf("the cluster has job %s as %s, want COMPLETED", job, got.State)
	}
	return nil
}

// rota runs a command of rota against some nodes and returns its output.
func (s *scene) rota(ctx context.Context, addrs []string, args ...string) (string, error) {
	return command{dir: s.dir, env: rig.Bare("ROTA_ADDR=" + strings.Join(addrs, ","))}.run(ctx, s.binary, args...)
}

// command is the directory and environment in which a program runs; nil means the caller's without its ROTA_ settings.
type command struct {
	dir   string
	env   []string
	input string
}

// run runs a program at a low priority until it ends or ctx does, together with its children, and returns its output.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := c.make(ctx, name, args...)
	said, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(said))
	if err != nil {
		lines := strings.Split(text, "\n")
		err = fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.Join(lines[max(0, len(lines)-maxSaid):], "\n"))
	}
	return text, err
}

func (c command) make(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "5", name}, args...)...)
	cmd.Dir, cmd.Env = c.dir, c.env
	if cmd.Env == nil {
		cmd.Env = rig.Inherited()
	}
	if c.input != "" {
		cmd.Stdin = strings.NewReader(c.input)
	}
	cmd.SysProcAttr = rig.Attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// serve starts a program that runs until the returned process is stopped.
func (c command) serve(name string, log string, args ...string) (*rig.Process, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	if cmd.Env == nil {
		cmd.Env = rig.Inherited()
	}
	return rig.Start(filepath.Base(name), cmd, log)
}
