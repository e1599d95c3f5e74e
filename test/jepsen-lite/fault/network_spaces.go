package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

// The roles of child processes of this program, which the environment selects.
const (
	RoleKey     = "ROTA_CHAOS_ROLE"
	RoleRouter  = "router"  // the run itself, in a network of its own
	roleHolder  = "holder"  // keeps a network alive
	roleEnter   = "enter"   // becomes another program in a holder's network
	RoleWorker  = "worker"  // works
	roleProbe   = "probe"   // tries whether networks can be made
	roleRemover = "remover" // removes containers once the run has ended
)

// spaces gives every process a network namespace, with this process's as the
// router between them. It must run as roleRouter.
type spaces struct {
	base int64
	rec  *check.Recorder
	mu   sync.Mutex
	// holders keep the namespaces alive; addresses are theirs by name.
	holders   []*exec.Cmd
	addresses map[string]string
	gates     map[string]gate
	cuts      map[link]*cutting
	// shaper is nil if links cannot be made bad; straighten makes all good again.
	shaper     *shaper
	straighten []func() (check.LinkFigures, error)
}

// gate is the router's end of a place.
type gate struct {
	place      *place
	pid, iface string
}

type link struct{ from, to string }

type cutting struct {
	times int
	begin int64
}

// rulePreference puts the blackholes before all other routing.
const rulePreference = "100"

// NewSpaces makes the router to which all namespaces connect.
func NewSpaces(rec *check.Recorder) (*spaces, error) {
	if err := ip("link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("forward packets: %w", err)
	}
	s := &spaces{rec: rec, addresses: make(map[string]string), gates: make(map[string]gate),
		cuts: make(map[link]*cutting)}
	var err error
	if s.shaper, err = openShaper(); err != nil {
		rec.Note("links are good or cut, none is slow or lossy: %v", err)
	}
	return s, nil
}

// ip runs iproute2's program here.
func ip(args ...string) error { return ipIn(nil, args...) }

func ipIn(p *place, args ...string) error {
	path, err := exec.LookPath("ip")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	if p != nil {
		cmd = p.command(path, args...)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s *spaces) Place(name string) (*place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := len(s.holders) + 1
	if number > 250 {
		return nil, errors.New("more than 250 networks in one run")
	}
	holder, err := startHolder()
	if err != nil {
		return nil, err
	}
	s.holders = append(s.holders, holder)
	pid := strconv.Itoa(holder.Process.Pid)
	p := &place{
		name: name, ip: fmt.Sprintf("10.211.%d.2", number),
		enter: func(binary string, args []string) *exec.Cmd {
			cmd := exec.Command("/proc/self/exe", append([]string{"/proc/" + pid + "/ns/net", binary}, args...)...)
			cmd.Env = rig.Inherited(RoleKey + "=" + roleEnter)
			cmd.SysProcAttr = rig.Attributes()
			return cmd
		},
		ports: func() ([]int, error) { return []int{6470, 6471, 6472, 6473}, nil },
	}
	here, router := fmt.Sprintf("v%d", number), fmt.Sprintf("10.211.%d.1", number)
	steps := []func() error{
		func() error { return ip("link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", pid) },
		func() error { return ip("addr", "add", router+"/24", "dev", here) },
		func() error { return ip("link", "set", here, "up") },
		func() error { return ipIn(p, "link", "set", "lo", "up") },
		func() error { return ipIn(p, "addr", "add", p.ip+"/24", "dev", "eth0") },
		func() error { return ipIn(p, "link", "set", "eth0", "up") },
		func() error { return ipIn(p, "route", "add", "default", "via", router) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.addresses[name], s.gates[name] = p.ip, gate{p, pid, here}
	return p, nil
}

// startHolder starts a process that has a network and waits for its input to end, so that it ends with this process, in
// whatever way.
func startHolder() (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), RoleKey+"="+roleHolder)
	cmd.SysProcAttr = networkAttributes()
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	return cmd, nil
}

// hold is the main function of a holder.
func hold() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	_, _ = os.Stdout.Write([]byte{'.'})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func (s *spaces) cut(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := link{from, to}
	if c := s.cuts[l]; c != nil {
		c.times++
		return nil
	}
	if err := s.rule("add", l); err != nil {
		return err
	}
	s.cuts[l] = &cutting{1, s.rec.Now()}
	return nil
}

func (s *spaces) mend(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := link{from, to}
	c := s.cuts[l]
	if c == nil {
		return nil
	}
	if c.times--; c.times > 0 {
		return nil
	}
	return s.mended(l)
}

func (s *spaces) mended(l link) error {
	c := s.cuts[l]
	delete(s.cuts, l)
	err := s.rule("del", l)
	end := s.rec.Now()
	s.rec.With(func(h *check.History) {
		h.Cuts = append(h.Cuts, check.Cut{From: l.from, To: l.to, Begin: c.begin, End: end})
	})
	return err
}

func (s *spaces) mendAll() error {
	all := s.straightenAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.cuts {
		all = errors.Join(all, s.mended(l))
	}
	return all
}

func (s *spaces) rule(verb string, l link) error {
	from, to := s.addresses[l.from], s.addresses[l.to]
	if from == "" || to == "" {
		return fmt.Errorf("no link from %s to %s", l.from, l.to)
	}
	return ip("rule", verb, "pref", rulePreference, "from", from, "to", to, "type", "blackhole")
}

func (s *spaces) parts() bool { return true }

func (s *spaces) Name() string { return "namespaces" }

// Close ends the holders; the kernel ends their networks and links.
func (s *spaces) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shaper != nil {
		_ = s.shaper.close()
		s.shaper = nil
	}
	for _, h := range s.holders {
		_ = h.Process.Kill()
		_ = h.Wait()
	}
	s.holders = nil
}

// CanMakeSpaces tries it with a child, which leaves nothing behind.
func CanMakeSpaces() error {
	if !namespacesKnown {
		return errors.New("not on this system")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), RoleKey+"="+roleProbe)
	cmd.SysProcAttr = routerAttributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// probe makes two networks and a cut.
func probe() error {
	s, err := NewSpaces(check.NewRecorder(check.Monotonic(), 0))
	if err != nil {
		return err
	}
	defer s.Close()
	for _, name := range []string{"a", "b"} {
		if _, err := s.Place(name); err != nil {
			return err
		}
	}
	if err := s.cut("a", "b"); err != nil {
		return err
	}
	return s.mendAll()
}

// AsRouter runs this program again as the router of its own network and returns its exit code.
func AsRouter(args []string) (int, error) {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), RoleKey+"="+RoleRouter)
	cmd.SysProcAttr = routerAttributes()
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
