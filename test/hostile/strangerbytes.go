package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// streaming describes a call with streams both ways, which every call is on the wire.
var streaming = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

const (
	// crowd is the number of connections that one stranger opens, halves the number of calls that it leaves without a
	// message.
	crowd, halves = 1000, 300
	// maxAnswer is the time allowed for an answer to raw bytes.
	maxAnswer = 5 * time.Second
)

// port names one of a node's addresses.
type port func(s *scene) string

func apiPort(s *scene) string    { return s.nodes[0].API }
func raftPort(s *scene) string   { return s.nodes[0].Raft }
func gossipPort(s *scene) string { return s.nodes[0].Gossip }
func adminPort(s *scene) string  { return s.nodes[0].Admin }

// strangerBytes are probes that send bytes which are not a call.
func strangerBytes() (all []probe) {
	junk := bytes.Repeat([]byte{0xff, 0x00, 0x16, 0x03}, 16<<10)
	for _, at := range []struct {
		name string
		port port
	}{{"API", apiPort}, {"Raft", raftPort}} {
		all = append(all,
			probe{name: "64 KiB of garbage instead of a handshake, at " + at.name, try: silent(at.port, junk)},
			probe{name: "HTTP/2 in clear text, at " + at.name,
				try: silent(at.port, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))},
			probe{name: "TLS 1.2, at " + at.name, try: olderTLS(at.port)},
		)
	}
	return append(all,
		probe{name: "a Raft hello in clear text", try: silent(raftPort, hello("n2", "", strings.Repeat("0a", 16)))},
		probe{name: "a Raft hello over TLS without a certificate", try: helloAs("n2", nil)},
		probe{name: "garbage over TLS, at Raft", try: junkOverTLS(raftPort, junk)},
		probe{name: "garbage over TLS, at API", try: junkOverTLS(apiPort, junk)},
		probe{name: "garbage at the admin port", try: silentOr(adminPort, junk, "HTTP/1.1 4")},
		probe{name: "1 MiB of headers", try: hugeHeader},
		probe{name: "8 MiB in a message", try: hugeMessage},
		probe{name: fmt.Sprintf("%d calls whose message never comes", halves), try: halfMessages},
		probe{name: fmt.Sprintf("%d idle connections, and one more for others", crowd), try: idleCrowd},
		probe{name: "2,000 streams opened and reset", try: resets},
	)
}

// say opens a connection, sends the bytes and returns the answer until it is closed.
func say(ctx context.Context, to string, said []byte) ([]byte, error) {
	dialer := net.Dialer{Timeout: maxAnswer}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(maxAnswer))
	_, _ = conn.Write(said)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(io.LimitReader(conn, 64<<10))
	return answer, nil
}

// silent sends bytes that must get no answer except TLS's own alert.
func silent(to port, said []byte) func(context.Context, *scene) (string, error) {
	return silentOr(to, said, "\x15\x03")
}

func silentOr(to port, said []byte, alert string) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		answer, err := say(ctx, to(s), said)
		switch {
		case err != nil:
			return "", err
		case len(answer) == 0:
			return "closed without a word", nil
		case bytes.HasPrefix(answer, []byte(alert)) || bytes.HasPrefix(answer, []byte("HTTP/1.0 400")):
			return fmt.Sprintf("%d bytes of alert", len(answer)), nil
		}
		return "", fmt.Errorf("it is answered by %q", short(string(answer)))
	}
}

// olderTLS performs the handshake with TLS 1.2.
func olderTLS(to port) func(context.Context, *scene) (string, error) {
	return func(_ context.Context, s *scene) (string, error) {
		config := s.trusting()
		config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: maxAnswer}, "tcp", to(s), config)
		if err == nil {
			_ = conn.Close()
			return "", errors.New("it is spoken")
		}
		return err.Error(), nil
	}
}

// overTLS sends bytes over TLS and returns the first bytes of the answer; the error is how the connection ended before
// one.
func overTLS(s *scene, to string, said []byte, own *tls.Certificate, protocols ...string) ([]byte, error) {
	config := s.trusting()
	config.NextProtos = protocols
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: maxAnswer}, "tcp", to, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(maxAnswer))
	_, _ = conn.Write(said)
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	return answer[:n], err
}

// hello is the beginning of a Raft connection.
func hello(id, cluster, identity string) []byte {
	body := []byte{}
	for _, field := range []string{"rota", cluster, id, identity} {
		body = append(append(body, byte(len(field))), field...)
	}
	head := []byte("rotaraf\x01\x00\x00")
	return append(binary.BigEndian.AppendUint16(head, uint16(len(body))), body...)
}

