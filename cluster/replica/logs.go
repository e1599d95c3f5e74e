package replica

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

// logPacker compresses attempts' logs for log entries and the archive, logUnpacker decompresses them. Both are safe for
// concurrent use.
var (
	logPacker = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithSingleSegment(true),
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

// UnpackLog decodes the output of packLog.
func UnpackLog(packed []byte) (joblog.Log, error) {
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

// WarmLogs creates the process-wide log compressor in advance: it holds channels, and one created in a bubble of
// testing/synctest cannot be used outside it.
func WarmLogs() error {
	packed, err := packLog((&joblog.Log{Head: []byte("one\n")}).Append(nil))
	if err != nil {
		return err
	}
	_, err = UnpackLog(packed)
	return err
}

// Logs holds the logs of open attempts of the workers that are or were connected to this node (SPEC §22.3). Beyond
// a bound, those not written to for longest are dropped.
type Logs struct {
	rp   *Replica
	most int

	mu    sync.Mutex
	of    map[rota.LeaseID]*list.Element
	Order *list.List // of *liveLog, the most recently written last
	bytes int
}

// liveLog is the log of one attempt.
type liveLog struct {
	lease  rota.LeaseID
	job    rota.JobID
	worker rota.WorkerID
	buffer joblog.Buffer
	size   int
}

// liveLogRoom is the approximate memory of a log in addition to its text, in bytes.
const liveLogRoom = 512

// NewLogs returns logs that hold up to most bytes.
func NewLogs(rp *Replica, most int) Logs {
	return Logs{rp: rp, most: most, of: make(map[rota.LeaseID]*list.Element), Order: list.New()}
}

// take adds a part to the log of a lease.
func (ll *Logs) take(lease *rota.Lease, part rota.LogPart) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	at := ll.of[lease.ID]
	if at == nil {
		at = ll.Order.PushBack(&liveLog{lease: lease.ID, job: lease.Job, worker: lease.Worker})
		ll.of[lease.ID] = at
	}
	ll.Order.MoveToBack(at)
	l := at.Value.(*liveLog)
	l.buffer.Take(part)
	ll.bytes -= l.size
	l.size = l.buffer.Size() + liveLogRoom
	ll.bytes += l.size
	for ll.bytes > ll.most && ll.Order.Len() > 1 {
		ll.remove(ll.Order.Front())
	}
}

func (ll *Logs) remove(at *list.Element) {
	l := ll.Order.Remove(at).(*liveLog)
	delete(ll.of, l.lease)
	ll.bytes -= l.size
}

// drop removes the log of a lease: its worker has sent it with the verb that ended the lease.
func (ll *Logs) drop(lease rota.LeaseID) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if at := ll.of[lease]; at != nil {
		ll.remove(at)
	}
}

// Here returns this node's part of the log of an attempt that may be open.
func (ll *Logs) Here(lease rota.LeaseID, after uint64) (l peer.NodeLog) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if at := ll.of[lease]; at != nil {
		l = peer.NodeLog{Known: true, Parts: at.Value.(*liveLog).buffer.Since(after)}
	}
	return l
}

// LogsEvery is how often a node checks which of its logs belong to ended leases.
const LogsEvery = 2 * time.Second

// Loop archives the logs held here of leases that their workers did not end, at each tick, which comes every LogsEvery.
func (ll *Logs) Loop(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
			ll.settle(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// settle proposes the logs of ended leases, and drops those that were archived or that the state will never archive
// (SPEC §22.4). The others are proposed again.
func (ll *Logs) settle(ctx context.Context) {
	for _, l := range ll.over() {
		packed, err := packLog(l.log)
		if err == nil {
			_, err = ll.rp.proposeOne(ctx, fsm.KeepLogOp(l.job, l.lease, l.worker, packed))
		}
		if ctx.Err() == nil && settlesLog(err) {
			ll.drop(l.lease)
		}
	}
}

// settlesLog reports whether a log whose proposal had this result need not be proposed again: it was archived, or the
// state no longer knows its lease. A temporary cause, such as a mode or a full disk, settles nothing.
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

// overLog is the log of an ended lease.
type overLog struct {
	lease  rota.LeaseID
	job    rota.JobID
	worker rota.WorkerID
	log    []byte
}

// maxOver bounds the logs proposed at a time.
const maxOver = 64

// over returns the logs of leases that have ended, as far as this node knows.
func (ll *Logs) over() (over []overLog) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if ll.Order.Len() == 0 {
		return nil
	}
	ll.rp.Look(func(s *fsm.View) {
		for at := ll.Order.Front(); at != nil; at = at.Next() {
			l := at.Value.(*liveLog)
			if _, open := s.Assignment(l.lease); !open {
				log := l.buffer.Log()
				over = append(over, overLog{l.lease, l.job, l.worker, log.Append(nil)})
				if len(over) == maxOver {
					return
				}
			}
		}
	})
	return over
}

// endsLease reports whether a verb carries its handler's log.
func endsLease(v rota.LeaseVerb) bool {
	return v == rota.VerbComplete || v == rota.VerbFail || v == rota.VerbDecline
}

// packLogs compresses the logs of verbs before they enter the log of entries.
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

// Logged adds the log parts sent by handlers of this session. Parts for a lease that is not open in this session are
// ignored: the lease may have ended, and a session must not write into another's.
func (s *WorkerSession) Logged(logged []peer.Logged) {
	for i := range logged {
		var a rota.Assignment
		var open bool
		s.rp.Look(func(m *fsm.View) { a, open = m.Assignment(logged[i].Lease) })
		if open && a.Lease.Worker == s.worker && a.Lease.Session == s.session {
			s.logs.take(&a.Lease, logged[i].Part)
		}
	}
}
