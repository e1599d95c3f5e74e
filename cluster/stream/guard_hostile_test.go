package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// fixedRaft is a raft whose state never changes.
type fixedRaft struct {
	term, last uint64
	leader     raft.ServerID
}

func (f fixedRaft) CurrentTerm() uint64 { return f.term }
func (f fixedRaft) LastIndex() uint64   { return f.last }
func (f fixedRaft) CommitIndex() uint64 { return f.last }
func (f fixedRaft) LeaderWithID() (raft.ServerAddress, raft.ServerID) {
	return "", f.leader
}

func testGuard(r RaftView) *guard {
	g := newGuard(nil, func() (int64, bool) { return 1 << 30, true }, func(raft.RPCHeader, error) {})
	g.begin(r)
	return g
}

// TestRPCGuard is row 10 of the hostile list: requests of a broken or captured member.
func TestRPCGuard(t *testing.T) {
	t.Parallel()
	of := func(id string) raft.RPCHeader { return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(id)} }
	entries := func(term, prev uint64, logs ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{RPCHeader: of("b"), Term: term, PrevLogEntry: prev, Entries: logs}
	}
	sound := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}}})
	snapshot := func(change func(c *raft.InstallSnapshotRequest)) *raft.InstallSnapshotRequest {
		c := &raft.InstallSnapshotRequest{RPCHeader: of("b"), SnapshotVersion: 1, Term: 7, Size: 1 << 20,
			Configuration: sound}
		change(c)
		return c
	}
	huge := []byte{0x81, 0xa7, 'S', 'e', 'r', 'v', 'e', 'r', 's', 0xdd, 0xff, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		command any
		refused string
	}{
		"a heartbeat":                  {entries(7, 0), ""},
		"a term after an outage":       {entries(7+termLeapMax, 0), ""},
		"entries of a later term":      {entries(1<<40, 0), "term"},
		"the last term":                {entries(math.MaxUint64, 0), "term"},
		"a vote for the last term":     {&raft.RequestVoteRequest{Term: math.MaxUint64}, "term"},
		"a pre-vote for the last term": {&raft.RequestPreVoteRequest{Term: math.MaxUint64}, "term"},
		"a vote":                       {&raft.RequestVoteRequest{Term: 8}, ""},
		"an entry of a later term":     {entries(7, 3, &raft.Log{Index: 4, Term: 9}), "has term 9"},
		"an entry that is none":        {entries(7, 3, nil), "missing"},
		"an entry far ahead":           {entries(7, 3, &raft.Log{Index: 1 << 50, Term: 7}), "places"},
		"an entry of an unknown kind":  {entries(7, 3, &raft.Log{Index: 4, Term: 7, Type: 99}), "kind 99"},
		"a configuration": {entries(7, 3, &raft.Log{Index: 4, Term: 7, Type: raft.LogConfiguration, Data: sound}),
			""},
		"no configuration": {entries(7, 3, &raft.Log{Index: 4, Term: 7, Type: raft.LogConfiguration}),
			"decoded"},
		"a configuration cut short": {entries(7, 3, &raft.Log{Index: 4, Term: 7, Type: raft.LogConfiguration,
			Data: sound[:9]}), "decoded"},
		"a configuration of 2^32": {entries(7, 3, &raft.Log{Index: 4, Term: 7, Type: raft.LogConfiguration,
			Data: huge}), "decoded"}, "a snapshot": {snapshot(func(*raft.InstallSnapshotRequest) {}), ""},
		"a snapshot larger than a disk": {snapshot(func(c *raft.InstallSnapshotRequest) { c.Size = math.MaxInt64 }),
			"room"},
		"a snapshot of less than nought": {snapshot(func(c *raft.InstallSnapshotRequest) { c.Size = -1 }), "-1 bytes"},
		"a snapshot of no version": {snapshot(func(c *raft.InstallSnapshotRequest) { c.SnapshotVersion = 0 }),
			"version 0"},
		"a snapshot with junk for nodes": {snapshot(func(c *raft.InstallSnapshotRequest) {
			c.Configuration = []byte("junk")
		}), "decoded"}, "a handover of the leader": {&raft.TimeoutNowRequest{RPCHeader: of("b")}, ""},
		"a handover of another": {&raft.TimeoutNowRequest{RPCHeader: of("c")}, "not its own"},
		"a handover of no node": {&raft.TimeoutNowRequest{}, "not its own"},
		"not a request":         {"x", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := testGuard(fixedRaft{term: 7, last: 100, leader: "b"}).judge(c.command)
			if (err == nil) != (c.refused == "") || err != nil &&
				(!errors.Is(err, errGuarded) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
	t.Run("a fresh node joins a cluster of any age", func(t *testing.T) {
		t.Parallel()
		g := testGuard(fixedRaft{})
		if err := g.judge(entries(1<<40, 0)); err != nil {
			t.Error(err)
		}
		if err := g.judge(entries(math.MaxUint64, 0)); err == nil {
			t.Error("the last term is accepted")
		}
	})
	t.Run("handovers in a loop", func(t *testing.T) {
		t.Parallel()
		g, taken := testGuard(fixedRaft{term: 7, leader: "b"}), 0
		for range 10_000 {
			if g.judge(&raft.TimeoutNowRequest{RPCHeader: of("b")}) == nil {
				taken++
			}
		}
		if taken < maxHandovers || taken > maxHandovers+2 {
			t.Errorf("%d of 10000 were accepted", taken)
		}
	})
}

// obliging returns the configuration of a node without restrictions.
func obliging() TransportConfig {
	no := func() bool { return false }
	return TransportConfig{Silent: no, Muted: no, Wrong: no, OnDisk: func(index uint64) uint64 { return index }}
}

// TestRPCGuard_doesNotBelieveAnswers: answers are subject to the same bound, since an answer to a vote request would
// set this node's term.
func TestRPCGuard_doesNotBelieveAnswers(t *testing.T) {
	t.Parallel()
	transport := func(id rota.NodeID) *raft.NetworkTransport {
		to := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: newTestLayer(t, testHello(id),
			Options{}), MaxPool: 1, Timeout: 5 * time.Second, Logger: hclog.NewNullLogger()})
		t.Cleanup(func() { _ = to.Close() })
		return to
	}
	a, evil := &Transport{NetworkTransport: transport("a"), cfg: obliging()}, transport("b")
	go func() {
		for {
			select {
			case rpc := <-evil.Consumer():
				switch rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Term: math.MaxUint64}, nil)
				case *raft.RequestPreVoteRequest:
					rpc.Respond(&raft.RequestPreVoteResponse{Term: math.MaxUint64}, nil)
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{Term: math.MaxUint64}, nil)
				case *raft.InstallSnapshotRequest:
					rpc.Respond(&raft.InstallSnapshotResponse{Term: math.MaxUint64}, nil)
				}
			case <-t.Context().Done():
				return
			}
		}
	}()
	to, me := evil.LocalAddr(), raft.RPCHeader{ID: []byte("a")}
	for what, err := range map[string]error{
		"vote": a.RequestVote("b", to, &raft.RequestVoteRequest{RPCHeader: me, Term: 3}, &raft.RequestVoteResponse{}),
		"pre-vote": a.RequestPreVote("b", to, &raft.RequestPreVoteRequest{RPCHeader: me, Term: 3},
			&raft.RequestPreVoteResponse{}),
		"entries": a.AppendEntries("b", to, &raft.AppendEntriesRequest{RPCHeader: me, Term: 3},
			&raft.AppendEntriesResponse{}),
		"snapshot": a.InstallSnapshot("b", to, &raft.InstallSnapshotRequest{RPCHeader: me, Term: 3},
			&raft.InstallSnapshotResponse{}, bytes.NewReader(nil)),
	} {
		if !errors.Is(err, errGuarded) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// pipes is a stream layer over connections created by the test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return layerAddr("fuzz:1") }
func (p *pipes) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, os.ErrClosed
}

