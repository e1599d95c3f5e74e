package stream

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/unreleased"
)

func testHello(id rota.NodeID) Hello {
	return Hello{ClusterName: "c1", ClusterID: "k1", Node: id, Draft: unreleased.Draft, Identity: strings.Repeat("0a", identityBytes)}
}

func newTestLayer(t *testing.T, hello Hello, opts Options) *Layer {
	t.Helper()
	s, err := NewLayer("127.0.0.1:0", "", func() Hello { return hello }, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dialLayer(from, to *Layer) (net.Conn, error) {
	return from.Dial(raft.ServerAddress(to.BoundAddr().String()), 5*time.Second)
}

// connect returns both ends of a connection after the handshake.
func connect(t *testing.T, from, to *Layer) (dialled, accepted net.Conn) {
	t.Helper()
	dialled, err := dialLayer(from, to)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = to.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}

// TestStreamLayer_closeEndsDials has a call under way that nobody answers: raft waits
// for it, and for the next one, when a node stops.
func TestStreamLayer_closeEndsDials(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 2)
	s := newTestLayer(t, testHello("a"), Options{HandshakeTimeout: time.Hour,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			calls <- address
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	ended := make(chan error, 1)
	go func() {
		_, err := s.Dial("b:1", time.Hour)
		ended <- err
	}()
	<-calls
	_ = s.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it connected")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close left a call under way")
	}
	if _, err := s.Dial("b:1", time.Hour); !errors.Is(err, net.ErrClosed) || len(calls) > 0 {
		t.Errorf("after Close it calls: %v", err)
	}
}

func TestStreamLayer(t *testing.T) {
	t.Parallel()
	a, b := newTestLayer(t, testHello("a"), Options{}), newTestLayer(t, testHello("b"), Options{})
	dialled, accepted := connect(t, a, b)
	ping := []byte{4, 0x80} // a pre-vote without fields
	if _, err := dialled.Write(ping); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(ping))
	if _, err := io.ReadFull(accepted, got); err != nil || !bytes.Equal(got, ping) {
		t.Errorf("got %q, %v", got, err)
	}
	if a.Counts().Dialled != 1 || b.Counts().Accepted != 1 {
		t.Errorf("counts %+v, %+v", a.Counts(), b.Counts())
	}
	if err := errors.Join(a.Close(), b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if _, err := accepted.Read(got); err == nil {
		t.Error("Close left a connection open")
	}
	if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close gives %v", err)
	}
	if _, err := dialLayer(a, b); err == nil {
		t.Error("Dial after Close")
	}
}

// TestStreamLayerLeavesNothing is not parallel: it looks at all goroutines.
func TestStreamLayerLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a := newTestLayer(t, testHello("a"), Options{})
	b := newTestLayer(t, testHello("b"), Options{})
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: b, MaxPool: 3, Timeout: time.Second, Logger: hclog.NewNullLogger()})
	for range 3 { // raft's transport reads from them until their end
		if _, err := dialLayer(a, b); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = rawDial(t, b).Write([]byte("slow"))
	if err := errors.Join(transport.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

func TestStreamLayerRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(h *Hello)
		admit  func(Hello) error
		want   string
		count  func(c Counts) uint64
	}{
		{name: "another cluster name", change: func(h *Hello) { h.ClusterName = "c2" },
			want: "another cluster", count: func(c Counts) uint64 { return c.Foreign }},
		{name: "another cluster id", change: func(h *Hello) { h.ClusterID = "k2" },
			want: "another cluster", count: func(c Counts) uint64 { return c.Foreign }},
		{name: "its own id", change: func(h *Hello) { h.Node = "b" },
			want: "own id", count: func(c Counts) uint64 { return c.Denied }},
		{name: "another draft", change: func(h *Hello) { h.Draft++ },
			want: fmt.Sprintf("node a runs draft %d of an unreleased rota, this binary is draft %d: run the same binary on all nodes",
				unreleased.Draft+1, unreleased.Draft), count: func(c Counts) uint64 { return c.Denied }},
		{name: "who is not admitted", change: func(*Hello) {},
			admit: func(peer Hello) error { return errors.New("node " + string(peer.Node) + " was removed") },
			want:  "node a was removed", count: func(c Counts) uint64 { return c.Denied }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			hello := testHello("a")
			c.change(&hello)
			a := newTestLayer(t, hello, Options{})
			b := newTestLayer(t, testHello("b"), Options{Admit: c.admit})
			conn, err := dialLayer(a, b)
			if err == nil {
				conn.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the dialling side hears %v", err)
			}
			if err := b.Close(); err != nil { // waits for the handshake's goroutine
				t.Fatal(err)
			}
			if c.count(b.Counts()) != 1 || b.Counts().Accepted != 0 {
				t.Errorf("counts %+v", b.Counts())
			}
		})
	}

	t.Run("no node that has not learnt the cluster id yet", func(t *testing.T) {
		t.Parallel()
		hello := testHello("a")
		hello.ClusterID = ""
		a, b := newTestLayer(t, hello, Options{}), newTestLayer(t, testHello("b"), Options{})
		connect(t, a, b)
		connect(t, b, a)
	})
	t.Run("as the dialling side too", func(t *testing.T) {
		t.Parallel()
		a := newTestLayer(t, testHello("a"), Options{Admit: func(peer Hello) error {
			if !peer.Dialled || peer.Node != "b" {
				t.Errorf("asked about %+v", peer)
			}
			return errors.New("never heard of it")
		}})
		b := newTestLayer(t, testHello("b"), Options{})
		if _, err := dialLayer(a, b); err == nil || !strings.Contains(err.Error(), "never heard") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address that nobody can reach", func(t *testing.T) {
		t.Parallel()
		_, err := NewLayer("127.0.0.1:0", "0.0.0.0:6471", nil, Options{})
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("got %v", err)
		}
	})
}

