package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// maxWelcome is how long a node may take to welcome the worker.
const maxWelcome = 5 * time.Second

// stream is one connection of a worker to a node. One goroutine receives, one sends; both end with serve.
type stream struct {
	table    *leaseTable
	node     *node
	takeover bool
	// connection is its number, larger than those of the worker's earlier connections (SPEC §16.7).
	connection uint64

	grpc grpc.BidiStreamingClient[rotav1.WorkRequest, rotav1.WorkResponse]
	// name and session are from the Welcome.
	name    rota.NodeID
	session rota.Session
	// welcomed: the node accepted the worker; healthy: it also answered a beat.
	welcomed, healthy bool
	// shown is the token that the stream began with.
	shown *shownToken
}

// serve runs until the stream breaks, or returns nil after the Bye.
func (s *stream) serve(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		// The cause on this side is more useful than the stream's status.
		if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errNoBeat) || errors.Is(cause, errOtherToken)) {
			err = &rota.Error{Kind: rota.KindUnavailable, Text: cause.Error()}
		}
	}()
	if err := s.open(ctx, cancel); err != nil {
		return err
	}
	s.table.welcome(s.session)
	s.table.taken.Store(true)
	s.table.log.Info("connected", "address", s.node.address, "node", string(s.name))
	s.table.tellConnection(s.table.worker.observer.Connected, s, nil)
	sent := make(chan struct{})
	go func() { defer close(sent); s.send(ctx, cancel) }()
	defer func() { cancel(nil); <-sent }()
	for {
		var response words.FromNode
		err := s.grpc.RecvMsg(&response)
		if err == nil {
			s.take(&response)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && s.table.saidBye():
			return nil
		case errors.Is(err, io.EOF):
			return rota.Refusef(rota.KindUnavailable, "", "the node ended the stream")
		default:
			return err
		}
	}
}

// open sends hello and waits for the welcome.
func (s *stream) open(ctx context.Context, cancel context.CancelCauseFunc) (err error) {
	w := s.table.worker
	s.shown = s.node.shows.shown()
	late := time.AfterFunc(maxWelcome, func() { cancel(errNoBeat) })
	defer late.Stop()
	if s.grpc, err = s.node.workers.Work(ctx); err != nil {
		return err
	}
	spec := w.registered()
	hello := &rotav1.Hello{Worker: words.WorkerSpecToWire(&spec), Secret: w.secret, Takeover: s.takeover,
		Attestation: words.AttestationToWire(w.attested), Connection: s.connection, Grace: true}
	if s.takeover {
		hello.OldSecret = w.old
	}
	_ = s.grpc.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}}) // Recv returns the error
	var response words.FromNode
	err = s.grpc.RecvMsg(&response)
	if errors.Is(err, io.EOF) {
		return rota.Refusef(rota.KindUnavailable, "", "the node ended the stream instead of a welcome")
	}
	if err != nil {
		return err
	}
	welcome := response.Other.GetWelcome()
	if welcome == nil {
		return rota.Refusef(rota.KindInternal, "", "the node's first message is not a welcome")
	}
	s.welcomed, s.name, s.session = true, rota.NodeID(welcome.Node), rota.Session(welcome.Session)
	return nil
}

// take handles one message of the node. A message unknown to this version is ignored.
func (s *stream) take(response *words.FromNode) {
	switch {
	case response.Answered:
		s.table.answered(response.Sequence, response.Refusal, response.Answers)
	case response.Other == nil:
		s.table.notice(response.Notices)
	case response.Other.GetHeard() != nil:
		s.table.heard(response.Other.GetHeard().GetSequence())
	case response.Other.GetBeat() != nil:
		m := response.Other.GetBeat()
		if s.table.beat(m) {
			s.healthy = true
		}
	}
}

// send is the only goroutine that writes to the stream: beats first, then queued commands, then the Bye.
func (s *stream) send(ctx context.Context, cancel context.CancelCauseFunc) {
	t := s.table
	t.beginBeats()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := t.worker.now() // a system call: only once per iteration
		due, unheard := t.overdue(now)
		if due {
			if s.node.shows.shown() != s.shown {
				cancel(errOtherToken)
				return
			}
			beat, silent := t.beatSent(now)
			if silent {
				cancel(errNoBeat)
				return
			}
			if !s.put(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Beat{Beat: beat}}) {
				return
			}
			continue // it may have taken long
		}
		if unheard {
			cancel(errNoBeat)
			return
		}
		request, bye := t.toSend(now)
		if request != nil {
			if !s.put(request) {
				return
			}
			if bye {
				_ = s.grpc.CloseSend()
				return
			}
			continue
		}
		timer.Reset(max(0, t.sleepUntil(now)-now))
		select {
		case <-t.sendWake:
			// Handlers that are about to return share the message: the goroutine that woke this one hands over its
			// processor at once.
			runtime.Gosched()
		case <-timer.C:
		case <-ctx.Done():
		}
		t.awake()
		if ctx.Err() != nil {
			return
		}
	}
}

// put sends one message; on failure Recv returns the reason.
func (s *stream) put(request any) bool { return s.grpc.SendMsg(request) == nil }

// toSend returns the next message other than beats, nil for none.
func (t *leaseTable) toSend(now time.Duration) (request any, bye bool) {
	t.mu.Lock()
	defer t.unlock()
	batch, sequence := t.out.next(now)
	if len(batch) > 0 {
		return words.WriteCommands(sequence, len(batch),
			func(i int) *peer.LeaseCommand { return &batch[i].LeaseCommand }), false
	}
	if t.farewell && t.out.empty() {
		return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Bye{Bye: &rotav1.Bye{}}}, true
	}
	return nil, false
}

// sleepUntil returns when the sender next looks by itself, after it found nothing to send by now.
func (t *leaseTable) sleepUntil(now time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sleeps = t.sendsNext(now)
	if len(t.leases) == 0 { // with leases the watch checks whether this is late
		t.sleeps = min(t.sleeps, now+limits.BeatEvery)
	}
	return t.sleeps
}

// awake records that the sender is running, for whatever reason.
func (t *leaseTable) awake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sleeps = 0
	t.alarm.Stop()
}

// sendsNext returns the next time at which something must be sent if nothing happens earlier.
func (t *leaseTable) sendsNext(now time.Duration) time.Duration {
	return min(t.out.due(now), t.beatDue(), t.unheardAt())
}

// wakeSender wakes the sender in time for what a notice makes due. A new lease does not wake it at once: its ack is due
// in ackHold, and by then its handler has usually returned.
func (t *leaseTable) wakeSender(now time.Duration) {
	if t.sleeps == 0 {
		notify(t.sendWake) // it may have looked already
	} else if at := t.sendsNext(now); at < t.sleeps {
		t.alarm.Reset(max(0, at-now))
	}
}

// broken ends a connection: unanswered messages are sent again on the next one.
func (t *leaseTable) broken() {
	t.mu.Lock()
	defer t.unlock()
	t.out.broken()
	clear(t.beats)
	for _, l := range t.leases {
		l.logSent = 0 // the next node has received none of it
	}
}

func (t *leaseTable) sayBye() {
	t.mu.Lock()
	defer t.unlock()
	t.farewell = true
	notify(t.sendWake)
}

func (t *leaseTable) saidBye() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.farewell
}
