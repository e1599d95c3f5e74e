package gossip

import (
	"bytes"
	"compress/lzw"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

const testLabel = "\xf4\x02c1"

// refusedMessages returns messages that no node of rota sends, one for each rule of the gate. All are harmless: a node
// without the gate would at most log an error.
func refusedMessages() map[string][]byte {
	ping := []byte("\x00\x82\xa5SeqNo\x01\xa4Node\xa1a")
	var body bytes.Buffer
	w := lzw.NewWriter(&body, lzw.LSB, 8)
	_, _ = w.Write(ping)
	_ = w.Close()
	compressed := append([]byte("\x09\x82\xa4Algo\x00\xa3Buf\xc4"), byte(body.Len()))
	compressed = append(compressed, body.Bytes()...)
	compound := func(part []byte) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{7, 1}, uint16(len(part))), part...)
	}
	return map[string][]byte{
		"a compressed ping":                compressed,
		"a compressed ping in a compound":  compound(compressed),
		"a compound in a compound":         compound(compound(ping)),
		"a part longer than the packet":    {7, 1, 0, 9, 0, 0x80},
		"a text longer than the message":   []byte("\x04\x81\xa4Meta\xd9\x20abcd"),
		"an array longer than the message": []byte("\x04\x81\xa3Vsn\x98\x01"),
		"arrays five deep":                 []byte("\x04\x81\xa1x\x91\x91\x91\x91\x91\x01"),
		"two nodes announced, none there":  []byte("\x06\x83\xa5Nodes\x02\xacUserStateLen\x00\xa4Join\xc3"),
		"1,025 nodes announced":            []byte("\x06\x83\xa5Nodes\xd1\x04\x01\xacUserStateLen\x00\xa4Join\xc3"),
		"a user state":                     []byte("\x06\x83\xa5Nodes\x00\xacUserStateLen\x01\xa4Join\xc3u"),
		"two counts of nodes":              []byte("\x06\x82\xa5Nodes\x00\xa5Nodes\x01"),
		"a user message":                   []byte("\x08\x81\xaaUserMsgLen\x01u"),
		"a seal in a seal":                 append([]byte{10}, make([]byte, 40)...),
		"a message as an array":            []byte("\x04\x91\x01"),
		"a kind that does not exist":       []byte("\x0e\x80"),
		"bytes after a message":            []byte("\x0b\x81\xa5SeqNo\x01\x00"),
	}
}

// TestGate_refusesEachMessage checks each message as a packet and as a stream.
func TestGate_refusesEachMessage(t *testing.T) {
	t.Parallel()
	g := &gate{label: "c1"}
	for name, message := range refusedMessages() {
		labelled := []byte(testLabel + string(message))
		if err := g.judgePacket(labelled); !errors.Is(err, errGate) {
			t.Errorf("%s: the packet gets %v", name, err)
		}
		if _, err := g.judgeStream(bytes.NewReader(labelled), true); err == nil {
			t.Errorf("%s: the stream passes", name)
		}
	}
	if err := g.judgePacket([]byte(testLabel + "\x00\x82\xa5SeqNo\x01\xa4Node\xa1a")); err != nil {
		t.Errorf("a ping: %v", err)
	}
}

// TestGate sends the messages to live nodes, with and without their key: no stream is answered, and nodes still find
// each other.
func TestGate(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "key")
	key := bytes.Repeat([]byte{0x4f}, 32)
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"without a key": "", "by a holder": keyFile} {
		t.Run(name, func(t *testing.T) {
			var lines syncBuffer
			a := startGossip(t, "a", func(o *Options) {
				o.KeyFile, o.Logger = file, slog.New(slog.NewTextHandler(&lines, nil))
			})
			for what, message := range refusedMessages() {
				sendPacket(t, a.Addr(), sealPacket(t, file, key, message))
				sendPacket(t, a.Addr(), []byte(testLabel+string(message))) // in clear text
				if answer := exchange(t, a.Addr(), sealStream(t, file, key, message)); len(answer) > 0 {
					t.Errorf("%s: a stream is answered with %q", what, answer)
				}
			}
			if !strings.Contains(lines.String(), "gossip refused") {
				t.Errorf("the log is %s", lines.String())
			}
			b := startGossip(t, "b", func(o *Options) { o.KeyFile, o.Join = file, []string{a.Addr()} })
			for _, g := range []*Gossip{a, b} {
				waitMembers(t, g, "finding each other",
					func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
			}
		})
	}
}

// TestGateStreams limits streams that send nothing to sixteen.
func TestGateStreams(t *testing.T) {
	t.Parallel()
	a := startGossip(t, "a", nil)
	closed := make(chan struct{}, 3*maxStreams)
	for range 3 * maxStreams {
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
	for range 3 * maxStreams { // the first ones by memberlist's own deadline
		select {
		case <-closed:
		case <-time.After(longest):
			t.Fatal("a silent stream is held")
		}
	}
	b := startGossip(t, "b", func(o *Options) { o.Join = []string{a.Addr()} })
	waitMembers(t, b, "finding each other", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
}

// TestGateRefused: a stranger's stream is logged as rejected, and one that the other end dropped before it sent
// anything is not.
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
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset, as from a listener that closes
			_ = conn.Close()
		}
	}()
	var lines syncBuffer
	a := startGossip(t, "a", func(o *Options) {
		o.Logger, o.Join = slog.New(slog.NewTextHandler(&lines, nil)), []string{gone.Addr().String()}
	})
	said := func(what string) bool { return strings.Contains(lines.String(), what) }
	for deadline := time.Now().Add(longest); !said("cannot join yet") &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if !said("cannot join yet") || said("gossip refused") {
		t.Errorf("a node that could not be reached: %s", lines.String())
	}
	if answer := exchange(t, a.Addr(), []byte("GET / HTTP/1.1\r\n\r\n")); len(answer) > 0 || !said("gossip refused") {
		t.Errorf("a stranger is answered with %q: %s", answer, lines.String())
	}
}

// FuzzGate: the gate checks any bytes without a panic, and passes on no more than it received.
func FuzzGate(f *testing.F) {
	for _, message := range refusedMessages() {
		f.Add(message)
	}
	f.Add([]byte{})
	f.Add([]byte("\x06\x83\xa5Nodes\x01\xacUserStateLen\x00\xa4Join\xc3\x81\xa4Name\xa1a"))
	g := &gate{label: "c1"}
	f.Fuzz(func(t *testing.T, data []byte) {
		labelled := append([]byte(testLabel), data...)
		_ = g.judgePacket(labelled)
		if passed, err := g.judgeStream(bytes.NewReader(labelled), true); err == nil &&
			!bytes.HasPrefix(labelled, passed) {
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

// sendPacket sends a packet by UDP if it fits.
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

// exchange sends all bytes and returns the answer.
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
