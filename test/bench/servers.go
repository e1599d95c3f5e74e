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

// together is the size of the cluster that is measured, unless one is alone.
const together = 3

const (
	// readyMost bounds the wait until all serve, stopMost that until they have ended.
	readyMost = 5 * time.Minute
	stopMost  = time.Minute
	lookEvery = 100 * time.Millisecond
)

// servers are the processes that are measured.
type servers struct {
	rig.Nodes
	dir string
	// line is what their command lines begin with.
	line []string
	// shows is what a load has in its environment: the token that locked servers want.
	shows []string
}

// startServers starts a cluster of so many nodes in dir and waits until every one serves.
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

// servesProfiles reports whether a binary has to be asked for profiles: older ones do not know
// the flag, and serve them always.
func servesProfiles(ctx context.Context, rota string) bool {
	help, err := exec.CommandContext(ctx, rota, "server", "--help").Output()
	return err == nil && bytes.Contains(help, []byte("--pprof"))
}

func (s *servers) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMost)
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

// join starts one more node, which knows nothing, and waits until all serve.
func (s *servers) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMost)
	defer cancel()
	n, err := s.add()
	if err != nil {
		return err
	}
	return errors.Join(n.Start(), s.AwaitReady(ctx))
}

// restartAll kills every server as a power cut would and starts them again; it is done
// when all serve.
func (s *servers) restartAll(ctx context.Context) error {
	s.Kill()
	return s.start(ctx)
}

// peak is the most memory that a server ever had, mapped files and all, in bytes; 0 where
// the system does not say.
func (s *servers) peak() (most float64) {
	for _, n := range s.Nodes {
		var kb float64
		_, _ = fmt.Sscanf(field(fmt.Sprintf("/proc/%d/status", n.Life().PID()), "VmHWM"), "%f kB", &kb)
		most = max(most, kb*1024)
	}
	return most
}

// stop ends all servers and waits for them; one that does not end is killed, and said so.
func (s *servers) stop() error { return s.Stop(stopMost) }
