package stream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// rawDial connects without a handshake.
func rawDial(t *testing.T, to *Layer) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.BoundAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// wantClosed reads until the other side closes.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection was left open")
	}
}

func TestStreamLayerHostile(t *testing.T) {
	t.Parallel()

	t.Run("random bytes", func(t *testing.T) {
		t.Parallel()
		b := newTestLayer(t, testHello("b"), Options{})
		for range 50 {
			conn := rawDial(t, b)
			junk := make([]byte, 1+rand.IntN(2000))
			for i := range junk {
				junk[i] = byte(rand.Uint32())
			}
			if rand.IntN(2) == 0 { // with a valid beginning
				junk = append(slices.Clone(helloMagic[:]), junk...)
			}
			_, _ = conn.Write(junk)
			_ = conn.(*net.TCPConn).CloseWrite()
			wantClosed(t, conn)
		}
		if b.Counts().Accepted != 0 {
			t.Errorf("counts %+v", b.Counts())
		}
	})

	t.Run("a slow one is cut off and blocks no other", func(t *testing.T) {
		t.Parallel()
		b := newTestLayer(t, testHello("b"), Options{HandshakeTimeout: 2 * time.Second, MaxInbound: 4})
		var slow []net.Conn
		for range 12 {
			conn := rawDial(t, b)
			_, _ = conn.Write(helloMagic[:3])
			slow = append(slow, conn)
		}
		connect(t, newTestLayer(t, testHello("a"), Options{}), b)
		for _, conn := range slow {
			wantClosed(t, conn)
		}
	})

	t.Run("a huge hello", func(t *testing.T) {
		t.Parallel()
		b := newTestLayer(t, testHello("b"), Options{})
		conn := rawDial(t, b)
		_, _ = conn.Write(append(slices.Clone(helloMagic[:]), 0xff, 0xff))
		wantClosed(t, conn)
	})

	t.Run("too many connections in all", func(t *testing.T) {
		t.Parallel()
		a := newTestLayer(t, testHello("a"), Options{})
		b := newTestLayer(t, testHello("b"), Options{MaxInbound: 3})
		for range 3 {
			connect(t, a, b)
		}
		conn, err := dialLayer(a, b)
		if err == nil { // indicated by the end of the connection
			wantClosed(t, conn)
		}
		if b.Counts().Accepted != 3 {
			t.Errorf("counts %+v", b.Counts())
		}
	})

	t.Run("too many connections of one node", func(t *testing.T) {
		t.Parallel()
		a := newTestLayer(t, testHello("a"), Options{})
		b := newTestLayer(t, testHello("b"), Options{MaxPerNode: 2})
		oldest, _ := connect(t, a, b)
		connect(t, a, b)
		connect(t, a, b)
		if err := oldest.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		wantClosed(t, oldest)
	})
}

