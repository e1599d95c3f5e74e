package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// helloTimeout ends a stream that does not identify its worker.
	helloTimeout = 10 * time.Second
	// batchesInFlight bounds one stream's batches that are being decided; beyond that the stream is not read, which
	// slows the worker down.
	batchesInFlight = 16
	// beatTimeout bounds the wait for the answer to a beat; later beats that arrived meanwhile are worth more.
	beatTimeout = 10 * time.Second
	// settleTimeout is how long a stream that ends normally waits for its answers.
	settleTimeout = 2 * time.Second
	// minSecret and maxSecret bound a worker's secret (SPEC §6.4).
	minSecret, maxSecret = 16, 64
)

// workStream is a worker's one stream (SPEC §13.3). Its goroutines:
//
//   - read receives messages from gRPC and starts the work that they request;
//   - the handler's own waits for the end, so that a timeout and a drain can end it earlier;
//   - pump carries notices, beat answers beats, and one of the server's pool decides each batch;
//   - any goroutine with a message sends it, one at a time (workersend.go).
//
// The first error ends ctx with itself as the cause, and that is the status.
type workStream struct {
	server  *Server
	stream  grpc.BidiStreamingServer[rotav1.WorkRequest, rotav1.WorkResponse]
	session WorkerSession
	log     *slog.Logger
	ctx     context.Context
	fail    context.CancelCauseFunc

	first chan *rotav1.Hello // the hello, or nil for another message in its place
	known chan struct{}      // closed once the hello has opened the session
	ended chan lastWord

	mayTake sync.Mutex    // guards closing, and is held while a message's work is started
	closing bool          // no further message is accepted
	slots   chan struct{} // batches in flight
	batches sync.WaitGroup
	loops   sync.WaitGroup
	beats   chan *rotav1.Beat // the newest pending one
	// beaten is the sequence of the newest beat. acknowledged is that of the newest beat whose receipt was reported to
	// the worker.
	beaten, acknowledged atomic.Uint64
	outbox
}

// lastWord is the reason that a stream is not read any longer: an error, io.EOF for its worker's normal end, or a bye.
type lastWord struct {
	err error
	bye bool
}

// Work serves a worker's stream.
func (s *workersService) Work(stream grpc.BidiStreamingServer[rotav1.WorkRequest,
	rotav1.WorkResponse]) error {
	w := &workStream{
		server: s.server, stream: stream, log: s.server.log,
		first: make(chan *rotav1.Hello, 1), known: make(chan struct{}), ended: make(chan lastWord, 1),
		slots: make(chan struct{}, batchesInFlight), beats: make(chan *rotav1.Beat, 1),
	}
	w.ctx, w.fail = context.WithCancelCause(stream.Context())
	defer w.fail(nil)
	w.makeOutbox()
	go w.read()
	hello, err := w.hello()
	if err != nil {
		return err
	}
	if err := w.open(s.core, hello); err != nil {
		return err
	}
	defer w.close()
	close(w.known)
	return w.serve()
}

// read ends when the stream does, at the latest when the handler returns.
func (w *workStream) read() {
	var end lastWord
	w.guard("read", func() { end = w.readAll() })
	if end == (lastWord{}) { // it panicked
		end.err = context.Cause(w.ctx)
	}
	w.ended <- end
}

func (w *workStream) readAll() lastWord {
	hello := new(words.FromWorker)
	if err := w.stream.RecvMsg(hello); err != nil {
		return lastWord{err: err}
	}
	w.first <- hello.Other.GetHello()
	select {
	case <-w.known:
	case <-w.ctx.Done():
		return lastWord{err: context.Cause(w.ctx)}
	}
	for {
		message := new(words.FromWorker)
		if err := w.stream.RecvMsg(message); err != nil {
			return lastWord{err: err}
		}
		if message.Other.GetBye() != nil {
			return lastWord{bye: true}
		}
		if err := w.take(message); err != nil {
			return lastWord{err: err}
		}
	}
}

func (w *workStream) hello() (*rotav1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case hello := <-w.first:
		if hello == nil {
			return nil, rota.Refusef(rota.KindInvalid, "hello",
				"the first message is not a hello: send the worker's hello first")
		}
		return hello, nil
	case end := <-w.ended:
		if end.err == io.EOF {
			return nil, rota.Refusef(rota.KindInvalid, "hello", "the stream ended before a hello")
		}
		return nil, end.err
	case <-timeout.C:
		return nil, rota.Refusef(rota.KindTimeout, "hello", "received no hello within %v", helloTimeout)
	case <-w.server.draining.Done():
		return nil, w.server.going()
	case <-w.ctx.Done():
		return nil, context.Cause(w.ctx)
	}
}

// open checks the worker's identity, registers it, and starts the loops.
func (w *workStream) open(core WorkerCore, hello *rotav1.Hello) error {
	spec := words.WorkerSpecFromWire(hello.GetWorker())
	if err := spec.CheckShape(); err != nil {
		return err
	}
	if err := checkSecret("secret", hello.GetSecret()); err != nil {
		return err
	}
	if old := hello.GetOldSecret(); len(old) > 0 {
		if err := checkSecret("old_secret", old); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
	defer cancel()
	session, err := core.OpenWorker(ctx, spec, hello.GetSecret(), hello.GetTakeover(),
		words.AttestationFromWire(hello.GetAttestation()), peer.WorkerLink{Connection: hello.GetConnection(),
			Grace: hello.GetGrace(), OldSecret: hello.GetOldSecret()})
	if err != nil {
		return late(w.ctx, err)
	}
	w.session, w.log = session, w.log.With("worker", spec.ID, "session", session.Session())
	welcome := &rotav1.Welcome{Session: uint64(session.Session()), Node: string(w.server.options.Self)}
	if w.server.options.Node != nil {
		welcome.ClusterId = string(w.server.options.Node.ClusterID())
	}
	w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Welcome{Welcome: welcome}})
	w.loops.Go(func() { w.guard("notices", w.pump) })
	w.loops.Go(func() { w.guard("beat", w.beat) })
	w.log.Info("worker connected")
	return nil
}

