package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// poll is how often something observable is looked at.
const poll = 10 * time.Millisecond

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	path string
}

// rotaBinary is the rota with failpoints, built once, or taken from ROTA_CRASH_BINARY.
func rotaBinary(t *testing.T) string {
	built.once.Do(func() {
		if built.path = os.Getenv("ROTA_CRASH_BINARY"); built.path != "" {
			return
		}
		dir, err := os.MkdirTemp("", "rota-crash-")
		check(t, err)
		built.dir, built.path = dir, buildRota(t, dir, "-tags", "failpoints")
	})
	return built.path
}

func buildRota(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	path := filepath.Join(dir, "rota")
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "github.com/rotasched/rota/cmd/rota")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build rota: %v\n%s", err, said)
	}
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f gives nil, and fails the test with what it said last.
func eventually(t *testing.T, most time.Duration, what string, f func() error) {
	t.Helper()
	for end := time.Now().Add(most); ; time.Sleep(poll) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %v", what, most, err)
		}
	}
}

// transcript is what a process wrote, safe to read while it writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// node is one `rota server`, started many times on one directory.
type node struct {
	t                        *testing.T
	id, dir, order           string
	api, raft, admin, gossip string
	flags                    []string
	// account tells what the cluster does, for the text of a failure.
	account func() string

	cmd    *exec.Cmd
	said   *transcript
	exited chan struct{}
}

func newNode(t *testing.T, id string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, id: id, dir: filepath.Join(dir, id), order: filepath.Join(dir, "failpoint"), account: func() string { return "" }}
	for _, addr := range []*string{&n.api, &n.raft, &n.admin, &n.gossip} {
		*addr = freeAddress(t)
	}
	return n
}

// start starts the process; a point that was ordered before is armed in it.
func (n *node) start() {
	n.t.Helper()
	n.said, n.exited = &transcript{}, make(chan struct{})
	n.cmd = exec.Command(rotaBinary(n.t), append([]string{"server", "--node", n.id, "--data", n.dir, "--api", n.api, "--raft", n.raft,
		"--admin", n.admin, "--gossip", n.gossip, "--audit-retention", "2000"}, n.flags...)...)
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir(),
		"ROTA_FAILPOINT=@" + n.order, "ROTA_FAILPOINT_SNAPSHOTS=100"}
	n.cmd.Stderr, n.cmd.SysProcAttr = n.said, goesWithUs()
	check(n.t, n.cmd.Start())
	cmd, said, exited := n.cmd, n.said, n.exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if n.t.Failed() && said == n.said {
			n.t.Logf("%s said: %s", n.id, tail(said.String()))
		}
	})
}

func tail(text string) string {
	const most = 6000
	return text[max(0, len(text)-most):]
}

// armed has the node die at a point. The order is taken when it is in force.
func (n *node) arm(p point) {
	n.t.Helper()
	half := n.order + ".half"
	check(n.t, os.WriteFile(half, fmt.Appendf(nil, "%s:%d\n", p.name, p.passing), 0o600))
	check(n.t, os.Rename(half, n.order))
}

// diesAt waits for the death, and wants it to be that of the point.
func (n *node) diesAt(p point) {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(30 * time.Second):
		n.t.Fatalf("%s never died at %s: nothing passes that point; %s", n.id, p.name, n.account())
	}
	status, ok := n.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL || !strings.Contains(n.said.String(), "failpoint: "+p.name) {
		n.t.Fatalf("%s ended by itself (%s) before it came to %s:\n%s", n.id, n.cmd.ProcessState, p.name, tail(n.said.String()))
	}
}

// kill is SIGKILL and the wait for it.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// stop is SIGTERM, and the end must be a proper one.
func (n *node) stop() {
	n.t.Helper()
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(30 * time.Second):
		n.t.Fatalf("%s did not end after SIGTERM", n.id)
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("%s ended with exit code %d after SIGTERM", n.id, code)
	}
}

// ready asks /readyz.
func (n *node) ready() error {
	select {
	case <-n.exited:
		n.t.Fatalf("%s ended by itself (%s):\n%s", n.id, n.cmd.ProcessState, tail(n.said.String()))
	default:
	}
	asking := http.Client{Timeout: time.Second}
	answer, err := asking.Get("http://" + n.admin + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return nil
}

// audit replays the stopped node's log and recomputes every round.
func (n *node) audit() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, rotaBinary(n.t), "operator", "audit", "--data", n.dir).CombinedOutput()
	if err != nil {
		n.t.Errorf("the audit of what %s left: %v\n%s", n.id, err, said)
	}
}

// Ports are taken below those that the system gives to outgoing connections: a node
// that is down for a while keeps its own.
const (
	portLeast = 10_000
	portMost  = 30_000
)

var ports struct {
	sync.Mutex
	next int
}

// freeAddress gives a loopback address whose port is free for TCP and UDP.
func freeAddress(t *testing.T) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = portLeast + rand.IntN(portMost-portLeast)
	}
	for range portMost - portLeast {
		if ports.next++; ports.next >= portMost {
			ports.next = portLeast
		}
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		udp, err := net.ListenPacket("udp", addr)
		_ = tcp.Close()
		if err != nil {
			continue
		}
		_ = udp.Close()
		return addr
	}
	t.Fatal("no port is free")
	return ""
}
