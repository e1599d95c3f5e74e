package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/identity"
)

func testHello(id rota.NodeID) Hello {
	return Hello{ClusterName: "c1", ClusterID: "k1", Node: id, Identity: strings.Repeat("0a", identityBytes)}
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

// TestStreamLayer_closeEndsDials: a call in progress is never answered; raft waits for it, and for the next one, when a
// node stops.
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
		t.Fatal("Close left a call in progress")
	}
	if _, err := s.Dial("b:1", time.Hour); !errors.Is(err, net.ErrClosed) || len(calls) > 0 {
		t.Errorf("after Close it still calls: %v", err)
	}
}

func TestStreamLayer(t *testing.T) {
	t.Parallel()
	a, b := newTestLayer(t, testHello("a"), Options{}), newTestLayer(t, testHello("b"), Options{})
	dialled, accepted := connect(t, a, b)
	ping := []byte("\x04\x81\xa2ID\xc4\x01a") // a pre-vote that contains only its sender
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

// TestStreamLayerLeavesNothing is not parallel: it checks all goroutines.
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
				t.Errorf("the dialling side receives %v", err)
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
				t.Errorf("the question was about %+v", peer)
			}
			return errors.New("never heard of it")
		}})
		b := newTestLayer(t, testHello("b"), Options{})
		if _, err := dialLayer(a, b); err == nil || !strings.Contains(err.Error(), "never heard") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address that no node can reach", func(t *testing.T) {
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

