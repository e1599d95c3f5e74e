package fault

import (
	"fmt"
	"os/exec"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// Network is where processes live and how they reach each other.
type Network interface {
	// Place makes a place for a process. Names are used once.
	Place(name string) (*place, error)
	// cut swallows all packets from one place to another from now on, silently; mend undoes one cut. Cuts of one link
	// are counted.
	cut(from, to string) error
	mend(from, to string) error
	// shape makes one directed link bad until straighten is called, which returns the counts of the effects on its
	// packets. Shapes of one link add up.
	shape(from, to string, s shape) (straighten func() (check.LinkFigures, error), err error)
	// mendAll undoes all cuts and shapes.
	mendAll() error
	// parts reports whether cut works at all, shapes whether shape does.
	parts() bool
	shapes() bool
	Name() string
	Close()
}

// place is where one process lives.
type place struct {
	name, ip string
	// enter makes a command run there; nil runs it here.
	enter func(binary string, args []string) *exec.Cmd
	// ports are fixed if the place has a separate address.
	ports func() ([]int, error)
	// keeper manages the processes that run there; nil for children of this program.
	keeper keeper
}

func (p *place) command(binary string, args ...string) *exec.Cmd {
	if p.enter == nil {
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr = rig.Attributes()
		return cmd
	}
	return p.enter(binary, args)
}

// noShapes is part of a network whose links are good or cut, nothing between.
type noShapes struct{}

func (noShapes) shape(from, to string, _ shape) (func() (check.LinkFigures, error), error) {
	return nil, fmt.Errorf("the link from %s to %s cannot be made bad here", from, to)
}

func (noShapes) shapes() bool { return false }

// Loopback runs all processes on 127.0.0.1: no link can be cut or made bad. A proxy for each directed link would need a
// node to have another address for each peer; but it listens at the same addresses that it announces to all others, by
// one gossip.
type Loopback struct{ noShapes }

// Place returns a place on loopback, with separate ports.
func (Loopback) Place(name string) (*place, error) {
	return &place{name: name, ip: "127.0.0.1", ports: func() ([]int, error) { return freePorts(4) }}, nil
}

func (Loopback) cut(string, string) error { return fmt.Errorf("loopback cannot be cut") }

func (Loopback) mend(string, string) error { return nil }

func (Loopback) mendAll() error { return nil }

func (Loopback) parts() bool { return false }

// Name returns its name in the history.
func (Loopback) Name() string { return "loopback" }

// Close does nothing: nothing was made.
func (Loopback) Close() {}

// freePorts finds ports on loopback.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = rig.FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}
