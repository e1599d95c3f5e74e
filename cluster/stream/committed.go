package stream

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// newsPatience is how long the news waits for an entry that is about to go out, and
// brings it by itself: so long as the leader takes to apply what was committed, to decide
// on it, and to hand the entry to raft.
const newsPatience = time.Millisecond

// commitNews sends followers at once how far the log is committed. hashicorp/raft
// sends it with the next entry, or once CommitTimeout has passed without one: on a
// quiet cluster a worker at a follower waited that long for its lease, and a shorter
// timeout costs every idle cluster an RPC at each of them.
//
// What is sent is one more AppendEntries of the leadership's own, without entries, as
// raft could have sent it: the entry before it is the one that this node has applied,
// by index and term. A follower that holds this very entry may take it for committed,
// whoever leads by now; any other refuses. Nothing is concluded from the answer:
// contact, leases and terms stay raft's affair.
//
// Where entries follow each other closely the next one brings the news, and the follower
// takes it out before it writes (commitFirst): a message each way less for every entry.
type commitNews struct {
	mu    sync.Mutex
	index uint64
	term  uint64
	// followers are those to which raft appends, fresh those that have no loop yet; more
	// says that there are such.
	followers map[raft.ServerID]*replicaNews
	fresh     []*replicaNews
	more      chan struct{}
}

// replicaNews is what the latest answered AppendEntries says of one.
type replicaNews struct {
	id      raft.ServerID
	address raft.ServerAddress
	// header and term are of the leadership that sent it.
	header raft.RPCHeader
	term   uint64
	// matched is the last entry that the follower was seen to hold, told the last one
	// that it knows to be committed.
	matched, told uint64
	// appending counts calls under way: their end is waited for, as raft's next one
	// brings the news by itself.
	appending int
	wake      chan struct{}
}

// applied notes that the leader applied a committed entry.
func (c *commitNews) applied(log *raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.term = log.Index, log.Term
	for _, f := range c.followers { // in any order: each has its own loop
		c.wake(f)
	}
}

// wake notifies a follower's loop where there is news for it and no call under way.
func (c *commitNews) wake(f *replicaNews) {
	if f.appending == 0 && f.told < c.index && f.matched >= c.index {
		notify(f.wake)
	}
}

// begin notes that raft appends to a follower.
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

// begun returns the followers to which raft appended for the first time since the last call.
func (c *commitNews) begun() []*replicaNews {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

// notify leaves a value in c, where none waits already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// end notes what a call of raft's said of the follower.
func (c *commitNews) end(f *replicaNews, address raft.ServerAddress, args *raft.AppendEntriesRequest, took bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.appending--
	if !took || args.Term < f.term {
		f.matched = 0 // until raft has found where the two logs meet
		return
	}
	f.address, f.header, f.term = address, args.RPCHeader, args.Term
	f.matched = args.PrevLogEntry + uint64(len(args.Entries))
	f.told = min(args.LeaderCommitIndex, f.matched)
	c.wake(f)
}

// next returns the message that a follower should get and where it answers; nil where
// there is none.
func (c *commitNews) next(f *replicaNews) (raft.ServerAddress, *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.appending > 0 || f.told >= c.index || f.matched < c.index {
		return "", nil
	}
	f.told = c.index // once: what gets lost raft makes up for
	return f.address, &raft.AppendEntriesRequest{RPCHeader: f.header, Term: f.term,
		PrevLogEntry: c.index, PrevLogTerm: c.term, LeaderCommitIndex: c.index}
}

// heartbeat reports whether a call carries no place in the log.
func heartbeat(args *raft.AppendEntriesRequest) bool {
	return args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0 && len(args.Entries) == 0
}

// append is AppendEntries, with its part of the news noted.
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

// tell brings the news to one follower until ctx ends.
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
			t.cfg.Told()
			_ = t.NetworkTransport.AppendEntries(f.id, address, args, &raft.AppendEntriesResponse{})
		}
	}
}

// commitFirst returns the part of a request that is only about commits; nil where it says
// nothing beyond index, or has no entries: then all of it is that part. raft writes a
// request's entries before it looks how far the log is committed, and a worker at this
// node would wait for that write.
func commitFirst(args *raft.AppendEntriesRequest, index uint64) *raft.AppendEntriesRequest {
	known := min(args.LeaderCommitIndex, args.PrevLogEntry) // what is beyond is not written yet
	if len(args.Entries) == 0 || known <= index {
		return nil
	}
	told := *args
	told.Entries, told.LeaderCommitIndex = nil, known
	return &told
}