// helloAs sends hello with the name of a node and with the identity of its data directory, so that only the certificate
// can be the reason for the refusal; a verdict of yes must not come.
func helloAs(id string, certificate func(*scene) (tls.Certificate,
	error)) func(context.Context, *scene) (string, error) {
	return helloFrom(id, func(s *scene) string { return s.identities[id] }, certificate)
}

// helloFrom is helloAs with the identity of another data directory.
func helloFrom(id string, identity func(*scene) string, certificate func(*scene) (tls.Certificate,
	error)) func(context.Context, *scene) (string, error) {
	return func(_ context.Context, s *scene) (string, error) {
		var own *tls.Certificate
		if certificate != nil {
			pair, err := certificate(s)
			if err != nil {
				return "", err
			}
			own = &pair
		}
		answer, err := overTLS(s, s.nodes[0].Raft, hello(id, "", identity(s)), own)
		switch {
		case len(answer) > 0 && answer[0] == 0:
			return "", errors.New("the hello is accepted")
		case len(answer) > 0:
			return strings.ToValidUTF8(strings.Trim(string(answer[1:]), "\x00"), ""), nil
		}
		return ended(err)
	}
}

// ended turns the end of a connection that must be closed into a probe's result.
func ended(err error) (string, error) {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return "", fmt.Errorf("the connection was kept: %v", err)
	}
	return err.Error(), nil
}

// junkOverTLS sends bytes that mean nothing after a handshake.
func junkOverTLS(to port, said []byte) func(context.Context, *scene) (string, error) {
	return func(_ context.Context, s *scene) (string, error) {
		answer, err := overTLS(s, to(s), said, nil)
		if len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) && answer[0] == 0 &&
			!bytes.Contains(answer, []byte("\x00\x04\x00\x00\x00\x00\x00")) {
			return "", fmt.Errorf("it is answered by %q", short(string(answer)))
		}
		if err == nil {
			return short(string(answer)), nil
		}
		return ended(err)
	}
}

// hugeHeader sends more metadata than any call needs.
func hugeHeader(ctx context.Context, s *scene) (string, error) {
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = invoke(metadata.AppendToOutgoingContext(ctx, "x-much", strings.Repeat("x", 1<<20)), conn,
		rotav1.Jobs_Get_FullMethodName)
	return turnedAway(err, codes.Internal, codes.Unauthenticated, codes.Unavailable, codes.ResourceExhausted)
}

// hugeMessage sends a message of 8 MiB without a credential.
func hugeMessage(ctx context.Context, s *scene) (string, error) {
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.Invoke(ctx, rotav1.Jobs_Submit_FullMethodName, wrapperspb.Bytes(make([]byte, 8<<20)),
		&wrapperspb.BytesValue{})
	return turnedAway(err, codes.Unauthenticated, codes.ResourceExhausted)
}

// halfMessages begins calls whose message never comes: the server must not wait for it.
func halfMessages(ctx context.Context, s *scene) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	refusals, last := 0, error(nil)
	for range halves {
		stream, err := conn.NewStream(ctx, streaming, rotav1.Jobs_Submit_FullMethodName)
		if err == nil {
			err = stream.RecvMsg(&wrapperspb.BytesValue{})
		}
		if _, err := turnedAway(err, codes.Unauthenticated, codes.PermissionDenied); err != nil {
			return "", err
		}
		refusals, last = refusals+1, err
	}
	return fmt.Sprintf("%d times: %v", refusals, last), nil
}

// idleCrowd opens many connections that send nothing; another client's call is answered.
func idleCrowd(ctx context.Context, s *scene) (string, error) {
	var idle []net.Conn
	defer func() {
		for _, conn := range idle {
			_ = conn.Close()
		}
	}()
	for range crowd {
		conn, err := net.DialTimeout("tcp", s.nodes[0].API, maxAnswer)
		if err != nil {
			break
		}
		idle = append(idle, conn)
	}
	opened := len(idle)
	if err := s.nodes[0].Ready(); err != nil {
		return "", fmt.Errorf("with %d connections: %w", opened, err)
	}
	if _, err := s.root.Status(ctx); err != nil {
		return "", fmt.Errorf("with %d connections: %w", opened, err)
	}
	return fmt.Sprintf("%d were opened, others are served", opened), nil
}

// resets begins streams and resets them at once (rapid reset).
func resets(ctx context.Context, s *scene) (string, error) {
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	for range 2000 {
		one, cancel := context.WithCancel(ctx)
		_, _ = conn.NewStream(one, streaming, rotav1.Events_Tail_FullMethodName)
		cancel()
	}
	if _, err := s.root.Status(ctx); err != nil {
		return "", err
	}
	return "others are served", nil
}
