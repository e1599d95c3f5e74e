package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// together is the size of the measured cluster, unless one server is alone.
const together = 3

const (
	// maxReady bounds the wait until all serve, maxStop that until they have ended.
	maxReady  = 5 * time.Minute
	maxStop   = time.Minute
	lookEvery = 100 * time.Millisecond
)

// servers are the measured processes.
type servers struct {
	rig.Nodes
	dir string
	// line is the beginning of their command lines.
	line []string
	// shows is the environment of a load: the token that locked servers require.
	shows []string
}

// startServers starts a cluster of the given number of nodes in dir and waits until every one serves.
func startServers(ctx context.Context, rota, dir string, nodes int, prefix []string) (*servers, error) {
	s := &servers{dir: dir, line: append(prefix[:len(prefix):len(prefix)], rota)}
	var err error
	if s.Nodes, err = rig.NewNodes(nodes, dir, s.line...); err != nil {
		return nil, err
	}
	profiles := servesProfiles(ctx, rota)
	for _, n := range s.Nodes {
		if n.Env = rig.Inherited(); profiles {
			n.Flags = append(n.Flags, "--pprof")
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// servesProfiles reports whether a binary needs a flag to serve profiles: older ones do not know the flag, and always
// serve them.
func servesProfiles(ctx context.Context, rota string) bool {
	help, err := exec.CommandContext(ctx, rota, "server", "--help").Output()
	return err == nil && bytes.Contains(help, []byte("--pprof"))
}

func (s *servers) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	return s.Start(ctx)
}

// add returns one more node, which has not been started.
func (s *servers) add() (*rig.Node, error) {
	n, err := rig.NewNode(fmt.Sprintf("n%d", len(s.Nodes)+1), s.dir, s.line...)
	if err != nil {
		return nil, err
	}
	n.Env, n.Log, n.Flags = rig.Inherited(), filepath.Join(s.dir, n.ID+".log"), s.Joins(nil)
	s.Nodes = append(s.Nodes, n)
	return n, nil
}

// join starts one more node with an empty directory, and waits until all serve.
func (s *servers) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	n, err := s.add()
	if err != nil {
		return err
	}
	return errors.Join(n.Start(), s.AwaitReady(ctx))
}

// restartAll kills every server as a power cut would and starts them again; it returns when all serve.
func (s *servers) restartAll(ctx context.Context) error {
	s.Kill()
	return s.start(ctx)
}

// peak returns the peak memory of any server, including mapped files, in bytes; 0 if the system does not report it.
func (s *servers) peak() (most float64) {
	for _, n := range s.Nodes {
		var kb float64
		_, _ = fmt.Sscanf(field(fmt.Sprintf("/proc/%d/status", n.Life().PID()), "VmHWM"), "%f kB", &kb)
		most = max(most, kb*1024)
	}
	return most
}

// stop ends all servers and waits for them; one that does not end is killed, and that is reported.
func (s *servers) stop() error { return s.Stop(maxStop) }
