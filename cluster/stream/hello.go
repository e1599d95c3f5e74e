package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/rotasched/rota"
)

// The dialling side sends its hello; the other one answers with a verdict, followed by its own hello if it accepts; the
// dialling side ends with its verdict. A verdict is one byte, followed by a text if it is a rejection. The dialled side
// reveals nothing about itself to a peer that does not know the cluster's name.
const (
	verdictYes = 0
	verdictNo  = 1
)

// The reasons that rejections are counted by.
var (
	errForeign   = errors.New("of another cluster")
	errDenied    = errors.New("not admitted")
	errMalformed = errors.New("does not speak the protocol")
	errCrowded   = errors.New("too many connections")
)

// helloMagic begins every connection between nodes, before TLS's content is known to be raft; the last byte is the
// version of the handshake.
var helloMagic = [8]byte{'r', 'o', 't', 'a', 'r', 'a', 'f', 1}

// helloMax bounds the body of a hello or of a rejection, in bytes.
const helloMax = 512

// identityBytes is the length of a data directory's identity in bytes, sent as hex digits.
const identityBytes = 16

// headBytes is the size of a hello's head: magic, two zero bytes and length.
const headBytes = len(helloMagic) + 4

// encodeHello returns magic, two zero bytes, length and fields; each field is a length byte and text. Values that a
// later binary writes in place of the zeros, or after the fields, are ignored.
func encodeHello(h Hello) []byte {
	body := []byte{}
	for _, field := range []string{h.ClusterName, string(h.ClusterID), string(h.Node), h.Identity} {
		field = field[:min(len(field), 255)]
		body = append(append(body, byte(len(field))), field...)
	}
	out := append([]byte(nil), helloMagic[:]...)
	out = binary.BigEndian.AppendUint16(append(out, 0, 0), uint16(len(body)))
	return append(out, body...)
}

// readHello reads a hello and checks its format. It never holds more than helloMax bytes.
func readHello(r io.Reader) (Hello, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Hello{}, fmt.Errorf("%w: read hello: %w", errMalformed, err)
	}
	magic := head[:len(helloMagic)]
	if !bytes.Equal(magic[:7], helloMagic[:7]) {
		return Hello{}, fmt.Errorf("%w: its first bytes are not those of a node", errMalformed)
	}
	if magic[7] != helloMagic[7] {
		return Hello{}, fmt.Errorf("%w: it speaks version %d of the handshake, this node %d",
			errMalformed, magic[7], helloMagic[7])
	}
	size := binary.BigEndian.Uint16(head[len(helloMagic)+2:])
	if size > helloMax {
		return Hello{}, fmt.Errorf("%w: its hello has %d bytes", errMalformed, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return Hello{}, fmt.Errorf("%w: read hello: %w", errMalformed, err)
	}
	return decodeHello(body)
}

func decodeHello(body []byte) (Hello, error) {
	var h Hello
	fields := [4]string{}
	for i := range fields {
		if len(body) == 0 || len(body) < 1+int(body[0]) {
			return h, fmt.Errorf("%w: its hello is cut short", errMalformed)
		}
		n := 1 + int(body[0])
		fields[i], body = string(body[1:n]), body[n:]
	}
	h = Hello{ClusterName: fields[0], ClusterID: rota.ClusterID(fields[1]),
		Node: rota.NodeID(fields[2]), Identity: fields[3]}
	switch {
	case !rota.ValidID(h.ClusterName), !rota.ValidID(h.Node), h.ClusterID != "" && !rota.ValidID(h.ClusterID):
		return h, fmt.Errorf("%w: its hello holds an invalid id", errMalformed)
	case !validIdentity(h.Identity):
		return h, fmt.Errorf("%w: its identity is not 32 hex digits", errMalformed)
	}
	return h, nil
}

func validIdentity(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == identityBytes
}

// checkHello rejects a peer that does not belong to this cluster.
func checkHello(own, peer Hello, admit func(Hello) error) error {
	switch {
	case own.ClusterName != peer.ClusterName:
		return fmt.Errorf("%w: its cluster is %q, this one's %q", errForeign, peer.ClusterName, own.ClusterName)
	case own.ClusterID != "" && peer.ClusterID != "" && own.ClusterID != peer.ClusterID:
		return fmt.Errorf("%w: its cluster id is %s, this one's %s, both are named %q",
			errForeign, peer.ClusterID, own.ClusterID, own.ClusterName)
	case own.Node == peer.Node:
		return fmt.Errorf("%w: it has this node's own id %s", errDenied, own.Node)
	}
	if admit != nil {
		if err := admit(peer); err != nil {
			return fmt.Errorf("%w: %w", errDenied, err)
		}
	}
	return nil
}

// greet is the handshake of the dialling side.
func greet(rw io.ReadWriter, own Hello, check func(peer Hello) error) (Hello, error) {
	if _, err := rw.Write(encodeHello(own)); err != nil {
		return Hello{}, fmt.Errorf("send hello: %w", err)
	}
	if err := readVerdict(rw); err != nil {
		return Hello{}, err
	}
	peer, err := readHello(rw)
	if err != nil {
		return peer, err
	}
	if err := check(peer); err != nil {
		_, _ = rw.Write(encodeRefusal(err))
		return peer, err
	}
	if _, err := rw.Write([]byte{verdictYes}); err != nil {
		return peer, fmt.Errorf("send verdict: %w", err)
	}
	return peer, nil
}

// welcome is the handshake of the dialled side.
func welcome(rw io.ReadWriter, own Hello, check func(peer Hello) error) (Hello, error) {
	peer, err := readHello(rw)
	if err != nil {
		return peer, err // no answer to a peer that does not speak the protocol
	}
	if err := check(peer); err != nil {
		if !errors.Is(err, errForeign) {
			_, _ = rw.Write(encodeRefusal(err))
		} else {
			_, _ = rw.Write(encodeRefusal(errors.New("this node belongs to another cluster")))
		}
		return peer, err
	}
	if _, err := rw.Write(append([]byte{verdictYes}, encodeHello(own)...)); err != nil {
		return peer, fmt.Errorf("send hello: %w", err)
	}
	return peer, readVerdict(rw)
}

func encodeRefusal(reason error) []byte {
	text := reason.Error()
	text = text[:min(len(text), helloMax)]
	return append(binary.BigEndian.AppendUint16([]byte{verdictNo}, uint16(len(text))), text...)
}

// readVerdict returns nil for a yes.
func readVerdict(r io.Reader) error {
	var verdict [1]byte
	if _, err := io.ReadFull(r, verdict[:]); err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	switch verdict[0] {
	case verdictYes:
		return nil
	case verdictNo:
	default:
		return fmt.Errorf("%w: verdict %d", errMalformed, verdict[0])
	}
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return fmt.Errorf("read refusal: %w", err)
	}
	text := make([]byte, min(int(binary.BigEndian.Uint16(size[:])), helloMax))
	if _, err := io.ReadFull(r, text); err != nil {
		return fmt.Errorf("read refusal: %w", err)
	}
	return fmt.Errorf("the peer refuses: %q", text)
}
