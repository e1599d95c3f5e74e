package fault

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// containers places every node and worker in a container on a separate Docker network of this run. Faults are the
// engine's operations on a container: it is killed, paused, and disconnected from its network, completely and in both
// directions. Nodes are those of the repository's docker-compose.yml, and a second file adds what it lacks for this run
// (network_containers_compose.go). This program and its users run on the host, which is on the same network, so a
// container that is disconnected is so for them, too.
type containers struct {
	noShapes
	project string
	keep    string
	subnet  netip.Prefix
	compose *composition
	rec     *check.Recorder
	remover *remover

	mu    sync.Mutex
	seats map[string]*seat
}

// maxEngine bounds one operation of the engine.
const maxEngine = time.Minute

// docker runs a command of the engine.
func docker(args ...string) (string, error) { return engine(append([]string{"docker"}, args...), nil) }

// engine runs a program of the engine with additional environment variables.
func engine(words, environ []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxEngine)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = rig.Inherited(environ...)
	cmd.SysProcAttr = rig.Attributes()
	var said, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), errors.Join(err, ctx.Err()),
			check.Short(strings.TrimSpace(failed.String())))
	}
	return strings.TrimSpace(said.String()), nil
}

// CanUseContainers checks for compose and for an engine on this host, whose clock and network are ours. It returns
// compose's command.
func CanUseContainers() ([]string, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("containers share this host's clock and network on Linux only")
	}
	system, err := docker("version", "--format", "{{.Server.Os}}")
	if err != nil {
		return nil, fmt.Errorf("no Docker engine answers: %w", err)
	}
	if system != "linux" {
		return nil, fmt.Errorf("the Docker engine's containers are of %s", system)
	}
	all := errors.New("no docker compose is installed")
	for _, words := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		_, err := engine(append(words[:len(words):len(words)], "version"), nil)
		if err == nil {
			return words, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// NewContainers makes the images, the network and the containers, none of them started. All of them are removed when
// this program ends, in whatever way.
func NewContainers(o Options, rec *check.Recorder) (_ *containers, err error) {
	words, err := CanUseContainers()
	if err != nil {
		return nil, err
	}
	k := &containers{
		project: fmt.Sprintf("rota-chaos-%d-%d", os.Getpid(), o.Seed), keep: o.Keep, rec: rec,
		seats: make(map[string]*seat),
	}
	if k.remover, err = startRemover(k.project); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if k.subnet, err = freeSubnet(k.project); err != nil {
		return nil, err
	}
	if k.compose, err = newComposition(words, k, o); err != nil {
		return nil, err
	}
	var names []string
	for i := range o.Nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	for i := range o.Workers {
		names = append(names, fmt.Sprintf("w%d", i+1))
	}
	return k, k.compose.create(names...)
}

// freeSubnet makes the engine choose a subnet: it knows its other networks and the host's routes. A container that
// comes back must have its earlier address, and addresses can be requested only in a subnet that was given.
func freeSubnet(project string) (netip.Prefix, error) {
	name := project + "-probe"
	if _, err := docker("network", "create", "--label", projectLabel+"="+project, name); err != nil {
		return netip.Prefix{}, err
	}
	text, err := docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", name)
	if _, rerr := docker("network", "rm", name); err != nil || rerr != nil {
		return netip.Prefix{}, errors.Join(err, rerr)
	}
	subnet, err := netip.ParsePrefix(text)
	if err == nil && (!subnet.Addr().Is4() || subnet.Bits() > 24) {
		err = fmt.Errorf("the engine's subnet %s is too small", subnet)
	}
	return subnet, err
}

// address returns the address of n3 or w2, for example.
func (k *containers) address(name string) string {
	number, _ := strconv.Atoi(name[1:]) // names are a letter and a number
	b := k.subnet.Masked().Addr().As4()
	b[3] += byte(10 + number)
	if name[0] == 'w' {
		b[3] += 100
	}
	return netip.AddrFrom4(b).String()
}

func (k *containers) container(name string) string { return k.project + "-" + name }

func (k *containers) Place(name string) (*place, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &seat{name: name, ip: k.address(name), container: k.container(name), network: k.compose.network(), rec: k.rec}
	if _, err := docker("container", "inspect", "--format", "{{.Id}}", s.container); err != nil {
		if err := k.compose.create(name); err != nil { // a node that a nemesis adds
			return nil, err
		}
	}
	k.seats[name] = s
	p := &place{name: name, ip: s.ip, keeper: s, ports: func() ([]int, error) { return nodePorts, nil }}
	p.enter = func(string, []string) *exec.Cmd {
		args := []string{"start", "--attach", s.container}
		if name[0] == 'w' { // it receives its role on its input
			args = []string{"start", "--attach", "--interactive", s.container}
		}
		cmd := exec.Command("docker", args...)
		cmd.SysProcAttr = rig.Attributes()
		return cmd
	}
	return p, nil
}

// nodePorts are client, raft, admin and gossip in docker-compose.yml.
var nodePorts = []int{6470, 6471, 6472, 6473}

func (k *containers) seat(name string) (*seat, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.seats[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%s has no container", name)
}

// unplug disconnects a container from its network, plug undoes that once.
func (k *containers) unplug(name string) error {
	s, err := k.seat(name)
	if err != nil {
		return err
	}
	return s.unplug()
}

func (k *containers) plug(name string) error {
	s, err := k.seat(name)
	if err != nil {
		return err
	}
	return s.plug()
}

func (k *containers) mendAll() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all error
	for _, s := range k.seats {
		all = errors.Join(all, s.plugAll())
	}
	return all
}

// The engine cannot cut a single link.
func (*containers) cut(from, to string) error {
	return fmt.Errorf("the link from %s to %s cannot be cut: a container is disconnected whole", from, to)
}

func (*containers) mend(string, string) error { return nil }

func (*containers) parts() bool { return false }

func (*containers) Name() string { return check.NetworkOfContainers }

func (k *containers) Close() {
	if err := k.remover.finish(); err != nil {
		check.Say("containers of %s were not all removed: %v", k.project, err)
	}
}

// PrepareContainers builds this program for the workers' image: the running one may need a C library, or be a test.
func PrepareContainers(keep string) error {
	if _, err := CanUseContainers(); err != nil {
		return err
	}
	_, err := rig.BuildPackage(keep, "github.com/rotasched/rota/test/jepsen-lite")
	return err
}

// workerBinary returns the path of that build.
func workerBinary(keep string) string { return filepath.Join(keep, "jepsen-lite") }
