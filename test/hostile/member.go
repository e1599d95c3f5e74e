package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/rig"
)

// nodeCalls are the calls between nodes, except those that an unrecorded node may make.
var nodeCalls = func() (all []string) {
	for _, name := range callsOf(rotav1.File_rota_v1_node_proto.Services().ByName("Node")) {
		if name != rotav1.Node_Inspect_FullMethodName && name != rotav1.Node_Introduce_FullMethodName {
			all = append(all, name)
		}
	}
	return all
}()

// certified returns the certificate of a node by the nodes' authority.
func certified(id string) func(*scene) (tls.Certificate, error) {
	return func(s *scene) (tls.Certificate, error) { return s.nodeCA.node(id) }
}

// clientCertified returns the certificate of a client with all rights.
func clientCertified(s *scene) (tls.Certificate, error) { return s.clientCA.client("root", "n1") }

// memberProbes are the probes by callers that are not nodes, and by one that claims another's name.
func memberProbes() (unknown, captured []probe) {
	for _, method := range nodeCalls {
		name := method[strings.LastIndex(method, "/")+1:]
		unknown = append(unknown, probe{name: "an unrecorded node calls " + name,
			try: nodeCall([]string{method}, "n9", certified("n9"))})
	}
	unknown = append(unknown,
		probe{name: "a removed node makes each call", try: nodeCall(nodeCalls, "n4", certified("n4"))},
		probe{name: "a client of root makes each call", try: nodeCall(nodeCalls, "n1", clientCertified)},
		probe{name: "a node of a foreign authority makes each call",
			try: nodeCall(nodeCalls, "n2", func(s *scene) (tls.Certificate, error) { return s.foreignCA.node("n2") })},
		probe{name: "a node without a name of a cluster", try: nodeCallNamed(nodeCalls, "n9", "other",
			certified("n9"))}, probe{name: "a hello of a removed node", try: helloAs("n4", certified("n4"))},
		probe{name: "a hello of a client", try: helloAs("n1", clientCertified)},
		probe{name: "another node's name in the hello", try: helloAs("n2", certified("n9"))},
		probe{name: "a member's name with another data directory",
			try: helloFrom("n3", func(s *scene) string { return s.identities["n9"] }, certified("n3"))},
		probe{name: "an unrecorded node asks for votes", try: votes("n9", "n9", false)},
	)
	captured = []probe{
		{name: "claims n2 in each call", try: nodeCall(nodeCalls, "n2", certified("n3"))},
		{name: "claims n2 in the hello", try: helloAs("n2", certified("n3"))},
		{name: "claims n2 in a vote, behind its own hello", try: votes("n3", "n2", true)},
		{name: "asks for votes of a term far ahead", try: votes("n3", "n3", true)},
		{name: "a client's call by its certificate", try: showing(certified("n3"))},
		{name: "sends garbage behind its hello", try: garbageBehind},
	}
	return unknown, captured
}

// nodeCall makes node calls with a certificate, in the name of a node.
func nodeCall(methods []string, id string, certificate func(*scene) (tls.Certificate,
	error)) func(context.Context, *scene) (string, error) {
	return nodeCallNamed(methods, id, "rota", certificate)
}

func nodeCallNamed(methods []string, id, cluster string, certificate func(*scene) (tls.Certificate,
	error)) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (said string, err error) {
		pair, err := certificate(s)
		if err != nil {
			return "", err
		}
		// Every node request has its caller in the same field.
		message := &rotav1.BarrierRequest{Caller: &rotav1.Caller{Node: id, ClusterName: cluster,
			Identity: s.identities[id]}}
		for _, n := range s.nodes[:2] {
			conn, err := s.conn(n, pair)
			if err != nil {
				return "", err
			}
			for _, method := range methods {
				stream, err := conn.NewStream(ctx, streaming, method)
				if err == nil {
					_ = stream.SendMsg(message)
					_ = stream.CloseSend()
					err = stream.RecvMsg(&rotav1.BarrierResponse{})
				}
				if said, err = turnedAway(err, codes.PermissionDenied, codes.Unauthenticated,
					codes.Unavailable); err != nil {
					_ = conn.Close()
					return "", fmt.Errorf("%s at %s: %w", method, n.ID, err)
				}
			}
			_ = conn.Close()
		}
		return said, nil
	}
}

