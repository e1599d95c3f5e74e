package stream

import (
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// pipelineMost bounds the unanswered calls of a pipeline: as many as a leader has
	// entries under way, so that none waits for the answer to the one before it.
	pipelineMost = 8
	// pipelineBytes bounds the data of the entries in them, so that a follower that is
	// far behind costs little more memory than one call does, which may have 32 MiB.
	pipelineBytes = 4 << 20
)

// pipeline sends appends to one follower before those before them are answered. It
// stands before hashicorp/raft's own, which hangs: in 1.7.3 nobody takes its answers any
// more after one that refuses, its sender waits for a place for ever, and raft counts an
// answer that never came as contact with the follower.
//
// Here the answers are always taken. The first that refuses, fails or cannot be believed
// is the last, and whoever sends learns of it at once. raft gets those that refuse, as it
// has to learn of a later term, and none that is not the follower's word; then it goes on
// call by call.
//
// A connection carries the calls, and a follower reads the next one when it has answered
// the one before: they arrive in order, and only one at a time is in its memory.
type pipeline struct {
	t      *Transport
	inner  raft.AppendPipeline
	id     raft.ServerID
	target raft.ServerAddress
	// done passes answers to raft; ended is closed when it wants no more.
	done  chan raft.AppendFuture
	ended chan struct{}

	mu sync.Mutex
	// changed is notified when there may be room for a call, or nothing comes any more.
	changed sync.Cond
	// open are the calls without an answer, oldest first.
	open  []pipelined
	bytes int
	over  bool
}

// pipelined is one call.
type pipelined struct {
	news  *replicaNews
	bytes int
}

// AppendEntriesPipeline returns a pipeline to a follower.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	target = meant(id, target)
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	p := &pipeline{t: t, inner: inner, id: id, target: target, done: make(chan raft.AppendFuture), ended: make(chan struct{})}
	p.changed.L = &p.mu
	go p.run()
	return p, nil
}

// AppendEntries implements raft.AppendPipeline: it sends once there is room, and fails at
// once where nothing is sent any more.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	args, err := p.t.sayable(args)
	if err != nil {
		return nil, err
	}
	if !p.begin(args) {
		return nil, raft.ErrPipelineShutdown
	}
	future, err := p.inner.AppendEntries(args, resp)
	if err != nil {
		p.finish()
		return nil, err
	}
	return future, nil
}

// begin waits for room for a call; it reports false where none is sent any more.
func (p *pipeline) begin(args *raft.AppendEntriesRequest) bool {
	size := 0
	for _, e := range args.Entries {
		size += len(e.Data)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && len(p.open) > 0 && (len(p.open) >= pipelineMost || p.bytes+size > pipelineBytes) {
		p.changed.Wait()
	}
	if p.over {
		return false
	}
	p.open = append(p.open, pipelined{p.t.news.begin(p.id), size})
	p.bytes += size
	return true
}

// answered notes what came of the oldest call.
func (p *pipeline) answered(args *raft.AppendEntriesRequest, took bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		return // what was sent with the end
	}
	p.t.news.end(p.open[0].news, p.target, args, took)
	p.bytes -= p.open[0].bytes
	p.open = p.open[1:]
	p.changed.Broadcast()
}

// finish ends the sending. Of calls without an answer nobody knows what came of them.
func (p *pipeline) finish() {
	p.mu.Lock()
	was := p.over
	p.over = true
	for _, c := range p.open {
		p.t.news.end(c.news, p.target, &raft.AppendEntriesRequest{}, false)
	}
	p.open = nil
	p.changed.Broadcast()
	p.mu.Unlock()
	if !was {
		_ = p.inner.Close() // it returns no error; the peer sees the end
	}
}

// run takes answers until one ends the pipeline.
func (p *pipeline) run() {
	defer p.finish()
	for {
		var future raft.AppendFuture
		select {
		case future = <-p.inner.Consumer():
		case <-p.ended:
			return
		}
		args, resp := future.Request(), future.Response()
		err := future.Error()
		if err == nil {
			err = checkTerm(args.Term, resp.Term)
		}
		sound := err == nil && resp.Success && resp.Term <= args.Term
		p.answered(args, err == nil && resp.Success)
		if err != nil {
			return
		}
		if !sound {
			p.finish() // before raft knows: from then on it takes no answer
		}
		select {
		case p.done <- future:
		case <-p.ended:
			return
		}
		if !sound {
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline; raft calls it once.
func (p *pipeline) Close() error {
	p.finish()
	close(p.ended)
	return nil
}
