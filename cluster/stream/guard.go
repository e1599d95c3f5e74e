package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// termLeapMax is how far an answer or a request may be ahead of this node's term: twelve days of one election a
	// second. A term is kept forever and only grows, so one of 2^64-1 would be the cluster's last.
	termLeapMax = 1 << 20
	// termMax is the highest term that a node accepts while it holds nothing and has no term to compare with.
	termMax = 1 << 62
	// maxHandovers is how many elections others may make this node start in a burst, handoverEvery when another one is
	// allowed. Each ends a leadership.
	maxHandovers  = 8
	handoverEvery = 5 * time.Second
)

// errGuarded is wrapped by every error of the guard.
var errGuarded = errors.New("refused before raft")

// RaftView holds the methods of raft that the guard calls.
type RaftView interface {
	CurrentTerm() uint64
	LastIndex() uint64
	CommitIndex() uint64
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
}

// guard filters the requests between the transport and raft. Their senders are nodes of the cluster by certificate and
// hello; even so, one broken or captured node must not bring down all of them. hashicorp/raft accepts any term, starts
// an election each time it is asked to, writes a snapshot of any size, and panics on an entry of an unknown kind or a
// configuration that does not decode.
type guard struct {
	in  <-chan raft.RPC
	out chan raft.RPC
	// begun is closed once raft can be queried.
	begun chan struct{}
	raft  RaftView
	// room returns how many bytes a snapshot may have, and false if that is unknown.
	room func() (int64, bool)
	// refused is called for each rejection.
	refused func(from raft.RPCHeader, err error)

	mu        sync.Mutex
	handovers float64
	counted   time.Time
}

func newGuard(in <-chan raft.RPC, room func() (int64, bool), refused func(raft.RPCHeader, error)) *guard {
	return &guard{in: in, out: make(chan raft.RPC), begun: make(chan struct{}), room: room, refused: refused,
		handovers: maxHandovers}
}

// begin lets requests through, now that raft can be queried.
func (g *guard) begin(r RaftView) {
	g.raft = r
	close(g.begun)
}

