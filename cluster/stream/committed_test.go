package stream

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestCommitNews_says checks, step by step, which messages are sent to one follower and when.
func TestCommitNews_says(t *testing.T) {
	t.Parallel()
	var c commitNews
	entries := func(prev uint64, count int, commit uint64) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("n1")}, Term: 7, PrevLogEntry: prev,
			PrevLogTerm: 6, Entries: make([]*raft.Log, count), LeaderCommitIndex: commit}
	}
	f := c.begin("n2")
	if fresh := c.begun(); len(fresh) != 1 || fresh[0] != f {
		t.Fatal("no append has begun before")
	}
	none := func(when string) {
		t.Helper()
		if _, args := c.next(f); args != nil || len(f.wake) > 0 {
			t.Fatalf("%s: %+v, notified %d", when, args, len(f.wake))
		}
	}
	c.applied(&raft.Log{Index: 11, Term: 6})
	none("during raft's call")
	c.end(f, "there:1", entries(10, 0, 9), true)
	none("of an entry that it was not seen to hold")
	c.begin("n2")
	if len(c.begun()) > 0 {
		t.Fatal("want one loop per follower")
	}
	c.end(f, "there:1", entries(10, 2, 9), true)
	<-f.wake
	to, args := c.next(f)
	if args == nil || to != "there:1" || args.Term != 7 || args.PrevLogEntry != 11 || args.PrevLogTerm != 6 ||
		args.LeaderCommitIndex != 11 ||
		len(args.Entries) != 0 || string(args.ID) != "n1" {
		t.Fatalf("sent %+v", args)
	}
	none("a second time")
	c.applied(&raft.Log{Index: 12, Term: 7})
	<-f.wake
	c.begin("n2")
	none("as raft's next call brings it")
	c.end(f, "there:1", entries(12, 1, 12), true)
	none("after raft has sent it")
	c.begin("n2")
	c.end(f, "there:1", entries(13, 1, 12), false)
	c.applied(&raft.Log{Index: 13, Term: 7})
	none("after a refusal, until the logs meet again")
}

// TestCommitFirst: the commit part of a request reaches raft before its entries, and the caller gets one answer, to the
// whole request.
func TestCommitFirst(t *testing.T) {
	t.Parallel()
	log := func(index uint64) *raft.Log { return &raft.Log{Index: index, Term: 7} }
	for name, c := range map[string]struct {
		args raft.AppendEntriesRequest
		told uint64 // 0 for none
	}{
		"entries behind a commit": {raft.AppendEntriesRequest{PrevLogEntry: 110, Entries: []*raft.Log{log(111)},
			LeaderCommitIndex: 108}, 108},
		"a commit of an unwritten entry": {raft.AppendEntriesRequest{PrevLogEntry: 110, Entries: []*raft.Log{log(111)},
			LeaderCommitIndex: 111}, 110},
		"no news": {raft.AppendEntriesRequest{PrevLogEntry: 110, Entries: []*raft.Log{log(111)},
			LeaderCommitIndex: 100}, 0},
		"no news before it is written": {raft.AppendEntriesRequest{PrevLogEntry: 100, Entries: []*raft.Log{log(101)},
			LeaderCommitIndex: 101}, 0},
		"no entries":  {raft.AppendEntriesRequest{PrevLogEntry: 110, LeaderCommitIndex: 108}, 0},
		"a heartbeat": {raft.AppendEntriesRequest{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := make(chan raft.RPC, 1)
			g := newGuard(in, func() (int64, bool) { return 0, true },
				func(_ raft.RPCHeader, err error) { t.Error(err) })
			g.begin(fixedRaft{term: 7, last: 100})
			go g.run(t.Context())
			args := c.args
			args.RPCHeader, args.Term, args.PrevLogTerm = raft.RPCHeader{ID: []byte("n1")}, 7, 6
			answer := make(chan raft.RPCResponse, 1)
			in <- raft.RPC{Command: &args, RespChan: answer}
			rpc := <-g.out
			if got := rpc.Command.(*raft.AppendEntriesRequest); c.told != 0 {
				if len(got.Entries) != 0 || got.LeaderCommitIndex != c.told || got.Term != 7 ||
					got.PrevLogEntry != args.PrevLogEntry ||
					got.PrevLogTerm != 6 || string(got.ID) != "n1" {
					t.Fatalf("sent %+v", got)
				}
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				rpc = <-g.out
			}
			if rpc.Command != any(&args) {
				t.Fatalf("raft gets %+v, not the received message", rpc.Command)
			}
			rpc.Respond(nil, ErrMute)
			if r := <-answer; r.Error == nil || len(answer) != 0 {
				t.Fatalf("answered %+v", r)
			}
		})
	}
}
