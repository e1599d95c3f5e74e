package stream

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// busyRaft is a raft in term 7 that knows of a commit only once it is done with the request
// that told of it.
type busyRaft struct {
	fixedRaft
	commit, applied atomic.Uint64
}

func (r *busyRaft) CommitIndex() uint64  { return r.commit.Load() }
func (r *busyRaft) AppliedIndex() uint64 { return r.applied.Load() }

// serve answers requests until ctx ends, and counts the snapshots that it takes.
func (r *busyRaft) serve(ctx context.Context, requests <-chan raft.RPC, working <-chan struct{}, taken *atomic.Int64) {
	for {
		select {
		case rpc := <-requests:
			switch c := rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				if len(c.Entries) > 0 {
					<-working
					r.commit.Store(c.LeaderCommitIndex)
				}
				rpc.Respond(&raft.AppendEntriesResponse{Term: r.term, Success: c.Term >= r.term}, nil)
			case *raft.InstallSnapshotRequest:
				taken.Add(1)
				_, _ = io.Copy(io.Discard, rpc.Reader)
				rpc.Respond(&raft.InstallSnapshotResponse{Term: r.term, Success: c.Term >= r.term}, nil)
			}
		case <-ctx.Done():
			return
		}
	}
}

// TestInstalled: raft takes a snapshot that is ahead of all that it knows to be committed,
// and of its term; every other is answered, and read to its end.
func TestInstalled(t *testing.T) {
	t.Parallel()
	sound := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}}})
	for name, c := range map[string]struct {
		term, index, commit, applied uint64
		// behind says that the entries which raise the commit to 200 are under way still.
		behind        bool
		taken, answer bool
	}{
		"ahead":                         {term: 7, index: 101, commit: 100, applied: 100, taken: true, answer: true},
		"that of the last commit":       {term: 7, index: 100, commit: 100, applied: 100, answer: true},
		"older":                         {term: 7, index: 50, commit: 100, applied: 100, answer: true},
		"older, of a later term":        {term: 8, index: 50, commit: 100, applied: 100, answer: true},
		"older, of an earlier term":     {term: 6, index: 50, commit: 100, applied: 100, taken: true},
		"older than what it began on":   {term: 7, index: 50, applied: 100, answer: true},
		"for a node that has nothing":   {term: 7, index: 50, taken: true, answer: true},
		"overtaken by entries":          {term: 7, index: 150, commit: 100, applied: 100, behind: true, answer: true},
		"ahead of entries on their way": {term: 7, index: 250, commit: 100, applied: 100, behind: true, taken: true, answer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &busyRaft{fixedRaft: fixedRaft{term: 7, last: 300}}
			r.commit.Store(c.commit)
			r.applied.Store(c.applied)
			requests := make(chan raft.RPC)
			g := newGuard(requests, func() (int64, bool) { return 1 << 30, true }, func(_ raft.RPCHeader, err error) { t.Error(err) })
			g.begin(r)
			var taken atomic.Int64
			working := make(chan struct{})
			go g.run(t.Context())
			go r.serve(t.Context(), g.out, working, &taken)
			if c.behind {
				requests <- raft.RPC{RespChan: make(chan raft.RPCResponse, 1), Command: &raft.AppendEntriesRequest{
					Term: 7, PrevLogEntry: c.commit, LeaderCommitIndex: 200, Entries: []*raft.Log{{Index: c.commit + 1, Term: 7}}}}
			}
			body, answers := bytes.NewReader(make([]byte, 1<<10)), make(chan raft.RPCResponse, 1)
			requests <- raft.RPC{Reader: io.LimitReader(body, 1<<10), RespChan: answers, Command: &raft.InstallSnapshotRequest{
				SnapshotVersion: 1, Term: c.term, LastLogIndex: c.index, Size: 1 << 10, Configuration: sound}}
			close(working)
			answer := <-answers
			if answer.Error != nil || answer.Response.(*raft.InstallSnapshotResponse).Success != c.answer {
				t.Errorf("the answer is %+v", answer)
			}
			if (taken.Load() > 0) != c.taken {
				t.Errorf("raft took %d snapshots", taken.Load())
			}
			if body.Len() > 0 {
				t.Errorf("%d bytes are left of the body: its sender never gets to the answer", body.Len())
			}
		})
	}
}