// run checks requests until ctx ends.
func (g *guard) run(ctx context.Context) {
	select {
	case <-g.begun:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case rpc := <-g.in:
			if err := g.judge(rpc.Command); err != nil {
				g.refused(headerOf(rpc.Command), err)
				dropBody(rpc.Reader)
				rpc.Respond(nil, err)
				continue
			}
			if args, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
				if told := commitFirst(args, g.raft.CommitIndex()); told != nil {
					// The caller gets one answer, to the whole request.
					g.hand(ctx, raft.RPC{Command: told, RespChan: make(chan raft.RPCResponse, 1)})
				}
			}
			if !g.hand(ctx, rpc) {
				rpc.Respond(nil, raft.ErrTransportShutdown)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// hand passes a request to raft; it reports false if ctx ended first.
func (g *guard) hand(ctx context.Context, rpc raft.RPC) bool {
	select {
	case g.out <- rpc:
		return true
	case <-ctx.Done():
		return false
	}
}

// dropBody skips the part of a snapshot that has arrived. The rest will not come: a connection whose snapshot was
// answered ends (peerConn). Reading all of it, as raft does, would let the sender prolong it at will.
func dropBody(body io.Reader) {
	limited, ok := body.(*io.LimitedReader)
	if !ok {
		return
	}
	if buffered, ok := limited.R.(*bufio.Reader); ok {
		_, _ = buffered.Discard(buffered.Buffered())
	}
}

func headerOf(command any) raft.RPCHeader {
	if with, ok := command.(raft.WithRPCHeader); ok {
		return with.GetRPCHeader()
	}
	return raft.RPCHeader{}
}

// judge rejects requests that no sound node sends.
func (g *guard) judge(command any) error {
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		if err := g.judgeTerm(c.Term); err != nil {
			return err
		}
		return judgeEntries(c)
	case *raft.RequestVoteRequest:
		return g.judgeTerm(c.Term)
	case *raft.RequestPreVoteRequest:
		return g.judgeTerm(c.Term)
	case *raft.InstallSnapshotRequest:
		if err := g.judgeTerm(c.Term); err != nil {
			return err
		}
		return g.judgeSnapshot(c)
	case *raft.TimeoutNowRequest:
		return g.judgeHandover(c)
	default:
		return fmt.Errorf("%w: a request of a kind unknown to this version", errGuarded)
	}
}

func (g *guard) judgeTerm(term uint64) error {
	own := g.raft.CurrentTerm()
	if own == 0 && g.raft.LastIndex() == 0 {
		own = termMax - termLeapMax // an empty node may join a cluster of any age
	}
	return checkTerm(own, term)
}

func checkTerm(own, term uint64) error {
	if term <= own || term-own <= termLeapMax {
		return nil
	}
	return fmt.Errorf(
		"%w: term %d is more than %d ahead of this node's %d, which no elections explain. If the cluster is "+
			"there, join it again with an empty data directory and a new --node id", errGuarded, term, termLeapMax, own)
}

// judgeEntries rejects entries that raft would panic on.
func judgeEntries(c *raft.AppendEntriesRequest) error {
	for i, e := range c.Entries {
		switch {
		case e == nil:
			return fmt.Errorf("%w: entry %d of a request is missing", errGuarded, i)
		case e.Term > c.Term:
			return fmt.Errorf("%w: entry %d has term %d, its request %d", errGuarded, e.Index, e.Term, c.Term)
		case e.Index != c.PrevLogEntry+1+uint64(i):
			return fmt.Errorf("%w: entry %d comes %d places after entry %d", errGuarded, e.Index, i+1, c.PrevLogEntry)
		}
		switch e.Type {
		case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		case raft.LogConfiguration:
			if err := judgeConfiguration(e.Data); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: entry %d is of kind %d, unknown to this version", errGuarded, e.Index, e.Type)
		}
	}
	return nil
}

// judgeConfiguration decodes a configuration as raft will, which panics if it cannot.
func judgeConfiguration(data []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: a configuration that cannot be decoded: %v", errGuarded, r)
		}
	}()
	bounds := frameMeter{answers: true, max: frameSmallMax} // the decoder has no bounds
	if err := bounds.feed(data); err != nil || bounds.inside {
		return fmt.Errorf("%w: a configuration that cannot be decoded: %w", errGuarded,
			errors.Join(err, io.ErrUnexpectedEOF))
	}
	raft.DecodeConfiguration(data)
	return nil
}

func (g *guard) judgeSnapshot(c *raft.InstallSnapshotRequest) error {
	if c.SnapshotVersion < raft.SnapshotVersionMin+1 || c.SnapshotVersion > raft.SnapshotVersionMax {
		return fmt.Errorf("%w: a snapshot of version %d", errGuarded, c.SnapshotVersion)
	}
	if c.Size < 0 {
		return fmt.Errorf("%w: a snapshot of %d bytes", errGuarded, c.Size)
	}
	if room, known := g.room(); known && c.Size > room {
		return fmt.Errorf("%w: a snapshot of %d bytes, this node's disk has room for %d", errGuarded, c.Size, room)
	}
	return judgeConfiguration(c.Configuration)
}

// judgeHandover accepts a handover only from the leader that this node follows, at a limited rate.
func (g *guard) judgeHandover(c *raft.TimeoutNowRequest) error {
	if _, leader := g.raft.LeaderWithID(); leader == "" || string(leader) != string(c.ID) {
		return fmt.Errorf("%w: node %q hands over a leadership that is not its own", errGuarded, c.ID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.counted.IsZero() {
		g.handovers = min(maxHandovers, g.handovers+float64(now.Sub(g.counted))/float64(handoverEvery))
	}
	g.counted = now
	if g.handovers < 1 {
		return fmt.Errorf("%w: leadership was handed to this node too often: one election in %s is begun for others",
			errGuarded, handoverEvery)
	}
	g.handovers--
	return nil
}
