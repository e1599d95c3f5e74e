//go:build linux

package fault

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// insideKey means that a test runs as the router of its own network.
const insideKey = "ROTA_CHAOS_INSIDE"

// TestBadLinks sends real packets over real bad links, in a network of its own.
func TestBadLinks(t *testing.T) {
	if os.Getenv(insideKey) != "" {
		liveLinks(t)
		return
	}
	if err := CanMakeSpaces(); err != nil {
		t.Skipf("cannot make networks here: %v", err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestBadLinks$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), insideKey+"=1")
	cmd.SysProcAttr = routerAttributes()
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("inside: %v: %s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("inside: %s", out)
	}
	t.Logf("%s", out)
}

func liveLinks(t *testing.T) {
	rec := check.NewRecorder(check.Monotonic(), 0)
	s, err := NewSpaces(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.shapes() {
		t.Skipf("no device for bad links here: %v", rec.H.Notes)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Place(name); err != nil {
			t.Fatal(err)
		}
	}
	b, c := echoAt(t, s, "b"), echoAt(t, s, "c")
	for _, part := range []struct {
		name string
		run  func(t *testing.T, s *spaces, b, c string)
	}{{"slow", liveSlow}, {"lossy", liveLossy}, {"reset", liveReset}, {"cut_while_slow", liveCut}} {
		t.Run(part.name, func(t *testing.T) { part.run(t, s, b, c) })
	}
	if err := s.mendAll(); err != nil {
		t.Errorf("repair all: %v", err)
	}
	if out, err := exec.Command("ip", "rule").CombinedOutput(); err != nil ||
		strings.Contains(string(out), shapeTable) {
		t.Errorf("rules are left after all links were repaired: %v %s", err, out)
	}
}

// liveSlow: packets over the slow link wait, others do not, and all data is complete.
func liveSlow(t *testing.T, s *spaces, b, c string) {
	slow, other := dialFrom(t, s, "a", b), dialFrom(t, s, "a", c)
	good := roundTrip(t, slow)
	end := shapeOf(t, s, "a", "b", shape{delay: 150 * time.Millisecond, jitter: 20 * time.Millisecond})
	for range 10 {
		if took := roundTrip(t, slow); took < good+100*time.Millisecond {
			t.Errorf("a round trip over the slow link took %s, %s when it was good", took, good)
		}
	}
	if took := roundTrip(t, other); took > 100*time.Millisecond {
		t.Logf("a round trip over a link that is not slow took %s: the machine is busy", took)
	}
	f := end()
	t.Logf("round trip %s on a good link; %v", good, f)
	if _, err := exec.LookPath("ss"); f.Packets < 10 || err == nil && f.RoundTripMs < 50 {
		t.Errorf("the link reports %+v", f)
	}
	if took := roundTrip(t, slow); took > 100*time.Millisecond+good {
		t.Logf("a round trip over the repaired link took %s: the machine is busy", took)
	}
	if f2 := end(); f2 != f {
		t.Errorf("repaired twice it reports %+v and %+v", f, f2)
	}
}

// liveLossy: a megabyte arrives complete, some of it was sent more than once.
func liveLossy(t *testing.T, s *spaces, b, _ string) {
	conn := dialFrom(t, s, "a", b)
	end := shapeOf(t, s, "a", "b", shape{lose: 100, twice: 50, early: 100, delay: 2 * time.Millisecond})
	const size = 1 << 20
	go func() {
		for i := range size / 1024 {
			if _, err := conn.Write(append([]byte(strings.Repeat(string(rune('a'+i%26)), 1023)), '\n')); err != nil {
				return
			}
		}
	}()
	r := bufio.NewReader(conn)
	for i := range size / 1024 {
		row, err := r.ReadString('\n')
		if err != nil || len(row) != 1024 || row[0] != byte('a'+i%26) {
			t.Fatalf("row %d is %d bytes: %v", i, len(row), err)
		}
	}
	f := end()
	t.Logf("%v", f)
	if f.Lost == 0 || f.Twice == 0 || f.Early == 0 || f.Retransmitted == 0 {
		t.Errorf("the link reports %+v, want losses, doubles, early packets and repeats", f)
	}
}

// liveReset: both ends learn that the connection no longer exists, new ones cannot be made, and others live on.
func liveReset(t *testing.T, s *spaces, b, c string) {
	conn, other := dialFrom(t, s, "a", b), dialFrom(t, s, "a", c)
	roundTrip(t, conn)
	end := shapeOf(t, s, "a", "b", shape{reset: 1000})
	if _, err := conn.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that was reset ends with %v", err)
	}
	if conn, err := dial(s, "a", b); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection is %v, error %v: it should be refused", conn, err)
	}
	roundTrip(t, other)
	if f := end(); f.Resets < 2 {
		t.Errorf("the link reports %+v", f)
	}
	roundTrip(t, dialFrom(t, s, "a", b))
}

// liveCut: a cut takes precedence over a shape, and each is ended separately.
func liveCut(t *testing.T, s *spaces, b, _ string) {
	conn := dialFrom(t, s, "a", b)
	first := shapeOf(t, s, "a", "b", shape{delay: 50 * time.Millisecond})
	second := shapeOf(t, s, "a", "b", shape{delay: 50 * time.Millisecond})
	if took := roundTrip(t, conn); took < 100*time.Millisecond {
		t.Errorf("a round trip over a link that is slow twice took %s", took)
	}
	if err := s.cut("a", "b"); err != nil {
		t.Fatal(err)
	}
	first()
	if _, err := conn.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("over a cut link came %d bytes, error %v", n, err)
	}
	if err := s.mend("a", "b"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
		t.Errorf("over the repaired link: %v", err)
	}
	if took := roundTrip(t, conn); took < 50*time.Millisecond {
		t.Errorf("a round trip over a link that is still slow took %s", took)
	}
	second()
}

func shapeOf(t *testing.T, s *spaces, from, to string, bad shape) func() check.LinkFigures {
	t.Helper()
	end, err := s.shape(from, to, bad)
	if err != nil {
		t.Fatal(err)
	}
	return func() check.LinkFigures {
		t.Helper()
		f, err := end()
		if err != nil {
			t.Errorf("straighten: %v", err)
		}
		return f
	}
}

// roundTrip measures the time of an echo.
func roundTrip(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	if _, err := conn.Write([]byte("ping\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

// echoAt serves in a place and returns the address.
func echoAt(t *testing.T, s *spaces, name string) string {
	t.Helper()
	var lis net.Listener
	err := inPlace(s, name, func() (err error) {
		lis, err = net.Listen("tcp4", net.JoinHostPort(s.addresses[name], "7000"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return lis.Addr().String()
}

func dialFrom(t *testing.T, s *spaces, name, address string) net.Conn {
	t.Helper()
	conn, err := dial(s, name, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func dial(s *spaces, name, address string) (conn net.Conn, err error) {
	err = inPlace(s, name, func() error {
		conn, err = net.DialTimeout("tcp4", address, 20*time.Second)
		return err
	})
	return conn, err
}

// inPlace makes sockets in a place: a socket stays in the network in which it was made. The thread enters it and comes
// back; it may not end there instead, since all children that it has started would end with it (rig.Attributes).
func inPlace(s *spaces, name string, make func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/proc/" + s.gates[name].pid + "/ns/net")
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	made := make()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // everything after it would be in the wrong place
	}
	runtime.UnlockOSThread()
	return made
}