// TestStreamLayerCarriesRaft runs every RPC of raft's transport over two layers.
func TestStreamLayerCarriesRaft(t *testing.T) {
	t.Parallel()
	var transports []*raft.NetworkTransport
	for _, id := range []rota.NodeID{"a", "b"} {
		transports = append(transports, raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: newTestLayer(t, testHello(id), Options{}), MaxPool: 3, Timeout: 5 * time.Second,
			MaxRPCsInFlight: 8, Logger: hclog.NewNullLogger()}))
		defer transports[len(transports)-1].Close() //nolint:gocritic // both live to the end
	}
	a, b := transports[0], transports[1]
	snapshot := bytes.Repeat([]byte("snapshot "), 1<<20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for rpc := range b.Consumer() {
			switch request := rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				rpc.Respond(&raft.AppendEntriesResponse{LastLog: uint64(len(request.Entries)), Success: true}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
			case *raft.InstallSnapshotRequest:
				body, err := io.ReadAll(rpc.Reader)
				rpc.Respond(&raft.InstallSnapshotResponse{Success: err == nil && bytes.Equal(body, snapshot)}, nil)
			case *raft.TimeoutNowRequest:
				rpc.Respond(&raft.TimeoutNowResponse{}, nil)
				return
			}
		}
	}()
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("a"), Addr: []byte("a:1")}
	target := b.LocalAddr()
	var entries []*raft.Log
	for i := range 64 {
		entries = append(entries, &raft.Log{Index: uint64(i + 1), Term: 1 << 40, Data: make([]byte, i*1000),
			AppendedAt: time.Now(), Extensions: []byte("x")})
	}
	for round := range 3 {
		var appended raft.AppendEntriesResponse
		request := &raft.AppendEntriesRequest{RPCHeader: header, Entries: entries}
		err := a.AppendEntries("b", target, request, &appended)
		if err != nil || appended.LastLog != 64 {
			t.Fatalf("round %d: append: %+v, %v", round, appended, err)
		}
		var voted raft.RequestVoteResponse
		err = a.RequestVote("b", target, &raft.RequestVoteRequest{RPCHeader: header, Term: 9}, &voted)
		if err != nil || !voted.Granted {
			t.Fatalf("round %d: vote: %+v, %v", round, voted, err)
		}
		var installed raft.InstallSnapshotResponse // over a connection that was used before
		install := &raft.InstallSnapshotRequest{RPCHeader: header, Size: int64(len(snapshot))}
		err = a.InstallSnapshot("b", target, install, &installed, bytes.NewReader(snapshot))
		if err != nil || !installed.Success {
			t.Fatalf("round %d: install: %+v, %v", round, installed, err)
		}
	}
	pipeline, err := a.AppendEntriesPipeline("b", target)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		request := &raft.AppendEntriesRequest{RPCHeader: header, Entries: entries}
		if _, err := pipeline.AppendEntries(request, &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if future := <-pipeline.Consumer(); future.Error() != nil || future.Response().LastLog != 64 {
			t.Fatalf("pipeline: %v", future.Error())
		}
	}
	var now raft.TimeoutNowResponse
	err = a.TimeoutNow("b", target, &raft.TimeoutNowRequest{RPCHeader: header}, &now)
	err = errors.Join(err, pipeline.Close())
	if err != nil {
		t.Fatal(err)
	}
	<-served
}

// testCert makes a certificate for a name, signed by itself and trusted as such.
func testCert(t *testing.T, name string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, leaf
}

func TestStreamLayerTLS(t *testing.T) {
	t.Parallel()
	certA, leafA := testCert(t, "node-a")
	certB, leafB := testCert(t, "node-b")
	certC, _ := testCert(t, "node-c") // signed by nobody known
	pool := x509.NewCertPool()
	pool.AddCert(leafA)
	pool.AddCert(leafB)
	options := func(cert tls.Certificate, admit func(Hello) error) Options {
		return Options{Admit: admit,
			ServerTLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
				ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
			ClientTLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool}}
	}
	names := make(chan []string, 4)
	b := newTestLayer(t, testHello("b"), options(certB, func(peer Hello) error {
		names <- peer.CertNames
		return nil
	}))
	connect(t, newTestLayer(t, testHello("a"), options(certA, nil)), b)
	if got := <-names; !slices.Equal(got, []string{"node-a"}) {
		t.Errorf("certificate names %v", got)
	}
	if _, err := dialLayer(newTestLayer(t, testHello("c"), options(certC, nil)), b); err == nil {
		t.Error("a stranger's certificate is taken")
	}
	if _, err := dialLayer(newTestLayer(t, testHello("d"), Options{}), b); err == nil {
		t.Error("a peer without TLS is taken")
	}
	if _, err := NewLayer("127.0.0.1:0", "", nil, Options{ServerTLS: &tls.Config{}}); err == nil {
		t.Error("half of TLS is taken")
	}
}
