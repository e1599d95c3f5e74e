package stream

import (
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestHeartbeatsGoThroughTheMainLoop checks that raft handles heartbeats in its main loop: concurrently with it, they
// change the term of a leader that stores entries.
func TestHeartbeatsGoThroughTheMainLoop(t *testing.T) {
	t.Parallel()
	listen := func() *raft.NetworkTransport {
		trans, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, 5*time.Second, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { trans.CloseStreams(); _ = trans.Close() })
		return trans
	}
	to, from := listen(), listen()
	mine := &Transport{NetworkTransport: to, guard: newGuard(to.Consumer(), nil,
		func(_ raft.RPCHeader, err error) { t.Error(err) })}
	mine.Begin(fixedRaft{term: 7})
	go mine.Run(t.Context())
	var seen raft.Transport = mine
	if _, ok := seen.(raft.WithPreVote); !ok {
		t.Fatal("the pre-vote is lost")
	}
	seen.SetHeartbeatHandler(func(raft.RPC) { t.Error("a heartbeat was handled outside the main loop") })
	answered := make(chan error, 1)
	go func() {
		heartbeat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax,
			Addr: []byte(from.LocalAddr())}, Term: 7}
		answered <- from.AppendEntries("to", to.LocalAddr(), &heartbeat, &raft.AppendEntriesResponse{})
	}()
	select {
	case rpc := <-seen.Consumer():
		if request, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok || request.Term != 7 {
			t.Fatalf("%+v came", rpc.Command)
		}
		rpc.Respond(&raft.AppendEntriesResponse{}, nil)
	case <-time.After(10 * time.Second):
		t.Fatal("no heartbeat came to the main loop")
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}