// readIdentity returns the identity of a node's data directory.
func readIdentity(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		var record struct{ Identity string }
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &record) == nil && record.Identity != "" {
			return record.Identity, nil
		}
	}
	return "", fmt.Errorf("%s has no identity", dir)
}

// remove lets a fourth node join, and removes it: its certificate remains valid, its name does not.
func (s *scene) remove(ctx context.Context) error {
	s.identities = map[string]string{"n9": strings.Repeat("0a", 16)}
	fourth, err := rig.NewNode("n4", s.dir, s.binary)
	if err != nil {
		return err
	}
	if err := s.certify(fourth); err != nil {
		return err
	}
	fourth.Flags = append(fourth.Flags, s.nodes.Joins(nil)...)
	if err := fourth.Start(); err != nil {
		return err
	}
	defer fourth.Kill()
	if err := fourth.AwaitReady(ctx); err != nil {
		return err
	}
	for _, n := range append(slices.Clone(s.nodes), fourth) {
		if s.identities[n.ID], err = readIdentity(n.Dir); err != nil {
			return err
		}
	}
	if err := s.root.RemovePeer(ctx, "n4"); err != nil {
		return err
	}
	return rig.Until(ctx, func() error {
		peers, err := s.root.Peers(ctx)
		if err == nil && len(peers) != len(s.nodes) {
			err = fmt.Errorf("%d peers", len(peers))
		}
		return err
	})
}

// raftConn sends hello to n1 as a node with its certificate and its data directory's identity.
func raftConn(s *scene, id string) (net.Conn, error) {
	pair, err := s.nodeCA.node(id)
	if err != nil {
		return nil, err
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: maxAnswer}, "tcp", s.nodes[0].Raft, s.trusting(pair))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(maxAnswer))
	_, _ = conn.Write(hello(id, "", s.identities[id]))
	head := make([]byte, 13) // the verdict, then the head of its own hello
	if _, err = io.ReadFull(conn, head); err == nil && head[0] != 0 {
		err = errors.New("the hello is refused")
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint16(head[11:])))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_, err = conn.Write([]byte{0})
	return conn, err
}

// votes asks n1 for its vote in a term far ahead, with the hello of one node and a request in the name of one. taken
// means that the hello must be accepted, or the probe proves nothing.
func votes(id, claimed string, taken bool) func(context.Context, *scene) (string, error) {
	return func(_ context.Context, s *scene) (string, error) {
		conn, err := raftConn(s, id)
		if err != nil {
			if taken {
				return "", err
			}
			return err.Error(), nil
		}
		defer conn.Close()
		vote := append([]byte("\x01\x82\xa2ID\xc4\x02"), claimed...)
		_, _ = conn.Write(binary.BigEndian.AppendUint64(append(vote, "\xa4Term\xcf"...), forgedTerm<<32))
		answer, err := io.ReadAll(io.LimitReader(conn, 1<<10))
		if claimed != id && len(answer) > 0 {
			return "", fmt.Errorf("it is answered by %q", answer)
		}
		return fmt.Sprintf("closed after %d bytes: %v", len(answer), err), nil
	}
}

// garbageBehind sends bytes that are not a request after a valid hello.
func garbageBehind(_ context.Context, s *scene) (string, error) {
	conn, err := raftConn(s, "n3")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, _ = conn.Write(append([]byte("\x00\xdd\xff\xff\xff\xff"), make([]byte, 64<<10)...))
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<10))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", fmt.Errorf("the connection was kept, after %d bytes", len(answer))
	}
	return fmt.Sprintf("closed after %d bytes", len(answer)), nil
}
