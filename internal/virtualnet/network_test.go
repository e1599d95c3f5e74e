package virtualnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// wire joins two hosts, and returns both ends.
func wire(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	if near, err = n.Dial(context.Background(), "a", "b:1"); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// send writes a word and returns when the other end has read it; 0 if not within a minute.
func send(t *testing.T, from, to net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := from.Write([]byte("word")); err != nil {
		t.Fatal(err)
	}
	if err := to.SetReadDeadline(began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(to, b); errors.Is(err, os.ErrDeadlineExceeded) {
		return 0
	} else if err != nil || string(b) != "word" {
		t.Fatalf("read %q: %v", b, err)
	}
	return time.Since(began)
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, n *Network){
		"a cut holds one direction, and loses nothing": func(t *testing.T, n *Network) {
			near, far := wire(t, n)
			heal := n.Cut(Route{"a", "b"})
			if took := send(t, far, near); took == 0 || took > time.Second {
				t.Errorf("the other direction took %s", took)
			}
			time.AfterFunc(10*time.Second, heal)
			if took := send(t, near, far); took < 10*time.Second || took > 11*time.Second {
				t.Errorf("across the cut it took %s", took)
			}
		},
		"a slow link delays": func(t *testing.T, n *Network) {
			near, far := wire(t, n)
			heal := n.Slow(Route{"a", "b"}, 3*time.Second)
			if took := send(t, near, far); took < 3*time.Second {
				t.Errorf("it took %s", took)
			}
			heal()
			if took := send(t, near, far); took > time.Second {
				t.Errorf("healed, it took %s", took)
			}
		},
		"sent data can be read after a close": func(t *testing.T, n *Network) {
			near, far := wire(t, n)
			_, _ = near.Write([]byte("last"))
			_ = near.Close()
			if b, err := io.ReadAll(far); string(b) != "last" || err != nil {
				t.Errorf("read %q, %v", b, err)
			}
		},
		"a crash resets": func(t *testing.T, n *Network) {
			near, far := wire(t, n)
			n.Crash("b", false)
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, errReset) {
				t.Errorf("the other end read %v", err)
			}
			if _, err := far.Write([]byte("x")); !errors.Is(err, errCrashed) {
				t.Errorf("the crashed end wrote: %v", err)
			}
			if _, err := n.Dial(context.Background(), "a", "b:1"); !errors.Is(err, errRefused) {
				t.Errorf("dialled a crashed host: %v", err)
			}
		},
		"a silent crash sends nothing until the host is back": func(t *testing.T, n *Network) {
			near, _ := wire(t, n)
			n.Crash("b", true)
			_ = near.SetReadDeadline(time.Now().Add(time.Hour))
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the other end read %v", err)
			}
			n.Revive("b")
			_ = near.SetReadDeadline(time.Time{})
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, errReset) {
				t.Errorf("then it read %v", err)
			}
		},
		"a dial across a cut ends with its context": func(t *testing.T, n *Network) {
			defer n.Cut(Route{"b", "a"})()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := n.Dial(ctx, "a", "b:1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dialled: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, New(1)) })
		})
	}
}
