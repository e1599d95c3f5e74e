package cluster

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/peer"
)

// logPacker packs attempts' logs for the log of entries and the archive, logUnpacker reads
// them back. Both are safe for concurrent use.
var (
	logPacker = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true),
			zstd.WithEncoderCRC(false))
	})
	logUnpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<20))
	})
)

// packLog compresses the encoding of a log.
func packLog(log []byte) ([]byte, error) {
	z, err := logPacker()
	if err != nil {
		return nil, rota.Refusef(rota.KindInternal, "log", "no compressor: %v", err)
	}
	return z.EncodeAll(log, nil), nil
}

// unpackLog reads what packLog made.
func unpackLog(packed []byte) (joblog.Log, error) {
	z, err := logUnpacker()
	if err != nil {
		return joblog.Log{}, rota.Refusef(rota.KindInternal, "log", "no decompressor: %v", err)
	}
	log, err := z.DecodeAll(packed, nil)
	if err != nil {
		return joblog.Log{}, rota.Refusef(rota.KindInternal, "log", "the archived log is damaged: %v", err)
	}
	return joblog.Decode(log)
}

// WarmLogs makes what packs logs, which the process makes once and keeps: it holds channels, and one
// that was made in a bubble of testing/synctest is nobody else's.
func WarmLogs() error {
	packed, err := packLog((&joblog.Log{Head: []byte("one\n")}).Append(nil))
	if err != nil {
		return err
	}
	_, err = unpackLog(packed)
	return err
}

// liveLogs are the logs of attempts that are open, of the workers that are connected to this
// node, or were (SPEC §22.3). Beyond a bound those that were written to longest
// ago give way.
type liveLogs struct {
	n    *base
	most int

	mu    sync.Mutex
	of    map[rota.LeaseID]*list.Element
	order *list.List // of *liveLog, the one written to last behind
	bytes int
}

// liveLog is one of them.
type liveLog struct {
	lease  rota.LeaseID
	job    rota.JobID
	worker rota.WorkerID
	buffer joblog.Buffer
	size   int
}

// liveLogRoom is about what a log takes beside its text.
const liveLogRoom = 512

func newLiveLogs(most int) liveLogs {
	return liveLogs{most: most, of: make(map[rota.LeaseID]*list.Element), order: list.New()}
}

// take adds a piece to the log of a lease.
func (ll *liveLogs) take(lease *rota.Lease, part rota.LogPart) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	at := ll.of[lease.ID]
	if at == nil {
		at = ll.order.PushBack(&liveLog{lease: lease.ID, job: lease.Job, worker: lease.Worker})
		ll.of[lease.ID] = at
	}
	ll.order.MoveToBack(at)
	l := at.Value.(*liveLog)
	l.buffer.Take(part)
	ll.bytes -= l.size
	l.size = l.buffer.Size() + liveLogRoom
	ll.bytes += l.size
	for ll.bytes > ll.most && ll.order.Len() > 1 {
		ll.remove(ll.order.Front())
	}
}

func (ll *liveLogs) remove(at *list.Element) {
	l := ll.order.Remove(at).(*liveLog)
	delete(ll.of, l.lease)
	ll.bytes -= l.size
}

// drop forgets the log of a lease: its worker has brought it with the verb that ended it.
func (ll *liveLogs) drop(lease rota.LeaseID) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if at := ll.of[lease]; at != nil {
		ll.remove(at)
	}
}

// here returns what this node has of the log of an attempt that may be open.
func (ll *liveLogs) here(lease rota.LeaseID, after uint64) (l peer.NodeLog) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if at := ll.of[lease]; at != nil {
		l = peer.NodeLog{Known: true, Parts: at.Value.(*liveLog).buffer.Since(after)}
	}
	return l
}

// logsEvery is how often a node looks which of its logs are of leases that are over.
const logsEvery = 2 * time.Second

// loop has what is here of leases that their workers did not end kept.
func (ll *liveLogs) loop() {
	tick := ll.n.ticker(logsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			ll.settle(ll.n.life)
		case <-ll.n.life.Done():
			return
		}
	}
}

// settle proposes the logs of leases that are over, and forgets those that were kept or that
// the state will never keep (SPEC §22.4). The others are proposed again.
func (ll *liveLogs) settle(ctx context.Context) {
	for _, l := range ll.over() {
		packed, err := packLog(l.log)
		if err == nil {
			_, _, err = ll.n.proposer.proposeOne(ctx, fsm.KeepLogOp(l.job, l.lease, l.worker, packed))
		}
		if ctx.Err() == nil && settlesLog(err) {
			ll.drop(l.lease)
		}
	}
}

// settlesLog reports whether a log whose proposal ended so need not be proposed again: it was
// kept, or is of what the state does not know any more. Whatever passes, such as a mode or a
// full disk, settles nothing.
func settlesLog(err error) bool {
	if err == nil {
		return true
	}
	switch rota.KindOf(err) {
	case rota.KindInvalid, rota.KindNotFound, rota.KindConflict, rota.KindStale, rota.KindInternal:
		return true
	}
	return false
}

// overLog is the log of a lease that is over.
type overLog struct {
	lease  rota.LeaseID
	job    rota.JobID
	worker rota.WorkerID
	log    []byte
}

// overMost bounds those that are proposed at a time.
const overMost = 64

// over returns the logs of leases that are over, as this node knows.
func (ll *liveLogs) over() (over []overLog) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if ll.order.Len() == 0 {
		return nil
	}
	ll.n.replica.look(func(s *fsm.View) {
		for at := ll.order.Front(); at != nil; at = at.Next() {
			l := at.Value.(*liveLog)
			if _, open := s.Assignment(l.lease); !open {
				log := l.buffer.Log()
				over = append(over, overLog{l.lease, l.job, l.worker, log.Append(nil)})
				if len(over) == overMost {
					return
				}
			}
		}
	})
	return over
}

// endsLease reports whether a verb brings its handler's log.
func endsLease(v rota.LeaseVerb) bool {
	return v == rota.VerbComplete || v == rota.VerbFail || v == rota.VerbDecline
}

// packLogs packs the logs of verbs on their way into the log of entries.
func packLogs(commands []peer.LeaseCommand) error {
	for i := range commands {
		if log := commands[i].Log; len(log) > 0 {
			packed, err := packLog(log)
			if err != nil {
				return err
			}
			commands[i].Log = packed
		}
	}
	return nil
}

// Logged takes what handlers of this session logged. What is of no open lease of it is
// passed over: it may have ended, and nobody writes into another's.
func (s *WorkerSession) Logged(logged []peer.Logged) {
	for i := range logged {
		var a rota.Assignment
		var open bool
		s.n.replica.look(func(m *fsm.View) { a, open = m.Assignment(logged[i].Lease) })
		if open && a.Lease.Worker == s.worker && a.Lease.Session == s.session {
			s.logs.take(&a.Lease, logged[i].Part)
		}
	}
}