// close waits for everything that uses the session, then releases it. Its wait for senders is limited: a Send that the
// worker does not read ends when the handler has returned, and does not use the session then.
func (w *workStream) close() {
	w.fail(nil)
	w.takeNoMore()
	left := make(chan struct{})
	go func() {
		w.loops.Wait()
		w.batches.Wait()
		close(left)
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-left:
	case <-patience.C:
	}
	w.session.Close()
	w.log.Info("worker's stream ended", "reason", context.Cause(w.ctx))
}

// guard ends the stream when f panics: gRPC's interceptors do not see it.
func (w *workStream) guard(what string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.fail(w.server.panicked("Work/"+what, r))
		}
	}()
	f()
}

// serve waits until the worker has sent everything, or something ends the stream.
func (w *workStream) serve() error {
	select {
	case end := <-w.ended:
		switch {
		case end.bye:
			return w.bye()
		case end.err == io.EOF:
			return w.settle()
		}
		w.fail(end.err)
		return end.err
	case <-w.server.draining.Done():
		return w.leave()
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// take starts the work that one message requests, unless the stream is about to end.
func (w *workStream) take(message *words.FromWorker) error {
	if message.Other == nil {
		return w.takeBatch(message)
	}
	switch m := message.Other.GetMessage().(type) {
	case *rotav1.WorkRequest_Beat:
		return w.takeBeat(m.Beat)
	case *rotav1.WorkRequest_Hello:
		return rota.Refusef(rota.KindInvalid, "hello", "duplicate hello: a stream serves exactly one worker")
	default:
		return rota.Refusef(rota.KindInvalid, "message",
			"the message is empty, or this version does not support its kind")
	}
}

func (w *workStream) takeBatch(batch *words.FromWorker) error {
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	if !w.taking(func() {
		w.batches.Add(1)
		w.server.pool.run(func() {
			defer w.batches.Done()
			defer func() { <-w.slots }()
			w.guard("commands", func() { w.decide(batch) })
		})
	}) {
		<-w.slots
	}
	return nil
}

func (w *workStream) takeBeat(beat *rotav1.Beat) error {
	logged, err := loggedFromWire(beat.GetLogs())
	if err != nil {
		return err
	}
	if !w.taking(func() { w.session.Logged(logged) }) {
		return nil
	}
	select {
	case <-w.beats: // an older one is still pending: the newer is worth more
	default:
	}
	w.beats <- beat
	w.beaten.Store(beat.GetSequence())
	w.pushHeard(beat.GetSequence()) // at once, while this stream is open: nothing is sent once it has ended
	return nil
}

// taking runs do for a message that arrived, unless messages are no longer accepted.
func (w *workStream) taking(do func()) bool {
	w.mayTake.Lock()
	defer w.mayTake.Unlock()
	if w.closing {
		return false
	}
	do()
	return true
}

// takeNoMore makes the stream ignore all further messages: the stream ends, and its worker sends them again.
func (w *workStream) takeNoMore() {
	w.mayTake.Lock()
	defer w.mayTake.Unlock()
	w.closing = true
}

// beat answers beats, one at a time. A beat is not answered while there is no leader (SPEC §3.9): the worker measures
// by the answers that it gets.
func (w *workStream) beat() {
	for {
		select {
		case beat := <-w.beats:
			ctx, cancel := context.WithTimeout(w.ctx, beatTimeout)
			beaten, err := w.session.Beat(ctx, time.Duration(beat.GetNextMs())*time.Millisecond)
			cancel()
			switch {
			case rota.KindOf(err) == rota.KindStale:
				w.fail(err)
				return
			case err != nil:
				w.log.Debug("beat not answered", "error", err)
			default:
				w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Beat{
					Beat: &rotav1.BeatAnswer{Sequence: beat.GetSequence(), ClockMs: int64(beaten.Clock),
						EveryMs: beaten.Every.Milliseconds()}}})
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// bye retires a worker that has no open lease, after everything it sent before is decided. It does not run under w.ctx,
// which ends as soon as the pump learns that the session is over: that is the expected outcome here.
func (w *workStream) bye() error {
	if err := w.settle(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.stream.Context(), callTimeout)
	defer cancel()
	return late(w.stream.Context(), w.session.Bye(ctx))
}

// leave sends the worker to another node, after work in flight is done.
func (w *workStream) leave() error {
	if err := w.settle(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err := w.server.going()
	w.fail(err)
	return err
}

// settle waits briefly until every batch is answered and every answer sent. The worker sends again whatever the end of
// the stream cut off.
func (w *workStream) settle() error {
	ctx, cancel := context.WithTimeout(w.ctx, settleTimeout)
	defer cancel()
	w.takeNoMore()
	done := make(chan struct{})
	go func() {
		w.batches.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return w.flush(ctx)
}
