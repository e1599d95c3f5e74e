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

const (
	// welcomeMost is how long a node may take to welcome the worker.
	welcomeMost = 5 * time.Second
	// beatSilence is how long a beat may go unanswered before another node is
	// tried: the node may be cut off from its leader while the stream stands.
	beatSilence = 3 * limits.BeatEvery
	// hearSilence is how long one may go unheard while a lease has a grace (SPEC §16.7).
	hearSilence = 2500 * time.Millisecond
)

// stream is one connection of a worker to a node. One goroutine receives, one
// sends; nothing of it outlives serve.
type stream struct {
	table    *leaseTable
	node     *node
	takeover bool
	// connection is its number, larger than those of the worker's before (SPEC §16.7).
	connection uint64

	grpc grpc.BidiStreamingClient[rotav1.WorkRequest, rotav1.WorkResponse]
	// name and session are the Welcome's.
	name    rota.NodeID
	session rota.Session
	// welcomed: the node took the worker; healthy: it answered a beat, too.
	welcomed, healthy bool
	// shown is the token that the stream began with.
	shown *shownToken
}

// serve works until the stream breaks, or returns nil after the farewell.
func (s *stream) serve(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		// What ended the stream from this side says more than its status.
		if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errNoBeat) || errors.Is(cause, errOtherToken)) {
			err = &rota.Error{Kind: rota.KindUnavailable, Text: cause.Error()}
		}
	}()
	if err := s.open(ctx, cancel); err != nil {
		return err
	}
	s.table.welcome(s.session)
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
	late := time.AfterFunc(welcomeMost, func() { cancel(errNoBeat) })
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
	_ = s.grpc.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}}) // Recv returns why not
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
		return rota.Refusef(rota.KindInternal, "", "the node's first message is no welcome")
	}
	s.welcomed, s.name, s.session = true, rota.NodeID(welcome.Node), rota.Session(welcome.Session)
	return nil
}

// take handles one message of the node. One that this version does not know says nothing
// to it.
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

// send is the one goroutine that writes to the stream: beats first, then
// commands as they are, then the farewell.
func (s *stream) send(ctx context.Context, cancel context.CancelCauseFunc) {
	b := s.table
	beaten, said := b.worker.now(), time.Duration(0)
	for {
		now := b.worker.now()
		nextBeat := beaten + min(said, b.beatEvery()) // never later than the latest beat said
		if closed(b.superseded) {
			nextBeat = farFuture // nobody answers a session that is over
		}
		if now >= nextBeat {
			if s.node.shows.shown() != s.shown {
				cancel(errOtherToken)
				return
			}
			sequence, next, silent := b.beatSent(now)
			if silent {
				cancel(errNoBeat)
				return
			}
			beaten, said, nextBeat = now, next, now+next
			if !s.put(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Beat{Beat: &rotav1.Beat{Sequence: sequence, Logs: b.logs(),
				NextMs: next.Milliseconds()}}}) {
				return
			}
		}
		unheard := b.unheard()
		if now >= unheard {
			cancel(errNoBeat)
			return
		}
		request, bye, at := b.toSend()
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
		if at == 0 || at > nextBeat {
			at = nextBeat
		}
		at = min(at, unheard, now+limits.BeatEvery) // by then a beat without an answer calls for another
		timer := time.NewTimer(max(0, at-b.worker.now()))
		select {
		case <-b.sendWake:
			// Handlers that are about to return share the message: whoever kicked
			// hands this goroutine its processor at once.
			runtime.Gosched()
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// put sends one message; Recv returns why it could not.
func (s *stream) put(request any) bool { return s.grpc.SendMsg(request) == nil }

// toSend returns the next message but beats, or when to ask again.
func (t *leaseTable) toSend() (request any, bye bool, at time.Duration) {
	t.mu.Lock()
	defer t.unlock()
	batch, sequence, at := t.out.next(t.worker.now())
	if len(batch) > 0 {
		return words.WriteCommands(sequence, len(batch), func(i int) *peer.LeaseCommand { return &batch[i].LeaseCommand }), false, 0
	}
	if t.farewell && t.out.empty() {
		return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Bye{Bye: &rotav1.Bye{}}}, true, 0
	}
	return nil, false, at
}

// beatSent notes a beat that is about to be sent, by the local time before
// sending it (SPEC §3.9). It returns after how long the next one will be, and reports whether the
// node has been silent too long.
func (t *leaseTable) beatSent(now time.Duration) (sequence uint64, next time.Duration, silent bool) {
	t.mu.Lock()
	defer t.unlock()
	for _, sent := range t.beats {
		if now-sent >= beatSilence {
			return 0, 0, true
		}
	}
	next = t.every()
	t.beatSequence++
	t.beats[t.beatSequence] = now
	return t.beatSequence, next, false
}

// beatEvery is how long after the latest beat the next one is sent: a lease, or a beat without an
// answer, calls for one sooner.
func (t *leaseTable) beatEvery() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.beats) > 0 {
		return limits.BeatEvery
	}
	return t.every()
}