// TestStreamLayerMemory sends huge frames to raft's transport: memory does not grow.
func TestStreamLayerMemory(t *testing.T) {
	t.Parallel()
	b := newTestLayer(t, testHello("b"), Options{FrameMax: 1 << 20})
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: b, MaxPool: 3, Timeout: time.Second, Logger: hclog.NewNullLogger()})
	defer transport.Close()
	a := newTestLayer(t, testHello("a"), Options{})
	chunk := make([]byte, 1<<20)
	for name, begin := range map[string][]byte{
		"announced": {0, 0x81, 0xa6, 'L', 'e', 'a', 'd', 'e', 'r', 0xc6, 0xff, 0xff, 0xff, 0xff},
		"array":     {0, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"deep":      append([]byte{0}, bytes.Repeat([]byte{0x91}, 1000)...),
		"kind":      {99},
	} {
		conn, err := dialLayer(a, b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write(begin)
		for range 64 {
			if err != nil {
				break
			}
			_, err = conn.Write(chunk)
		}
		if err == nil {
			t.Errorf("%s: 64 MiB were accepted", name)
		}
		conn.Close()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 400<<20 {
		t.Errorf("heap is %d MiB", m.HeapAlloc>>20)
	}
	if b.Counts().Oversized != 4 {
		t.Errorf("counts %+v", b.Counts())
	}
}

func TestFrameMeter(t *testing.T) {
	t.Parallel()
	t.Run("an answer to a snapshot ends the connection", func(t *testing.T) {
		t.Parallel()
		m := frameMeter{max: 100}
		frame := append([]byte{rpcInstallSnapshot, 0x81, 0xa1, 'x', 0xcc, 7}, make([]byte, 1<<16)...)
		if err := m.feed(frame); err != nil || !m.streaming {
			t.Errorf("streaming %v, %v", m.streaming, err)
		}
	})
	t.Run("a frame of exactly the bound passes, one more does not", func(t *testing.T) {
		t.Parallel()
		for n, fits := range map[int]bool{97: true, 98: false} {
			m := frameMeter{max: 100}
			frame := append([]byte{0, 0xc5, 0, byte(n)}, make([]byte, n)...)
			if err := m.feed(frame); (err == nil) != fits || fits && m.inside {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// FuzzFrameMeter compares the meter with itself: however the bytes are split into reads, the result is the same, and it
// never passes more than the bound.
func FuzzFrameMeter(f *testing.F) {
	f.Add([]byte("\x00\x82\xa4Term\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xa2ID\xc4\x01a\x01\x80"), false)
	f.Add([]byte{0xa0, 0x81, 0xa1, 'x', 0xd6, 0xff, 1, 2, 3, 4}, true)
	f.Add([]byte{2, 0x80, 1, 2, 3}, false)
	f.Add([]byte{0, 0xdf, 0, 1, 0, 0}, false)
	f.Fuzz(func(t *testing.T, data []byte, answers bool) {
		from := ""
		if !answers {
			from = "a"
		}
		whole := frameMeter{answers: answers, max: 200, from: from}
		wholeErr := whole.feed(data)
		single := frameMeter{answers: answers, max: 200, from: from}
		var singleErr error
		for i := range data {
			if singleErr = single.feed(data[i : i+1]); singleErr != nil {
				break
			}
		}
		if (wholeErr == nil) != (singleErr == nil) {
			t.Fatalf("in one read %v, byte by byte %v", wholeErr, singleErr)
		}
		same := whole.ids == single.ids && whole.inside == single.inside && whole.left == single.left &&
			whole.skip == single.skip
		if wholeErr == nil && !same {
			t.Fatalf("in one read %+v, byte by byte %+v", whole, single)
		}
	})
}

// FuzzStreamHello decodes arbitrary input.
func FuzzStreamHello(f *testing.F) {
	f.Add(encodeHello(testHello("a"))[headBytes:])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := decodeHello(body)
		if err != nil {
			return
		}
		if again := encodeHello(h)[headBytes:]; !bytes.HasPrefix(body, again) { // a later binary may add fields
			t.Fatalf("%q comes back as %q", body, again)
		}
	})
}

func TestHelloBytes(t *testing.T) {
	t.Parallel()
	got := encodeHello(Hello{ClusterName: "c", Node: "n1", Identity: strings.Repeat("0a", 16)})
	want := "rotaraf\x01" + "\x00\x00" + "\x00\x27" + "\x01c" + "\x00" + "\x02n1" + "\x20" + strings.Repeat("0a", 16)
	if string(got) != want {
		t.Errorf("got  %q\nwant %q: the handshake's version must change with its bytes", got, want)
	}
	// A later binary may use the reserved places.
	known, _ := readHello(strings.NewReader(want))
	later := append(bytes.Clone(got), "\x03and"...)
	later[8], later[11] = 7, later[11]+4
	if h, err := readHello(bytes.NewReader(later)); err != nil || h != known || h.Node != "n1" {
		t.Errorf("a later binary's hello is read as %+v, %v", h, err)
	}
	later[7]++
	if _, err := readHello(bytes.NewReader(later)); err == nil ||
		!strings.Contains(err.Error(), "version 2 of the handshake, this node 1") {
		t.Errorf("another handshake: %v", err)
	}
}
