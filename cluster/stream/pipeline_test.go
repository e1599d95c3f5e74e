package stream

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// piped is a pipeline from node a to node b, whose calls the test answers.
type piped struct {
	raft.AppendPipeline
	from, to *Transport
	muted    atomic.Bool
	onDisk   atomic.Uint64
}

// newPiped makes one whose ends know all entries up to 100, in term 7.
func newPiped(t *testing.T) *piped {
	t.Helper()
	p := &piped{}
	p.onDisk.Store(1 << 40)
	ctx, stop := context.WithCancel(context.Background())
	end := func(id rota.NodeID) *Transport {
		trans := NewTransport(TransportConfig{Layer: newTestLayer(t, testHello(id), Options{}), Logger: slog.New(slog.DiscardHandler),
			Address: func(rota.NodeID) (string, bool) { return "", false }, Muted: p.muted.Load,
			OnDisk: func(index uint64) uint64 { return min(index, p.onDisk.Load()) }, Room: func() (int64, bool) { return 0, false },
			Leads: func() (bool, bool) { return false, false }, Told: func() {}})
		trans.Begin(fixedRaft{term: 7, last: 100})
		ran := make(chan struct{})
		go func() { trans.Run(ctx); close(ran) }()
		t.Cleanup(func() { stop(); _ = trans.Close(); <-ran })
		return trans
	}
	p.from, p.to = end("a"), end("b")
	var err error
	if p.AppendPipeline, err = p.from.AppendEntriesPipeline("b", p.to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// send sends an entry of a size.
func (p *piped) send(index uint64, size int) error {
	args := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("a"), Addr: []byte("a:1")}, Term: 7,
		PrevLogEntry: index - 1, PrevLogTerm: 7, LeaderCommitIndex: 100, Entries: []*raft.Log{{Index: index, Term: 7, Data: make([]byte, size)}}}
	_, err := p.AppendEntries(args, new(raft.AppendEntriesResponse))
	return err
}

// arrives returns the next call as the follower gets it.
func (p *piped) arrives(t *testing.T) (raft.RPC, *raft.AppendEntriesRequest) {
	t.Helper()
	select {
	case rpc := <-p.to.Consumer():
		return rpc, rpc.Command.(*raft.AppendEntriesRequest)
	case <-time.After(10 * time.Second):
		t.Fatal("no call arrives")
		return raft.RPC{}, nil
	}
}

// answered returns the next answer as raft gets it.
func (p *piped) answered(t *testing.T) raft.AppendFuture {
	t.Helper()
	select {
	case f := <-p.Consumer():
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no answer comes")
		return nil
	}
}

// stands fails the test if what is done in the background is done before it may be.
func stands(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("it was not waited: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

// within returns what came of what is done in the background.
func within(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for ever")
		return nil
	}
}

func yes(index uint64) *raft.AppendEntriesResponse {
	return &raft.AppendEntriesResponse{Term: 7, LastLog: index, Success: true}
}

// TestPipeline: calls go out before those before them are answered, in order and within bounds.
func TestPipeline(t *testing.T) {
	t.Parallel()
	send := func(p *piped, index uint64, size int) <-chan error {
		done := make(chan error, 1)
		go func() { done <- p.send(index, size) }()
		return done
	}
	t.Run("in order, so many at a time", func(t *testing.T) {
		t.Parallel()
		p := newPiped(t)
		for i := range uint64(pipelineMost) {
			if err := within(t, send(p, 101+i, 10)); err != nil {
				t.Fatal(err)
			}
		}
		more := send(p, 101+pipelineMost, 10)
		stands(t, more)
		for i := range uint64(pipelineMost + 1) {
			rpc, args := p.arrives(t)
			if args.Entries[0].Index != 101+i {
				t.Fatalf("entry %d arrives, %d is next", args.Entries[0].Index, 101+i)
			}
			rpc.Respond(yes(101+i), nil)
			if f := p.answered(t); f.Response().LastLog != 101+i || f.Request().Entries[0].Index != 101+i {
				t.Fatalf("answered %+v", f.Response())
			}
			if i == 0 {
				if err := within(t, more); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.from.news.mu.Lock()
		defer p.from.news.mu.Unlock()
		if f := p.from.news.followers["b"]; f.appending != 0 || f.matched != 101+pipelineMost || f.told != 100 {
			t.Errorf("noted of the follower: %+v", f)
		}
	})
	t.Run("so many bytes at a time", func(t *testing.T) {
		t.Parallel()
		p := newPiped(t)
		if err := within(t, send(p, 101, pipelineBytes+1)); err != nil { // one goes, however large it is
			t.Fatal(err)
		}
		more := send(p, 102, 1)
		stands(t, more)
		rpc, _ := p.arrives(t)
		rpc.Respond(yes(101), nil)
		p.answered(t)
		if err := within(t, more); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("what must not be said is not", func(t *testing.T) {
		t.Parallel()
		p := newPiped(t)
		p.onDisk.Store(90)
		if err := within(t, send(p, 101, 10)); err != nil {
			t.Fatal(err)
		}
		if _, args := p.arrives(t); args.LeaderCommitIndex != 90 {
			t.Errorf("a commit of %d is told, up to 90 is on the disk", args.LeaderCommitIndex)
		}
		p.muted.Store(true)
		if err := within(t, send(p, 102, 10)); !errors.Is(err, ErrMute) {
			t.Errorf("a muted node: %v", err)
		}
	})
}

// TestPipeline_ends: the first answer that is no yes is the last, and nobody waits for a
// place that never comes, though raft takes no answer any more.
func TestPipeline_ends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  *raft.AppendEntriesResponse
		err     error
		learned bool
	}{
		"a refusal":                    {&raft.AppendEntriesResponse{Term: 7, LastLog: 99}, nil, true},
		"a later term":                 {&raft.AppendEntriesResponse{Term: 8, Success: true}, nil, true},
		"an error":                     {nil, errors.New("disk"), false},
		"a term that nobody can be at": {&raft.AppendEntriesResponse{Term: 7 + termLeapMax + 1}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPiped(t)
			sent := make(chan error, 1)
			go func() {
				for i := uint64(101); ; i++ {
					if err := p.send(i, 10); err != nil {
						sent <- err
						return
					}
				}
			}()
			rpc, _ := p.arrives(t)
			if c.answer == nil {
				rpc.Respond(nil, c.err)
			} else {
				rpc.Respond(c.answer, nil)
			}
			if c.learned {
				if f := p.answered(t); f.Response().Term != c.answer.Term || f.Response().Success != c.answer.Success {
					t.Errorf("raft learns of %+v", f.Response())
				}
			}
			if err := within(t, sent); err == nil {
				t.Error("sending goes on")
			}
			select {
			case f := <-p.Consumer():
				t.Errorf("raft learns of %+v", f.Response())
			case <-time.After(20 * time.Millisecond):
			}
			p.from.news.mu.Lock()
			defer p.from.news.mu.Unlock()
			if f := p.from.news.followers["b"]; f.appending != 0 || f.matched != 0 {
				t.Errorf("noted of the follower: %+v", f)
			}
		})
	}
	t.Run("a connection that ends", func(t *testing.T) {
		t.Parallel()
		p := newPiped(t)
		if err := p.send(101, 10); err != nil {
			t.Fatal(err)
		}
		p.arrives(t)
		_ = p.to.cfg.Layer.Close()
		for deadline := time.Now().Add(10 * time.Second); p.send(102, 10) == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("sending goes on")
			}
		}
	})
}