// every is how often the worker beats: as the cluster asks for while it holds no lease (SPEC §3.9).
func (t *leaseTable) every() time.Duration {
	if len(t.leases) > 0 {
		return limits.BeatEvery
	}
	return max(limits.BeatEvery, min(t.idleEvery, limits.BeatIdleMost))
}

// logs returns what handlers logged since the beat before, as far as one beat brings it.
func (t *leaseTable) logs() (logs []*rotav1.LogPart) {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := limits.MaxLogsBeat
	for _, l := range t.leases {
		w := l.log.Load()
		if w == nil || l.phase != running {
			continue
		}
		for _, part := range w.Since(l.logSent) {
			if room -= len(part.Text) + len(l.assignment.Lease.ID); room < 0 {
				return logs
			}
			logs = append(logs, words.LoggedToWire(&peer.Logged{Lease: l.assignment.Lease.ID, Part: part}))
			l.logSent = part.End()
		}
	}
	return logs
}

// beat takes the answer to a beat of this connection.
func (t *leaseTable) beat(answer *rotav1.BeatAnswer) bool {
	sequence, clock := answer.GetSequence(), rota.Clock(answer.GetClockMs())
	t.mu.Lock()
	sent, ok := t.beats[sequence]
	t.idleEvery = time.Duration(answer.GetEveryMs()) * time.Millisecond
	for s := range t.beats {
		if s <= sequence && ok { // older ones add nothing: their answers may be left out
			delete(t.beats, s)
		}
	}
	t.mu.Unlock()
	if ok {
		t.beatAnswered(viewpoint{known: true, sent: sent, clock: clock, heard: sent}) // its node heard it, too
	}
	return ok
}

// heard takes that the node has heard a beat of this connection. Leases that ended by the
// view before stay ended (H23).
func (t *leaseTable) heard(sequence uint64) {
	t.mu.Lock()
	sent, ok := t.beats[sequence]
	if ok {
		t.heardSequence = max(t.heardSequence, sequence)
	}
	t.mu.Unlock()
	if ok {
		t.beatAnswered(viewpoint{heard: sent})
	}
}

// unheard is the local moment at which the node's silence has it left for another, for
// the sake of leases with a grace; farFuture without any.
func (t *leaseTable) unheard() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	graced := false
	for _, l := range t.leases {
		graced = graced || l.assignment.Grace > 0 && l.phase != reporting && l.lost == nil
	}
	at := farFuture
	if graced {
		for sequence, sent := range t.beats {
			if sequence > t.heardSequence {
				at = min(at, sent+hearSilence)
			}
		}
	}
	return at
}

// broken ends a connection: what had no answer is sent again on the next one.
func (t *leaseTable) broken() {
	t.mu.Lock()
	defer t.unlock()
	t.out.broken()
	clear(t.beats)
	for _, l := range t.leases {
		l.logSent = 0 // the next node has nothing of it
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
