package fault

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// seat is one container: the keeper of the process in it, and its plug.
type seat struct {
	name, ip, container, network string
	rec                          *check.Recorder

	mu sync.Mutex
	// last is the last start of the container, in the engine's format.
	last string
	// unplugs counts the callers that want it disconnected; off means that it is, since then.
	unplugs int
	off     bool
	since   int64
}

const (
	// maxStarts is how long the engine may take to start a container.
	maxStarts = 30 * time.Second
	// maxBound is how long to wait for a node that just started while holding the plug.
	maxBound = time.Second
)

// errNotUp is the reason why a container was left alone.
var errNotUp = errors.New("it does not listen yet")

// ready puts the plug in: a machine that boots has its network. A node binds to its own name, as docker-compose.yml
// specifies, which a disconnected container lacks; such a node would end by itself, over and over, and reveal nothing
// about the product.
func (s *seat) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(); err != nil {
		return err
	}
	last, err := s.startedAt()
	s.last = last
	return err
}

// started waits until the engine reports the container running, or already over: only then signals reach it.
func (s *seat) started() error {
	for end := time.Now().Add(maxStarts); ; time.Sleep(20 * time.Millisecond) {
		at, err := s.startedAt()
		if err != nil {
			return err
		}
		if at != s.last {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the engine has not started %s in %s", s.container, maxStarts)
		}
	}
}

func (s *seat) startedAt() (string, error) {
	return docker("container", "inspect", "--format", "{{.State.StartedAt}}", s.container)
}

// tell makes the engine do to the container the same as a signal does to a process.
func (s *seat) tell(what syscall.Signal) error {
	var err error
	switch what {
	case syscall.SIGSTOP:
		_, err = docker("pause", s.container)
	case syscall.SIGCONT:
		_, err = docker("unpause", s.container)
	default:
		_, err = docker("kill", "--signal", strconv.Itoa(int(what)), s.container)
	}
	return err
}

// unplug disconnects the container. A starting node is left alone: one that has not bound to its name yet no longer
// could.
func (s *seat) unplug() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.off {
		if s.name[0] == 'n' && !s.bound() {
			return errNotUp
		}
		since := s.rec.Now()
		if _, err := docker("network", "disconnect", s.network, s.container); err != nil {
			return err
		}
		s.off, s.since = true, since
	}
	s.unplugs++
	return nil
}

// bound reports whether the node accepts connections on all its listeners beyond its own loopback.
func (s *seat) bound() bool {
	end := time.Now().Add(maxBound)
	for _, port := range []int{nodePorts[0], nodePorts[1], nodePorts[3]} {
		for {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(s.ip, strconv.Itoa(port)), time.Until(end))
			if err == nil {
				_ = conn.Close()
				break
			}
			if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
				return false
			}
		}
	}
	return true
}

// plug undoes one unplug.
func (s *seat) plug() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unplugs > 0 {
		s.unplugs--
	}
	if s.unplugs > 0 {
		return nil
	}
	return s.connect()
}

func (s *seat) plugAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unplugs = 0
	return s.connect()
}

// connect reconnects the container to its network, with its earlier name and address.
func (s *seat) connect() error {
	if !s.off {
		return nil
	}
	_, err := docker("network", "connect", "--ip", s.ip, "--alias", s.name, s.network, s.container)
	if err != nil {
		return err
	}
	s.off = false
	cut := check.Cut{From: s.name, To: "all", Begin: s.since, End: s.rec.Now()}
	s.rec.With(func(h *check.History) { h.Cuts = append(h.Cuts, cut) })
	return nil
}
