package e2e

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// TestNamesOfOthers lets a client's certificate, and a node's that claims to be another, try everything that only nodes
// may do: each is refused, and no term moves.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	key := writeFile(t, filepath.Join(t.TempDir(), "gossip.key"), "0123456789abcdef0123456789abcdef")
	c := &nodes{t: t}
	for _, id := range []string{"n1", "n2", "n3"} {
		c.all = append(c.all, newNode(t, id, append(ca.flags(t, id), "--gossip-key-file", key, "--bootstrap-expect",
			"3")...))
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	c.rota(t, "tls", "issue", "client", "root/n1", "--dir", ca.dir).want(t, 0)
	for name, file := range map[string]string{"a client's": "root-n1", "node n2's": "n2"} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(ca.dir, file+".pem"), filepath.Join(ca.dir, file+".key"))
		check(t, err)
		config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
			InsecureSkipVerify: true}
		for _, n := range c.all {
			t.Run(name+"_certificate_at_"+n.ID, func(t *testing.T) {
				callAs(t, config, n.API, "n1")
				greetAs(t, config, n.Raft, "n1")
			})
		}
	}
	var after rota.ClusterStatus
	r := c.rota(t, "cluster", "status", "--tls-ca", ca.file, "-o", "json").want(t, 0)
	check(t, json.Unmarshal([]byte(r.stdout), &after))
	if after.Term >= claimedTerm || len(after.Nodes) != 3 { // a busy machine may have had elections of its own
		t.Errorf("the term is %d, nodes are %v", after.Term, after.Nodes)
	}
}

// claimedTerm is the term that a forged vote asks for.
const claimedTerm = 0x7fff

// callAs makes the calls of nodes in the name of a node.
func callAs(t *testing.T, config *tls.Config, api, id string) {
	t.Helper()
	conn, err := grpc.NewClient(api, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	check(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	me := &rotav1.Caller{Node: id, ClusterName: "rota"}
	to := rotav1.NewNodeClient(conn)
	state := func() error {
		stream, err := to.State(ctx, &rotav1.StateRequest{Caller: me})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for call, do := range map[string]func() error{
		"Forward": func() error {
			_, err := to.Forward(ctx, &rotav1.ForwardRequest{Caller: me, Commands: []byte{1}})
			return err
		},
		"Barrier":  func() error { _, err := to.Barrier(ctx, &rotav1.BarrierRequest{Caller: me}); return err },
		"Beat":     func() error { _, err := to.Beat(ctx, &rotav1.NodeBeatRequest{Caller: me}); return err },
		"Inspect":  func() error { _, err := to.Inspect(ctx, &rotav1.InspectRequest{Caller: me}); return err },
		"Remove":   func() error { _, err := to.Remove(ctx, &rotav1.RemoveRequest{Caller: me}); return err },
		"Transfer": func() error { _, err := to.Transfer(ctx, &rotav1.TransferRequest{Caller: me}); return err },
		"State":    state,
	} {
		// A client's certificate ends the handshake where no authority of clients is set.
		if err := do(); status.Code(err) != codes.PermissionDenied && status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// greetAs begins a raft connection in the name of a node, and asks for a vote of a high term.
func greetAs(t *testing.T, config *tls.Config, address, id string) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return // refused by its certificate
	}
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	body := []byte{}
	for _, field := range []string{"rota", "", id, strings.Repeat("0a", 16)} {
		body = append(append(body, byte(len(field))), field...)
	}
	hello := []byte("rotaraf\x01\x00\x00")
	hello = append(binary.BigEndian.AppendUint16(hello, uint16(len(body))), body...)
	_, _ = conn.Write(hello)
	verdict := make([]byte, 1)
	if _, err := io.ReadFull(conn, verdict); err == nil && verdict[0] == 0 {
		t.Error("the hello is accepted")
	}
	vote := binary.BigEndian.AppendUint16([]byte("\x00\x01\x82\xa2ID\xc4\x02n1\xa4Term\xcd"), claimedTerm)
	_, _ = conn.Write(vote)
	_, _ = io.Copy(io.Discard, conn) // until it is closed
}
