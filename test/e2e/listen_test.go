package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// occupied returns an address on which this test listens until its end.
func occupied(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = lis.Close() })
	return lis.Addr().String()
}

// A port that another process uses ends the process that needs it, at once and by itself, regardless of anything it
// would have waited for: with the flag, the address and the remedy.
func TestPort_taken(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"api", "raft", "admin", "gossip"} {
		t.Run("server_"+flag, func(t *testing.T) {
			t.Parallel()
			taken := occupied(t)
			n := newNode(t, "n1", "--bootstrap-expect", "3", "--join", freeAddress(t))
			*map[string]*string{"api": &n.API, "raft": &n.Raft, "admin": &n.Admin, "gossip": &n.Gossip}[flag] = taken
			n.start(t)
			portRefused(t, n.process, "--"+flag, taken)
		})
	}
	t.Run("server_two_flags_one_port", func(t *testing.T) {
		t.Parallel()
		n := newNode(t, "n1", "--bootstrap-expect", "1")
		n.Admin = n.Raft
		n.start(t)
		portRefused(t, n.process, "--admin", n.Raft)
	})
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		taken := occupied(t)
		portRefused(t, launch(t, "dev", nil, "dev", "--api", taken), "--api", taken)
	})
	t.Run("dev_in_the_background", func(t *testing.T) {
		t.Parallel()
		taken := occupied(t)
		portRefused(t, launch(t, "dev", nil, "dev", "--background", "--api", taken), "--api", taken)
	})
}

func portRefused(t *testing.T, p *process, flag, taken string) {
	t.Helper()
	if code := p.end(t, 20*time.Second); code != 1 || p.Stdout.String() != "" {
		t.Errorf("exit code %d, stdout %q; want 1 and nothing", code, p.Stdout.String())
	}
	contains(t, "stderr", p.Stderr.String(), "rota: ", flag+" "+taken, "taken", "another port")
}

// saysSoon waits until stderr has all of these words: it arrives by another pipe than stdout, no sooner.
func saysSoon(t testing.TB, p *process, words ...string) {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("stderr has %q", words), func() error {
		for _, word := range words {
			if !strings.Contains(p.Stderr.String(), word) {
				return errNotYet
			}
		}
		return nil
	})
}

// devReady waits for the line with the addresses of a dev cluster, and returns them.
func devReady(t testing.TB, p *process) []string {
	t.Helper()
	eventually(t, 60*time.Second, "dev is ready", func() error {
		if !p.Running() {
			t.Fatalf("dev ended with exit code %d", p.ExitCode())
		}
		if !strings.HasSuffix(p.Stdout.String(), "\n") {
			return errNotYet
		}
		return nil
	})
	line := strings.TrimSuffix(p.Stdout.String(), "\n")
	addrs, ok := strings.CutPrefix(line, "ready addr=")
	if !ok || strings.Contains(line, "\n") {
		t.Fatalf("dev printed %q, want one line ready addr=H:P,H:P,H:P", p.Stdout.String())
	}
	return strings.Split(addrs, ",")
}

// A dev cluster whose remembered addresses were occupied meanwhile comes back at others, with its data, and prints
// which.
func TestDev_moves_from_taken_ports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Ports that no connection gets by itself: the ports that dev finds may be another's once it stops.
	var given []map[string]string
	for range 3 {
		given = append(given, map[string]string{"api": freeAddress(t), "raft": freeAddress(t), "admin": freeAddress(t),
			"gossip": freeAddress(t)})
	}
	text, err := json.Marshal(given)
	check(t, err)
	writeFile(t, filepath.Join(dir, "dev.json"), string(text))
	p := launch(t, "dev", nil, "dev", "--data", dir)
	addrs := devReady(t, p)
	for i := range addrs {
		saysSoon(t, p, fmt.Sprintf("node n%d: clients ", i+1), "http://127.0.0.1:")
	}
	command(t, []string{"ROTA_ADDR=" + addrs[1]}, "", "job", "submit", "--type", "x", "--id", "stays").want(t, 0)
	p.stop(t, 20*time.Second)

	text, err = os.ReadFile(filepath.Join(dir, "dev.json"))
	check(t, err)
	var ports []map[string]string
	check(t, json.Unmarshal(text, &ports))
	var taken []string
	for _, addr := range []string{ports[0]["api"], ports[1]["raft"], ports[2]["gossip"], ports[2]["admin"]} {
		lis, err := net.Listen("tcp", addr)
		check(t, err)
		t.Cleanup(func() { _ = lis.Close() })
		taken = append(taken, addr+" is taken")
	}
	p = launch(t, "dev again", nil, "dev", "--data", dir)
	again := devReady(t, p)
	saysSoon(t, p, taken...)
	if again[0] == addrs[0] || again[1] != addrs[1] {
		t.Errorf("dev came back at %v, it was at %v, whose first is in use", again, addrs)
	}
	command(t, []string{"ROTA_ADDR=" + again[0]}, "", "job", "show", "stays").want(t, 0)
	p.stop(t, 20*time.Second)
}

// A cluster in the background that got another port than requested prints that where the command was run, not only in
// its log.
func TestDev_in_the_background_moved(t *testing.T) {
	t.Parallel()
	dir, taken := t.TempDir(), occupied(t)
	writeFile(t, filepath.Join(dir, "dev.json"), `[{"api": "`+taken+`"}]`)
	r := command(t, nil, "", "dev", "--background", "--nodes", "1", "--data", dir).want(t, 0)
	_, tail, _ := strings.Cut(r.stdout, "ROTA_ADDR=")
	addr, _, _ := strings.Cut(tail, " ")
	_, number, _ := strings.Cut(strings.TrimSpace(tail), "ROTA_DEV_PID=")
	pid, err := strconv.Atoi(number)
	check(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	contains(t, "stderr", r.stderr, taken+" is taken by another process: "+addr+" stands in for it", "--addr "+addr)
}

// `dev --background` ends once the cluster serves, and prints the settings that a shell needs.
func TestDev_in_the_background(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "", "dev", "--background", "--nodes", "1", "--api", freeAddress(t)).want(t, 0)
	var addr string
	pid := 0
	for _, word := range strings.Fields(strings.TrimPrefix(r.stdout, "export ")) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "ROTA_ADDR":
			addr = value
		case "ROTA_DEV_PID":
			pid, _ = strconv.Atoi(value)
		}
	}
	if pid == 0 || addr == "" {
		t.Fatalf("it printed %q, want ROTA_ADDR and ROTA_DEV_PID", r.stdout)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	command(t, []string{"ROTA_ADDR=" + addr}, "", "cluster", "status").want(t, 0)
	check(t, syscall.Kill(pid, syscall.SIGTERM))
	eventually(t, 20*time.Second, "the cluster is gone", func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return errNotYet
	})
}
