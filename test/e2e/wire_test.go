package e2e

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/rotasched/rota/client"
)

// wire is a middlebox on the way to a node. When cut, it ends connections only on the node's side and reports nothing
// to the other, which keeps sending into the void; so do new connections.
type wire struct {
	to    string
	lis   net.Listener
	lives sync.WaitGroup

	mu    sync.Mutex
	isCut bool
	// near are the connections of workers, far those to the node.
	near, far []net.Conn
}

type wires []*wire

// wires creates one to each node.
func (c *nodes) wires(t testing.TB) (all wires) {
	t.Helper()
	for _, n := range c.all {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		w := &wire{to: n.API, lis: lis}
		accepting := make(chan struct{})
		go func() { defer close(accepting); w.accept() }()
		t.Cleanup(func() {
			_ = lis.Close()
			<-accepting
			w.shut(true, true)
			w.lives.Wait()
		})
		all = append(all, w)
	}
	return all
}

// dial makes a client that reaches the cluster only through these wires.
func (all wires) dial(t testing.TB) *client.Client {
	t.Helper()
	var addrs []string
	for _, w := range all {
		addrs = append(addrs, w.lis.Addr().String())
	}
	cl, err := client.Dial(addrs, client.WithInsecure())
	check(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// cut ends all connections on the nodes' side.
func (all wires) cut() {
	for _, w := range all {
		w.shut(false, true)
	}
}

// heal lets new connections through, and ends those that lead nowhere.
func (all wires) heal() {
	for _, w := range all {
		w.shut(true, false)
	}
}

// shut ends the connections of workers, or those to the node, which is then cut off.
func (w *wire) shut(near, far bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = far
	if near {
		for _, conn := range w.near {
			_ = conn.Close()
		}
	}
	if far {
		for _, conn := range w.far {
			_ = conn.Close()
		}
	}
}

func (w *wire) accept() {
	for {
		near, err := w.lis.Accept()
		if err != nil {
			return
		}
		far := w.join(near)
		w.lives.Go(func() { w.carry(near, far) })
	}
}

// join connects to the node; nil if that is cut off, or down.
func (w *wire) join(near net.Conn) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.near = append(w.near, near)
	if w.isCut {
		return nil
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return nil
	}
	w.far = append(w.far, far)
	return far
}

// carry copies bytes both ways until the node's side ends, and drops later bytes from the other side.
func (w *wire) carry(near, far net.Conn) {
	defer near.Close()
	if far != nil {
		w.lives.Go(func() {
			_, _ = io.Copy(near, far)
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.isCut {
				_ = near.Close() // the node ended it itself
			}
		})
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}
	_, _ = io.Copy(io.Discard, near)
}
