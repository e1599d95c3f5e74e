package transport

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// everything is the table of a core without one: every caller has all rights.
type everything struct{}

func (everything) Prove(c access.Credential, _ rota.Date) (rota.Principal, error) {
	return rota.TokenPrincipal(c.ID), nil
}

func (everything) Rights(rota.Principal, rota.Date) (*access.Rights, error) {
	all := access.AllRights()
	return &all, nil
}

func (everything) Token(string) (rota.AccessToken, bool) { return rota.AccessToken{}, false }

func (everything) Issuer(string) (rota.Issuer, bool) { return rota.Issuer{}, false }

func (c *fakeCore) Access() access.Table {
	if c.tables != nil {
		return c.tables
	}
	if t := c.table.Load(); t != nil {
		if until := c.until.Load(); until != 0 {
			return endingTable{t, rota.Date(until)}
		}
		return t
	}
	return everything{}
}

func (c *fakeCore) setTable(t *rightsTable) { c.table.Store(t) }

func coreWith(t *rightsTable) *fakeCore {
	c := &fakeCore{}
	c.setTable(t)
	return c
}

// frame writes one HTTP/2 frame.
func frame(t *testing.T, conn net.Conn, kind, flags byte, stream uint32, body []byte) {
	t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	if _, err := conn.Write(append(head, body...)); err != nil {
		t.Fatal(err)
	}
}

// TestHalfMessages checks that calls without a credential whose messages never end hold no memory.
func TestHalfMessages(t *testing.T) {
	const (
		calls         = 600
		part          = 128 << 10
		data, headers = 0, 1
		settings      = 4
		ping          = 6
	)
	b := setup(t)
	b.core.setTable(&rightsTable{})
	conn, err := b.lis.DialContext(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answered := make(chan struct{})
	go awaitPing(conn, ping, answered)
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	frame(t, conn, settings, 0, 0, nil)
	var fields []byte
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/rota.v1.Jobs/Submit"},
		{":authority", "n1"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		fields = append(append(append(fields, 0, byte(len(f[0]))), f[0]...), byte(len(f[1])))
		fields = append(fields, f[1]...)
	}
	message := append([]byte{0, 0, 16, 0, 0}, make([]byte, part)...) // of 1 MiB
	before := heap()
	for i := range uint32(calls) {
		frame(t, conn, headers, 4, 2*i+1, fields)
		for left := message; len(left) > 0; left = left[min(len(left), 16<<10):] {
			frame(t, conn, data, 0, 2*i+1, left[:min(len(left), 16<<10)])
		}
	}
	frame(t, conn, ping, 0, 0, make([]byte, 8))
	<-answered
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d half messages hold %d MiB", calls, grown>>20)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// awaitPing reads frames until a ping is answered, or the connection ends.
func awaitPing(conn io.Reader, ping byte, answered chan<- struct{}) {
	defer close(answered)
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		if head[3] == ping && head[4] == 1 {
			return
		}
	}
}
