package gossip

import (
	"bytes"
	"compress/lzw"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

const testLabel = "\xf4\x02c1"

// hostilePackets are what a stranger, or a holder of the key, may send: each made an
// earlier node panic, or take memory that nothing bounded.
func hostilePackets() map[string][]byte {
	var empty, bomb bytes.Buffer
	w := lzw.NewWriter(&empty, lzw.LSB, 8)
	_ = w.Close()
	w = lzw.NewWriter(&bomb, lzw.LSB, 8)
	_, _ = w.Write(make([]byte, 32<<20))
	_ = w.Close()
	compressed := func(body []byte) []byte {
		out := []byte("\x09\x82\xa4Algo\x00\xa3Buf\xdb")
		return append(binary.BigEndian.AppendUint32(out, uint32(len(body))), body...)
	}
	return map[string][]byte{
		"nothing":                       {},
		"empty LZW":                     compressed(empty.Bytes()),
		"an LZW bomb":                   compressed(bomb.Bytes()),
		"LZW in a compound":             append([]byte{7, 1, 0, 22}, compressed(empty.Bytes())[:22]...),
		"a compound in a compound":      {7, 1, 0, 2, 7, 0},
		"an empty part":                 {7, 1, 0, 0},
		"a text of 4 GB":                []byte("\x04\x81\xa4Meta\xdb\xff\xff\xff\xf0"),
		"a text of 100 MB":              []byte("\x04\x82\xabIncarnation\x01\xa4Meta\xc6\x06\x00\x00\x00xxxx"),
		"an array of 2 billion":         []byte("\x04\x81\xa3Vsn\xdd\x7f\xff\xff\xff"),
		"arrays in arrays":              append([]byte("\x04\x81\xa1x"), bytes.Repeat([]byte{0x91}, 60_000)...),
		"a state of 2 billion nodes":    []byte("\x06\x83\xa5Nodes\xce\x7f\xff\xff\xff\xacUserStateLen\x00\xa4Join\xc3"),
		"a state of 1,025 nodes":        []byte("\x06\x83\xa5Nodes\xd1\x04\x01\xacUserStateLen\x00\xa4Join\xc3"),
		"a user state of 19 MB":         []byte("\x06\x83\xa5Nodes\x00\xacUserStateLen\xd2\x01\x20\x00\x00\xa4Join\xc3"),
		"two counts of nodes":           []byte("\x06\x82\xa5Nodes\x00\xa5Nodes\xce\x7f\xff\xff\xff"),
		"a user message":                []byte("\x08\x81\xaaUserMsgLen\xd2\x01\x20\x00\x00"),
		"encrypted, in itself":          {10, 0, 0, 0, 0},
		"a message as an array":         []byte("\x04\xdd\x7f\xff\xff\xff"),
		"bytes after a message of ours": []byte("\x0b\x81\xa5SeqNo\x01\x00"),
	}
}

// TestGate sends hostile gossip to live nodes, without their key and by a holder: none
// panics or takes memory, and gossip goes on.
func TestGate(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "key")
	key := bytes.Repeat([]byte{0x4f}, 32)
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := hostilePackets() // which takes memory itself
	for name, file := range map[string]string{"without a key": "", "by a holder": keyFile} {
		t.Run(name, func(t *testing.T) {
			a := startGossip(t, "a", func(o *Options) { o.KeyFile = file })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for what, message := range hostile {
				for range 32 {
					sendPacket(t, a.Addr(), sealPacket(t, file, key, message))
					sendPacket(t, a.Addr(), []byte(testLabel+string(message))) // in clear text
				}
				if answer := exchange(t, a.Addr(), sealStream(t, file, key, message)); len(answer) > 0 {
					t.Errorf("%s: a stream is answered with %q", what, answer)
				}
			}
			b := startGossip(t, "b", func(o *Options) { o.KeyFile, o.Join = file, []string{a.Addr()} })
			for _, g := range []*Gossip{a, b} {
				waitMembers(t, g, "finding each other", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
			}
			runtime.ReadMemStats(&after)
			if took := int64(after.Sys) - int64(before.Sys); took > 64<<20 {
				t.Errorf("%d MiB were taken", took>>20)
			}
		})
	}
}

// TestGateStreams holds streams that say nothing to sixteen.
func TestGateStreams(t *testing.T) {
	t.Parallel()
	a := startGossip(t, "a", nil)
	closed := make(chan struct{}, 3*streamsMost)
	for range 3 * streamsMost {
		conn, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte(testLabel)); err != nil {
			continue
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	for range 3 * streamsMost { // the first ones by memberlist's own deadline
		select {
		case <-closed:
		case <-time.After(longest):
			t.Fatal("a stream that says nothing is held")
		}
	}
	b := startGossip(t, "b", func(o *Options) { o.Join = []string{a.Addr()} })
	waitMembers(t, b, "finding each other", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
}

// TestGateRefused: a stream of strangers is refused in the log, and one that the other end
// dropped before it said anything is not.
func TestGateRefused(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gone.Close() })
	go func() {
		for {
			conn, err := gone.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset, as from a listener that ends
			_ = conn.Close()
		}
	}()
	var lines syncBuffer
	a := startGossip(t, "a", func(o *Options) {
		o.Logger, o.Join = slog.New(slog.NewTextHandler(&lines, nil)), []string{gone.Addr().String()}
	})
	said := func(what string) bool { return strings.Contains(lines.String(), what) }
	for deadline := time.Now().Add(longest); !said("cannot join yet") && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if !said("cannot join yet") || said("gossip refused") {
		t.Errorf("a node that was not reached: %s", lines.String())
	}
	if answer := exchange(t, a.Addr(), []byte("GET / HTTP/1.1\r\n\r\n")); len(answer) > 0 || !said("gossip refused") {
		t.Errorf("a stranger is answered with %q: %s", answer, lines.String())
	}
}

// FuzzGate: the gate judges any bytes without panic, and passes on no more than came.
func FuzzGate(f *testing.F) {
	for _, message := range hostilePackets() {
		f.Add(message)
	}
	f.Add([]byte("\x06\x83\xa5Nodes\x01\xacUserStateLen\x00\xa4Join\xc3\x81\xa4Name\xa1a"))
	g := &gate{label: "c1"}
	f.Fuzz(func(t *testing.T, data []byte) {
		labelled := append([]byte(testLabel), data...)
		_ = g.judgePacket(labelled)
		if passed, err := g.judgeStream(bytes.NewReader(labelled), true); err == nil && !bytes.HasPrefix(labelled, passed) {
			t.Fatalf("%q is passed on of %q", passed, labelled)
		}
	})
}

func sealed(t *testing.T, key, plain, known []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return gcm.Seal(append([]byte{1}, make([]byte, nonceBytes)...), make([]byte, nonceBytes), plain, known)
}

func sealPacket(t *testing.T, file string, key, message []byte) []byte {
	t.Helper()
	if file != "" {
		message = sealed(t, key, message, []byte("c1"))
	}
	return []byte(testLabel + string(message))
}

func sealStream(t *testing.T, file string, key, message []byte) []byte {
	t.Helper()
	if file == "" {
		return []byte(testLabel + string(message))
	}
	head := binary.BigEndian.AppendUint32([]byte{kindEncrypted}, uint32(len(message)+sealBytes))
	return []byte(testLabel + string(head) + string(sealed(t, key, message, append(bytes.Clone(head), "c1"...))))
}

// sendPacket sends by UDP what fits there.
func sendPacket(t *testing.T, to string, packet []byte) {
	t.Helper()
	conn, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(packet); err != nil && !strings.Contains(err.Error(), "too long") {
		t.Fatal(err)
	}
}

// exchange says all and returns what is answered.
func exchange(t *testing.T, to string, said []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(longest))
	_, _ = conn.Write(said)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return answer
}