// FuzzRaftRequests feeds a member's bytes to raft's own decoder behind the meter and the guard. Requests that pass are
// handled by raft without a panic, and carry the member's own name.
func FuzzRaftRequests(f *testing.F) {
	for _, seed := range [][]byte{
		[]byte("\x00\x82\xa4Term\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xa2ID\xc4\x01b"),
		[]byte("\x00\x83\xa4Term\x07\xa2ID\xc4\x01a\xa2ID\xc4\x01b"),
		[]byte("\x00\x93\x03\xc4\x01a\xc4\x01x"),
		[]byte("\x01\x82\xa2ID\xa1b\xa4Term\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
		[]byte("\x00\x83\xa2ID\xa1b\xa4Term\x07\xa7Entries\x91\x84\xa5Index\x01\xa4Term\x07\xa4Type\x05\xa4Data\xc4\x01a"),
		[]byte("\x02\x84\xa2ID\xa1b\xa4Term\x07\xafSnapshotVersion\x01\xa4Size\x05hello"),
		[]byte("\x03\x81\xa2ID\xc4\x01b\x03\x81\xa2ID\xc4\x01b"),
		[]byte("\x04\x82\xa2ID\xa1b\xa4Term\x08"),
	} {
		f.Add(seed)
	}
	stream := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: stream, MaxPool: 1,
		Timeout: time.Second,
		Logger:  hclog.NewNullLogger()})
	guard := newGuard(transport.Consumer(), func() (int64, bool) { return 1 << 20, true },
		func(raft.RPCHeader, error) {})
	guard.begin(fixedRaft{term: 7, last: 100, leader: "b"})
	ctx, cancel := context.WithCancel(context.Background())
	go guard.run(ctx)
	go func() {
		for {
			select {
			case rpc := <-guard.out:
				if from := headerOf(rpc.Command).ID; string(from) != "b" {
					panic(fmt.Sprintf("a request of b's names %q: %+v", from, rpc.Command))
				}
				asRaft(rpc)
			case <-ctx.Done():
				return
			}
		}
	}()
	f.Cleanup(func() {
		cancel()
		_ = transport.Close()
	})
	layer := &Layer{opts: Options{}.withDefaults(), closed: stream.done}
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := &saidConn{said: bytes.NewReader(data), closed: make(chan struct{})}
		stream.conns <- &peerConn{Conn: conn, layer: layer, ended: make(chan struct{}),
			meter: frameMeter{max: 1 << 20, from: "b"}}
		<-conn.closed
	})
}

// saidConn is a connection whose whole input has already arrived.
type saidConn struct {
	net.Conn
	said   *bytes.Reader
	closed chan struct{}
}

func (c *saidConn) Read(p []byte) (int, error)  { return c.said.Read(p) }
func (c *saidConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *saidConn) RemoteAddr() net.Addr        { return layerAddr("fuzz:2") }
func (c *saidConn) Close() error                { close(c.closed); return nil }

// asRaft performs the first steps of raft on a request.
func asRaft(rpc raft.RPC) {
	switch c := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		for _, e := range c.Entries {
			if e.Type == raft.LogConfiguration {
				raft.DecodeConfiguration(e.Data)
			}
		}
		rpc.Respond(&raft.AppendEntriesResponse{Term: 7}, nil)
	case *raft.InstallSnapshotRequest:
		_, _ = io.Copy(io.Discard, rpc.Reader)
		raft.DecodeConfiguration(c.Configuration)
		rpc.Respond(&raft.InstallSnapshotResponse{Term: 7}, nil)
	default:
		rpc.Respond(&raft.RequestVoteResponse{Term: 7}, nil)
	}
}
