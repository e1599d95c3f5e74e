package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	apis, admins []string
	processes    []*process

	rota, dir string
	// prefix is what the servers' command lines begin with, gossips where they meet.
	prefix, gossips []string
}

type process struct {
	cmd *exec.Cmd
	// args are those of its command line, for another start.
	args []string
	log  string
	// ended is closed once err holds what became of it.
	ended chan struct{}
	err   error
}

// startServers starts a cluster of so many nodes in dir and waits until every one serves.
func startServers(ctx context.Context, rota, dir string, nodes int, prefix []string) (*servers, error) {
	ports, err := freePorts(4 * nodes)
	if err != nil {
		return nil, err
	}
	s := &servers{rota: rota, dir: dir, prefix: prefix}
	for i := range nodes {
		s.gossips = append(s.gossips, ports[4*i+3])
	}
	for i := range nodes {
		if err := s.add(ports[4*i:], "--bootstrap-expect", fmt.Sprint(nodes)); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// join starts one more node, which knows nothing, and does not wait for it.
func (s *servers) join() error {
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	return s.add(ports)
}

// add starts the next node at four ports: api, raft, admin, gossip.
func (s *servers) add(ports []string, more ...string) error {
	id := fmt.Sprintf("n%d", len(s.processes)+1)
	args := append([]string{"server", "--node", id, "--data", filepath.Join(s.dir, id),
		"--api", ports[0], "--raft", ports[1], "--admin", ports[2], "--gossip", ports[3]}, more...)
	for _, other := range s.gossips {
		if other != ports[3] {
			args = append(args, "--join", other)
		}
	}
	p, err := s.launch(filepath.Join(s.dir, id+".log"), args)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.apis, s.admins = append(s.apis, ports[0]), append(s.admins, ports[2])
	return nil
}

func (s *servers) launch(log string, args []string) (*process, error) {
	line := append(append(append([]string(nil), s.prefix...), s.rota), args...)
	p, err := startProcess(log, line[0], line[1:]...)
	if err == nil {
		p.args = args
	}
	return p, err
}

// restartAll kills every server as a power cut would and starts them again; it is done
// when all serve.
func (s *servers) restartAll(ctx context.Context) error {
	for _, p := range s.processes {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	for i, p := range s.processes {
		again, err := s.launch(p.log, p.args)
		if err != nil {
			return err
		}
		s.processes[i] = again
	}
	return s.ready(ctx)
}

// peak is the most memory that a server ever had, mapped files and all, in bytes; 0 where
// the system does not say.
func (s *servers) peak() (most float64) {
	for _, p := range s.processes {
		var kb float64
		_, _ = fmt.Sscanf(field(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), "VmHWM"), "%f kB", &kb)
		most = max(most, kb*1024)
	}
	return most
}

// freePorts gives addresses that were free a moment ago, for TCP.
func freePorts(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until all are known, so that none comes twice
		all = append(all, l.Addr().String())
	}
	return all, nil
}

func startProcess(log, name string, args ...string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the process has its own
	p := &process{cmd: exec.Command(name, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(p.ended); p.err = p.cmd.Wait() }()
	return p, nil
}

// ready waits until every node says that it serves, or one ended.
func (s *servers) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMost)
	defer cancel()
	for i, admin := range s.admins {
		for !serves(ctx, admin) {
			select {
			case <-s.processes[i].ended:
				return fmt.Errorf("a server ended: %v\n%s", s.processes[i].err, s.processes[i].lastWords())
			case <-ctx.Done():
				return fmt.Errorf("a server does not serve: %w\n%s", ctx.Err(), s.processes[i].lastWords())
			case <-time.After(lookEvery):
			}
		}
	}
	return nil
}

func serves(ctx context.Context, admin string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// lastWords are the last lines of a server's log.
func (p *process) lastWords() string {
	b, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// stop ends all servers and waits for them; one that does not end is killed, and said so.
func (s *servers) stop() (err error) {
	for _, p := range s.processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.NewTimer(stopMost)
	defer late.Stop()
	for _, p := range s.processes {
		select {
		case <-p.ended:
			if p.err != nil {
				err = errors.Join(err, fmt.Errorf("a server ended with %w\n%s", p.err, p.lastWords()))
			}
		case <-late.C:
			late.Reset(0) // the others have had as long
			_ = p.cmd.Process.Kill()
			<-p.ended
			err = errors.Join(err, fmt.Errorf("a server did not end within %s\n%s", stopMost, p.lastWords()))
		}
	}
	return err
}
