package stream

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// newsPatience is how long a commit message waits for an entry that is about to be sent and would carry the news: the
// time that the leader needs to apply the committed entry, decide on it, and pass the new entry to raft.
const newsPatience = time.Millisecond

// commitNews notifies followers immediately how far the log is committed. hashicorp/raft sends this with the next
// entry, or once CommitTimeout has passed without one. On a quiet cluster a worker at a follower waited that long for
// its lease, and a shorter timeout would cost every idle cluster an RPC per timeout.
//
// The message is an additional AppendEntries of the same leadership, without entries, as raft could have sent it: its
// previous entry is the one that this node has applied, by index and term. A follower that holds this exact entry may
// treat it as committed, even if the leader has changed; any other follower rejects it. The answer has no effect:
// contact, leases and terms remain raft's responsibility.
//
// If entries follow each other closely, the next one carries the news, and the follower processes that part before it
// writes (commitFirst): this saves one message each way per entry.
type commitNews struct {
	mu    sync.Mutex
	index uint64
	term  uint64
	// followers are those that raft appends to, fresh those that have no loop yet; more signals that there are some.
	followers map[raft.ServerID]*replicaNews
	fresh     []*replicaNews
	more      chan struct{}
}

// replicaNews holds what the last answered AppendEntries revealed about one follower.
type replicaNews struct {
	id      raft.ServerID
	address raft.ServerAddress
	// header and term belong to the leadership that sent it.
	header raft.RPCHeader
	term   uint64
	// matched is the last entry that the follower is known to hold, notified the last one that it knows to be
	// committed.
	matched, notified uint64
	// appending counts calls in progress: no message is sent before they end, since raft's next call carries the news
	// anyway.
	appending int
	wake      chan struct{}
}

// applied records that the leader applied a committed entry.
func (c *commitNews) applied(log *raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.term = log.Index, log.Term
	for _, f := range c.followers { // in any order: each has its own loop
		c.wake(f)
	}
}

// wake notifies a follower's loop if there is news for it and no call in progress.
func (c *commitNews) wake(f *replicaNews) {
	if f.appending == 0 && f.notified < c.index && f.matched >= c.index {
		notify(f.wake)
	}
}

// begin records that raft appends to a follower.
func (c *commitNews) begin(id raft.ServerID) *replicaNews {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followers[id]
	if f == nil {
		if c.followers == nil {
			c.followers = make(map[raft.ServerID]*replicaNews)
		}
		f = &replicaNews{id: id, wake: make(chan struct{}, 1)}
		c.followers[id] = f
		c.fresh = append(c.fresh, f)
		notify(c.more)
	}
	f.appending++
	return f
}

// begun returns the followers that raft appended to for the first time since the last call.
func (c *commitNews) begun() []*replicaNews {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

// notify puts a value into c unless one is pending.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// end records what a call of raft revealed about the follower.
func (c *commitNews) end(f *replicaNews, address raft.ServerAddress, args *raft.AppendEntriesRequest, took bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.appending--
	if !took || args.Term < f.term {
		f.matched = 0 // until raft has found the last common entry of the two logs
		return
	}
	f.address, f.header, f.term = address, args.RPCHeader, args.Term
	f.matched = args.PrevLogEntry + uint64(len(args.Entries))
	f.notified = min(args.LeaderCommitIndex, f.matched)
	c.wake(f)
}

// next returns the message for a follower and its address; nil if there is none.
func (c *commitNews) next(f *replicaNews) (raft.ServerAddress, *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.appending > 0 || f.notified >= c.index || f.matched < c.index {
		return "", nil
	}
	f.notified = c.index // sent once: raft makes up for a lost one
	return f.address, &raft.AppendEntriesRequest{RPCHeader: f.header, Term: f.term,
		PrevLogEntry: c.index, PrevLogTerm: c.term, LeaderCommitIndex: c.index}
}

// heartbeat reports whether a call carries no log position.
func heartbeat(args *raft.AppendEntriesRequest) bool {
	return args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0 && len(args.Entries) == 0
}

// append is AppendEntries, recording what it reveals about commits.
func (t *Transport) append(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if heartbeat(args) {
		return t.NetworkTransport.AppendEntries(id, target, args, resp)
	}
	f := t.news.begin(id)
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	t.news.end(f, target, args, err == nil && resp.Success)
	return err
}

// tell sends the news to one follower until ctx ends.
func (t *Transport) tell(ctx context.Context, f *replicaNews) {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		leads, soon := t.cfg.Leads()
		if !leads || t.cfg.Muted() {
			continue
		}
		if soon {
			patience := time.NewTimer(newsPatience)
			select {
			case <-patience.C:
			case <-ctx.Done():
				patience.Stop()
				return
			}
		}
		if address, args := t.news.next(f); args != nil {
			t.cfg.Notified()
			_ = t.NetworkTransport.AppendEntries(f.id, address, args, &raft.AppendEntriesResponse{})
		}
	}
}

// commitFirst returns the part of a request that only concerns commits; nil if it contains nothing beyond index, or if
// the request has no entries and so is entirely that part. raft writes a request's entries before it processes the
// commit index, and a worker at this node would wait for that write.
func commitFirst(args *raft.AppendEntriesRequest, index uint64) *raft.AppendEntriesRequest {
	known := min(args.LeaderCommitIndex, args.PrevLogEntry) // later entries are not written yet
	if len(args.Entries) == 0 || known <= index {
		return nil
	}
	told := *args
	told.Entries, told.LeaderCommitIndex = nil, known
	return &told
}
