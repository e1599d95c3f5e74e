package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
)

// mesh maps names to layers that reach each other through memory.
type mesh map[string]*pipes

func newMesh() mesh { return mesh{} }

func (m mesh) layer(t *testing.T, id string, opts Options) *Layer {
	t.Helper()
	m[id] = &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	opts.Listen = func(string) (net.Listener, error) { return m[id], nil }
	opts.Dial = func(_ context.Context, address string) (net.Conn, error) {
		here, there := net.Pipe()
		m[address].conns <- there
		return here, nil
	}
	s, err := NewLayer(id, "host:1", func() Hello { return testHello(rota.NodeID(id)) }, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStreamTrust is row 17 of the hostile list, between nodes: a certificate that expires or is revoked ends the
// connections based on it, in both directions.
func TestStreamTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		life    time.Duration
		revoked time.Duration
		within  time.Duration
	}{
		"expired":    {life: 3 * time.Minute, within: 3*time.Minute + time.Second},
		"taken back": {life: time.Hour, revoked: 5 * time.Minute, within: 5*time.Minute + trustEvery + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := testAuthority(t)
				var revoked atomic.Bool
				mesh := newMesh()
				layer := func(id rota.NodeID) *Layer {
					opts := certified(t, ca, id, c.life)
					nodeOf := opts.NodeOf
					opts.NodeOf = func(state tls.ConnectionState) (rota.NodeID, error) {
						if revoked.Load() {
							return "", errors.New("its authority was withdrawn")
						}
						return nodeOf(state)
					}
					return mesh.layer(t, string(id), opts)
				}
				a, b := layer("a"), layer("b")
				began := time.Now()
				dialled, err := a.Dial("b", 5*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				accepted, err := b.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if c.revoked > 0 {
					time.AfterFunc(c.revoked, func() { revoked.Store(true) })
				}
				for what, conn := range map[string]interface{ Read([]byte) (int, error) }{"dialled": dialled,
					"accepted": accepted} {
					if _, err := conn.Read(make([]byte, 1)); err == nil {
						t.Errorf("%s: something was read", what)
					}
					if took := time.Since(began); took > c.within ||
						took < min(c.life, c.within-trustEvery-time.Second) {
						t.Errorf("%s: closed after %s", what, took)
					}
				}
				if a.Counts().Untrusted+b.Counts().Untrusted == 0 {
					t.Error("the refusal was not counted")
				}
			})
		})
	}
}
