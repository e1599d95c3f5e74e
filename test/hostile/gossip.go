package main

import (
	"bytes"
	"compress/lzw"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	gossipLabel = "\xf4\x04rota"
	nonceBytes  = 12
	// sealedBy is the number of bytes that a seal adds: its version, the nonce and the tag.
	sealedBy      = 1 + nonceBytes + 16
	kindEncrypted = 10
	// maxDatagram is the maximum size that goes by UDP, packetTimes the number of sends.
	maxDatagram, packetTimes = 60_000, 32
)

// hostileGossip returns messages that the gate of gossip refuses, each harmless to a node without one, and others that
// lie about members.
func hostileGossip() map[string][]byte {
	ping := []byte("\x00\x82\xa5SeqNo\x01\xa4Node\xa2n1")
	var body bytes.Buffer
	w := lzw.NewWriter(&body, lzw.LSB, 8)
	_, _ = w.Write(ping)
	_ = w.Close()
	compressed := append([]byte("\x09\x82\xa4Algo\x00\xa3Buf\xc4"), byte(body.Len()))
	compound := append([]byte{7, 1, 0, byte(len(ping))}, ping...)
	return map[string][]byte{
		"a compressed ping":                append(compressed, body.Bytes()...),
		"a compound in a compound":         append([]byte{7, 1, 0, byte(len(compound))}, compound...),
		"a text longer than the message":   []byte("\x04\x81\xa4Meta\xd9\x20abcd"),
		"an array longer than the message": []byte("\x04\x81\xa3Vsn\x98\x01"),
		"arrays five deep":                 []byte("\x04\x81\xa1x\x91\x91\x91\x91\x91\x01"),
		"two nodes announced, none there":  []byte("\x06\x83\xa5Nodes\x02\xacUserStateLen\x00\xa4Join\xc3"),
		"a seal in a seal":                 append([]byte{10}, make([]byte, 40)...),
		"that n9 is a member": []byte(
			"\x04\x86\xabIncarnation\x01\xa4Node\xa2n9\xa4Addr\xc4\x04\x7f\x00\x00\x01\xa4Port\xcd\x27\x0f\xa4Meta\xc4\x00\xa3Vsn\xc4\x06\x01\x05\x02\x00\x00\x00"),
		"that n2 is dead": []byte("\x05\x83\xabIncarnation\xce\x7f\xff\xff\xff\xa4Node\xa2n2\xa4From\xa2n9"),
		"that n2 is elsewhere": []byte(
			"\x04\x86\xabIncarnation\xce\x7f\xff\xff\xfe\xa4Node\xa2n2\xa4Addr\xc4\x04\x7f\x00\x00\x09\xa4Port\xcd\x27\x0f\xa4Meta\xc4\x00\xa3Vsn\xc4\x06\x01\x05\x02\x00\x00\x00"),
	}
}

// gossipProbes are the probes by strangers, who have no key, and by its holder.
func gossipProbes() (all []probe) {
	messages := hostileGossip()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range messages {
			if !yield(name) {
				return
			}
		}
	})
	send := func(name string, wrap func(message []byte, packet bool) []byte, which ...string) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			for _, one := range which {
				if err := s.gossip(ctx, messages[one], wrap); err != nil {
					return "", fmt.Errorf("%s: %w", one, err)
				}
			}
			return s.members(ctx)
		}}
	}
	all = append(all,
		send("without the key, in clear text", func(m []byte, _ bool) []byte { return []byte(gossipLabel + string(m)) },
			names...), send("without the key and the label", func(m []byte, _ bool) []byte { return m }, names...),
		send("of another cluster", func(m []byte, _ bool) []byte { return []byte("\xf4\x05other" + string(m)) },
			names...),
		send("sealed by another key", func(m []byte, packet bool) []byte {
			return seal([]byte(strings.Repeat("x", 32)), m, packet)
		}, names...),
	)
	for _, name := range names {
		all = append(all, send("says "+name, func(m []byte, packet bool) []byte {
			return seal([]byte(gossipKey), m, packet)
		}, name))
	}
	return all
}

// seal seals a message as a holder of the key does, for a packet or a stream.
func seal(key, message []byte, packet bool) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // this program makes the keys
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	sealed := func(known []byte) []byte {
		return gcm.Seal(append([]byte{1}, make([]byte, nonceBytes)...), make([]byte, nonceBytes), message, known)
	}
	if packet {
		return []byte(gossipLabel + string(sealed([]byte("rota"))))
	}
	head := binary.BigEndian.AppendUint32([]byte{kindEncrypted}, uint32(len(message)+sealedBy))
	return []byte(gossipLabel + string(head) + string(sealed(append(bytes.Clone(head), "rota"...))))
}

// gossip sends a message to n1, often by UDP and once by TCP; a stream must stay unanswered.
func (s *scene) gossip(ctx context.Context, message []byte, wrap func([]byte, bool) []byte) error {
	if packet := wrap(message, true); len(packet) <= maxDatagram {
		conn, err := net.Dial("udp", gossipPort(s))
		if err != nil {
			return err
		}
		for range packetTimes {
			_, _ = conn.Write(packet)
		}
		_ = conn.Close()
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", gossipPort(s))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(maxAnswer))
	_, _ = conn.Write(wrap(message, false))
	_ = conn.(*net.TCPConn).CloseWrite()
	if answer, _ := io.ReadAll(io.LimitReader(conn, 1<<10)); len(answer) > 0 {
		return fmt.Errorf("a stream is answered by %q", short(string(answer)))
	}
	return nil
}

// members fails unless the cluster's members are the same three.
func (s *scene) members(ctx context.Context) (string, error) {
	for _, n := range s.nodes {
		if !n.Running() {
			return "", fmt.Errorf("%s ended: %s", n.ID, n.Life().LastWords(3))
		}
	}
	peers, err := s.root.Peers(ctx)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, p := range peers {
		ids = append(ids, string(p.ID)+" at "+p.Address)
	}
	slices.Sort(ids)
	for i, n := range s.nodes {
		if i >= len(ids) || len(ids) != len(s.nodes) || ids[i] != n.ID+" at "+n.Raft {
			return "", fmt.Errorf("the members are %v", ids)
		}
	}
	return "unanswered; the members are n1, n2 and n3", nil
}