// testAuthority issues nodes' certificates for the cluster of testHello.
func testAuthority(t *testing.T) *identity.Authority {
	t.Helper()
	ca, err := identity.NewAuthority("test", time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// certified returns the options of a node with a certificate for an id.
func certified(t *testing.T, ca *identity.Authority, id rota.NodeID, life time.Duration,
	trusted ...*identity.Authority) Options {
	t.Helper()
	uri, err := identity.NodeURI("c1", id)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Issue(identity.Request{URI: uri, Server: true, Now: time.Now(), Life: life})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := append(trusted, ca)[0].Pool()
	nodeOf := func(state tls.ConnectionState) (rota.NodeID, error) {
		return identity.Node(state.PeerCertificates, pool, "c1")
	}
	config := identity.Between(func() *tls.Certificate { return &pair },
		func(state tls.ConnectionState) error { _, err := nodeOf(state); return err })
	return Options{ServerTLS: config, ClientTLS: config, NodeOf: nodeOf}
}

// TestStreamLayerTLS: the id in a node's certificate must match; formerly any certificate of the same authority
// sufficed.
func TestStreamLayerTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := testAuthority(t), testAuthority(t)
	b := newTestLayer(t, testHello("b"), certified(t, ours, "b", time.Hour))
	connect(t, newTestLayer(t, testHello("a"), certified(t, ours, "a", time.Hour)), b)
	for name, opts := range map[string]Options{
		"another node's certificate":  certified(t, ours, "c", time.Hour),
		"another authority":           certified(t, theirs, "a", time.Hour, ours),
		"no TLS":                      {},
		"the certificate that it has": certified(t, ours, "b", time.Hour),
	} {
		if _, err := dialLayer(newTestLayer(t, testHello("a"), opts), b); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	evil := newTestLayer(t, testHello("b"), certified(t, ours, "c", time.Hour))
	a := newTestLayer(t, testHello("a"), certified(t, ours, "a", time.Hour))
	if _, err := a.Dial(meant("b", raft.ServerAddress(evil.BoundAddr().String())), 5*time.Second); err == nil ||
		!strings.Contains(err.Error(), "its certificate is node c's") {
		t.Errorf("a dialled node with another's certificate: %v", err)
	}
	if _, err := NewLayer("127.0.0.1:0", "", nil, Options{ServerTLS: &tls.Config{}}); err == nil {
		t.Error("half of TLS is accepted")
	}
}

// TestRequestsNameTheirSender: raft attributes a vote, an entry or a handover to the node named in the request. A peer
// admitted as a may send only in the name of a.
func TestRequestsNameTheirSender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		taken   bool
	}{
		"its own id":             {"\x03\x81\xa2ID\xc4\x01a", true},
		"its own id, as text":    {"\x03\x82\xa4Term\x07\xd9\x02ID\xa1a", true},
		"another's":              {"\x03\x81\xa2ID\xc4\x01b", false},
		"a longer one":           {"\x03\x81\xa2ID\xc4\x02ab", false},
		"an empty one":           {"\x03\x81\xa2ID\xa0", false},
		"nil":                    {"\x03\x81\xa2ID\xc0", false},
		"none":                   {"\x03\x81\xa4Term\x07", false},
		"nothing":                {"\x03\x80", false},
		"two":                    {"\x03\x82\xa2ID\xc4\x01a\xa2ID\xc4\x01b", false},
		"two, its own last":      {"\x03\x82\xa2ID\xc4\x01b\xa2ID\xc4\x01a", false},
		"one deeper only":        {"\x03\x81\xa1X\x81\xa2ID\xc4\x01a", false},
		"another's, and deeper":  {"\x03\x82\xa1X\x81\xa2ID\xc4\x01a\xa2ID\xc4\x01b", false},
		"a request as an array":  {"\x03\x93\x03\xc4\x01b\xc4\x01x", false},
		"an id as an array":      {"\x03\x81\xa2ID\x91\x61", false},
		"a key as an array":      {"\x03\x81\x92\x49\x44\xc4\x01a", false},
		"a snapshot of its own":  {"\x02\x82\xa4Size\x01\xa2ID\xc4\x01ax", true},
		"a snapshot of another":  {"\x02\x82\xa4Size\x01\xa2ID\xc4\x01bx", false},
		"a second request lies":  {"\x03\x81\xa2ID\xc4\x01a\x03\x81\xa2ID\xc4\x01b", false},
		"another's, byte by key": {"\x03\x82\xa2IX\xc4\x01a\xa2ID\xc4\x01b", false},
	} {
		for what, whole := range map[string]bool{"at once": true, "byte by byte": false} {
			m := frameMeter{max: 1 << 20, from: "a"}
			var err error
			if whole {
				err = m.feed([]byte(c.request))
			}
			for i := 0; i < len(c.request) && !whole && err == nil; i++ {
				err = m.feed([]byte{c.request[i]})
			}
			if taken := err == nil && (!m.inside || m.streaming); taken != c.taken {
				t.Errorf("%s, %s: accepted is %v, %v", name, what, taken, err)
			}
		}
	}

	// Through the layer: the connection ends, and raft receives nothing.
	a, b := newTestLayer(t, testHello("a"), Options{}), newTestLayer(t, testHello("b"), Options{})
	dialled, accepted := connect(t, a, b)
	if _, err := dialled.Write([]byte("\x01\x82\xa2ID\xc4\x01c\xa4Term\xcd\x7f\xff")); err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Read(make([]byte, 64)); err == nil || !strings.Contains(err.Error(), "another node's name") {
		t.Errorf("read: %v", err)
	}
}

// TestRejudge closes the connections of a removed node at once, and keeps them if this node cannot decide.
func TestRejudge(t *testing.T) {
	t.Parallel()
	var verdict atomic.Value
	verdict.Store("")
	admit := func(Hello) error {
		switch verdict.Load() {
		case "removed":
			return errors.New("node a was removed")
		case "stalled":
			return rota.Refusef(rota.KindUnavailable, "", "stalled")
		}
		return nil
	}
	asked := make(chan struct{}, 16)
	b := newTestLayer(t, testHello("b"), Options{Admit: func(h Hello) error { defer notify(asked); return admit(h) }})
	dialled, _ := connect(t, newTestLayer(t, testHello("a"), Options{}), b)
	<-asked
	for _, v := range []string{"", "stalled"} {
		verdict.Store(v)
		b.Rejudge()
		<-asked
	}
	if n := b.Counts().Untrusted; n != 0 {
		t.Fatalf("%d connections ended", n)
	}
	verdict.Store("removed")
	b.Rejudge()
	if _, err := dialled.Read(make([]byte, 1)); err == nil {
		t.Error("something was read")
	}
	if n := b.Counts().Untrusted; n != 1 {
		t.Errorf("%d connections ended", n)
	}
}
