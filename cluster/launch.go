package cluster

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// launch stamps an entry, adds the round that is decided with it, and passes it to raft.
func (l *leadership) launch(batch []*proposal, ops int) {
	head := &fsmpb.Entry{Term: l.term}
	f := &launched{started: time.Now()}
	l.n.measures.EntryOps.Observe(float64(ops))
	f.seq = l.stamp(head)
	batch = l.withRound(batch, ops, rota.Clock(head.GetNowMs()))
	f.proposals = batch
	encoded := make([][]byte, len(batch))
	for i, p := range batch {
		encoded[i] = p.encoded
	}
	data, err := entry.SealCommands(head, encoded, l.n.replica.RulesInForce())
	if err != nil {
		for _, p := range batch {
			p.reply <- reply{err: rota.Refusef(rota.KindInternal, "entry", "entry cannot be encoded: %v", err)}
		}
		l.free()
		return
	}
	f.future = l.n.raft.Apply(data, raftTimeout)
	l.inFlight <- f
}

// wallsFresh is the maximum age of the wall clock readings in an entry.
const wallsFresh = 5 * time.Second

// stamp sets the entry's time as in SPEC §3.3: its previous stamp plus the time since, never far ahead of the applied
// clock, never below it.
func (l *leadership) stamp(e *fsmpb.Entry) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.n.sinceBoot()
	now := l.lastStamp + rota.Clock((at-l.lastAt)/time.Millisecond)
	if now > l.lastStamp {
		// Whole milliseconds are counted, the remainder is carried over.
		l.lastAt += time.Duration(now-l.lastStamp) * time.Millisecond
	}
	if limit := l.c + l.n.stampLead(); now > limit && !planted.uncappedTick() {
		now, l.lastAt = limit, at
	}
	now = max(now, l.c)
	l.lastStamp = now
	e.NowMs = int64(now)
	if l.walls != nil && (l.wallsSent == 0 || at-l.wallsSent >= time.Second) &&
		at-l.wallsAt < max(wallsFresh, l.n.cfg.Environment.Leap) {
		late := int64((at - l.wallsAt) / time.Millisecond)
		for _, w := range l.walls {
			e.WallMs = append(e.WallMs, w+late)
		}
		l.wallsSent = at
	}
	l.stampedSeq++
	return l.stampedSeq
}

// collect is the loop that fills entries. It first waits for a free slot: operations that arrive meanwhile share the
// next entry (group commit).
func (l *leadership) collect() {
	defer close(l.inFlight)
	var carried *proposal
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
		}
		if l.ctx.Err() != nil {
			l.refuse(carried)
			return
		}
		first := carried
		carried = nil
		if first == nil {
			if first = l.next(); first == nil {
				l.refuse()
				return
			}
		}
		l.filling.Store(true)
		var batch []*proposal
		var ops int
		batch, ops, carried = l.gather(first)
		if l.ctx.Err() != nil { // operations that arrived with the end no longer enter the log
			l.refuse(batch...)
			l.refuse(carried)
			return
		}
		l.launch(batch, ops)
		l.filling.Store(false)
	}
}
