package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// helloTimeout ends a stream that does not say who it is.
	helloTimeout = 10 * time.Second
	// batchesInFlight bounds one stream's batches being decided; beyond that the
	// stream is not read, which holds the worker back.
	batchesInFlight = 16
	// beatTimeout gives up waiting for the answer to a beat; later beats that
	// came meanwhile are worth more.
	beatTimeout = 10 * time.Second
	// settleTimeout is how long a stream that ends well waits for its answers.
	settleTimeout = 2 * time.Second
	// secretLeast and secretMost bound a worker's secret (SPEC §6.4).
	secretLeast, secretMost = 16, 64
)

// workStream is a worker's one stream (SPEC §13.3). Its goroutines:
//
//   - the handler's own reads messages and starts what they ask for;
//   - receive gets them from gRPC, so that a timeout can overtake it;
//   - send alone owns stream.Send (workersend.go);
//   - pump carries notices, beat answers beats, and one for each batch.
//
// The first error ends ctx with itself as the cause, and that is the status.
type workStream struct {
	server  *Server
	stream  grpc.BidiStreamingServer[rotav1.WorkRequest, rotav1.WorkResponse]
	session WorkerSession
	log     *slog.Logger
	ctx     context.Context
	fail    context.CancelCauseFunc

	in      chan *received
	slots   chan struct{} // batches in flight
	batches sync.WaitGroup
	loops   sync.WaitGroup
	beats   chan *rotav1.Beat // the newest waiting one
	outbox
}

type received struct {
	message words.FromWorker
	err     error
}

// Work serves a worker's stream.
func (s *workersService) Work(stream grpc.BidiStreamingServer[rotav1.WorkRequest,
	rotav1.WorkResponse]) error {
	w := &workStream{
		server: s.server, stream: stream, log: s.server.log,
		in: make(chan *received), slots: make(chan struct{}, batchesInFlight), beats: make(chan *rotav1.Beat, 1),
		outbox: newOutbox(),
	}
	w.ctx, w.fail = context.WithCancelCause(stream.Context())
	defer w.fail(nil)
	go w.receive()
	hello, err := w.hello()
	if err != nil {
		return err
	}
	if err := w.open(s.core, hello); err != nil {
		return err
	}
	defer w.close()
	return w.serve()
}

// receive ends when the stream does, at the latest when the handler returns.
func (w *workStream) receive() {
	for {
		got := new(received)
		got.err = w.stream.RecvMsg(&got.message)
		select {
		case w.in <- got:
		case <-w.ctx.Done():
			return
		}
		if got.err != nil {
			return
		}
	}
}

func (w *workStream) hello() (*rotav1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case got := <-w.in:
		switch {
		case got.err == io.EOF:
			return nil, rota.Refusef(rota.KindInvalid, "hello", "the stream ended before a hello came")
		case got.err != nil:
			return nil, got.err
		case got.message.Other.GetHello() == nil:
			return nil, rota.Refusef(rota.KindInvalid, "hello",
				"the first message is not a hello: it has to say who the worker is")
		}
		return got.message.Other.GetHello(), nil
	case <-timeout.C:
		return nil, rota.Refusef(rota.KindTimeout, "hello", "no hello came within %v", helloTimeout)
	case <-w.server.draining.Done():
		return nil, w.server.going()
	case <-w.ctx.Done():
		return nil, context.Cause(w.ctx)
	}
}

// open checks who it is, registers it, and starts the loops.
func (w *workStream) open(core Core, hello *rotav1.Hello) error {
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
	go w.send()
	w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Welcome{Welcome: welcome}})
	w.loops.Go(func() { w.guard("notices", w.pump) })
	w.loops.Go(func() { w.guard("beat", w.beat) })
	w.log.Info("worker connected")
	return nil
}

// close waits for all that uses the session, then gives it back. The sender is
// waited for only as long as it can move: a Send that the worker does not take
// ends when the handler returns.
func (w *workStream) close() {
	w.fail(nil)
	w.loops.Wait()
	w.batches.Wait()
	w.session.Close()
	w.log.Info("worker's stream ended", "reason", context.Cause(w.ctx))
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case <-w.sender:
	case <-patience.C:
	}
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

// serve reads until the worker has said all, or something ends the stream.
func (w *workStream) serve() error {
	for {
		select {
		case got := <-w.in:
			if got.err == io.EOF {
				return w.settle()
			}
			if got.err != nil {
				w.fail(got.err)
				return got.err
			}
			if bye := got.message.Other.GetBye(); bye != nil {
				return w.bye()
			}
			if err := w.take(&got.message); err != nil {
				w.fail(err)
				return err
			}
		case <-w.server.draining.Done():
			return w.leave()
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

// take starts what one message asks for.
func (w *workStream) take(message *words.FromWorker) error {
	if message.Other == nil {
		select {
		case w.slots <- struct{}{}:
		case <-w.server.draining.Done():
			return w.leave()
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		w.batches.Go(func() {
			defer func() { <-w.slots }()
			w.guard("commands", func() { w.decide(message) })
		})
		return nil
	}
	switch m := message.Other.GetMessage().(type) {
	case *rotav1.WorkRequest_Beat:
		logged, err := loggedFromWire(m.Beat.GetLogs())
		if err != nil {
			return err
		}
		w.session.Logged(logged)
		select {
		case <-w.beats: // an older one still waits: the newer is worth more
		default:
		}
		w.beats <- m.Beat
		// At once, while this stream stands: no more is said of it once it has ended.
		w.push(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Heard{Heard: &rotav1.Heard{Sequence: m.Beat.GetSequence()}}})
		return nil
	case *rotav1.WorkRequest_Hello:
		return rota.Refusef(rota.KindInvalid, "hello", "a second hello came: one stream is for one worker")
	default:
		return rota.Refusef(rota.KindInvalid, "message", "a message is empty, or of a kind unknown to this version")
	}
}

// decide has one batch decided and answers it by its sequence.
func (w *workStream) decide(batch *words.FromWorker) {
	answers, err := w.decideEach(batch)
	if err != nil {
		deniedItem(w.ctx, err)
		w.push(words.WriteAnswers(batch.Sequence, nil, refusalOf(w.ctx, err)))
		return
	}
	w.push(words.WriteAnswers(batch.Sequence, answers, nil))
}

func (w *workStream) decideEach(batch *words.FromWorker) ([]peer.LeaseAnswer, error) {
	all := batch.Commands
	if err := checkCount("commands", len(all), limits.MaxBatchJobs); err != nil {
		return nil, err
	}
	var answers []peer.LeaseAnswer // nil while every command is good
	var places []int
	good := all[:0]
	for i := range all {
		var err error
		if batch.Faults != nil {
			err = batch.Faults[i]
		}
		if err == nil {
			err = checkCommand(&all[i])
		}
		if err != nil {
			if answers == nil {
				answers = make([]peer.LeaseAnswer, len(all))
				for before := range i {
					places = append(places, before)
				}
			}
			answers[i].Err = refusalOf(w.ctx, err)
			continue
		}
		if answers != nil {
			places = append(places, i)
		}
		good = append(good, all[i])
	}
	if len(good) == 0 {
		return answers, nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
	defer cancel()
	done, err := w.session.Do(ctx, good)
	if err != nil {
		return nil, err
	}
	if err := checkLengths("commands", len(good), len(done)); err != nil {
		return nil, err
	}
	for n := range done {
		if e := done[n].Err; e != nil {
			deniedItem(w.ctx, e)
		}
	}
	if answers == nil {
		return done, nil
	}
	for n := range done {
		answers[places[n]] = done[n]
	}
	return answers, nil
}

// checkCommand refuses a command that no lease could take, and cuts its text:
// a log entry must not grow by what is cut anyway.
func checkCommand(c *peer.LeaseCommand) error {
	if c.Lease.IsZero() {
		return rota.Refusef(rota.KindInvalid, "lease_id", "a command names no lease")
	}
	if c.Job != "" {
		if err := rota.CheckJobRef("job", c.Job); err != nil {
			return err
		}
	}
	if n := len(c.Output); n > rota.MaxPayloadBytes {
		return rota.Refusef(rota.KindInvalid, "output", "output has %d bytes: at most %d are taken", n,
			rota.MaxPayloadBytes)
	}
	if n := len(c.OutputDigest); n != 0 && n != 32 {
		return rota.Refusef(rota.KindInvalid, "output_digest", "output_digest has %d bytes: 32 or none are wanted", n)
	}
	if err := checkChildren(c); err != nil {
		return err
	}
	if c.Progress < 0 || c.Progress > 100 {
		return rota.Refusef(rota.KindInvalid, "progress", "progress is %d: 0 to 100 is wanted", c.Progress)
	}
	if len(c.Log) > 0 {
		if _, err := joblog.Decode(c.Log); err != nil {
			return err
		}
	}
	if c.Ordinal < 0 {
		return rota.Refusef(rota.KindInvalid, "ordinal", "ordinal is %d: 1 or more is wanted", c.Ordinal)
	}
	if c.Verb == rota.VerbProgress {
		c.Text = head(c.Text, limits.MaxNoteBytes)
	} else {
		c.Text = tail(c.Text, limits.MaxErrorBytes)
	}
	return nil
}

// checkChildren reads what a completion adds to its workflow.
func checkChildren(c *peer.LeaseCommand) (err error) {
	if len(c.Children) == 0 {
		return nil
	}
	if c.Verb != rota.VerbComplete {
		return rota.Refusef(rota.KindInvalid, "children", "only COMPLETE brings children")
	}
	_, node, ok := rota.SplitNodeJobID(c.Job)
	if !ok {
		return rota.Refusef(rota.KindInvalid, "children", "job %.80q is no node of a workflow: only such a one can have children", c.Job)
	}
	if c.Growth, err = words.GrowthFromWire(c.Children); err != nil {
		return err
	}
	c.Children = nil
	return c.Growth.CheckShape(node)
}

// beat answers beats, one at a time. One that finds no leader is not answered
// (SPEC §3.9): the worker measures by the answers that it gets.
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
					Beat: &rotav1.BeatAnswer{Sequence: beat.GetSequence(), ClockMs: int64(beaten.Clock), EveryMs: beaten.Every.Milliseconds()}}})
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// bye lets a worker go that has no open lease: what it sent before is decided
// first. It does not run under w.ctx, which ends as soon as the pump hears that
// the session is over: that is what was asked for.
func (w *workStream) bye() error {
	if err := w.settle(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.stream.Context(), callTimeout)
	defer cancel()
	return late(w.stream.Context(), w.session.Bye(ctx))
}

// leave returns the worker to go to another node, after what is in flight.
func (w *workStream) leave() error {
	if err := w.settle(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err := w.server.going()
	w.fail(err)
	return err
}

// settle waits, not for long, until every batch is answered and every answer
// sent. What is cut off by the end of the stream the worker sends again.
func (w *workStream) settle() error {
	ctx, cancel := context.WithTimeout(w.ctx, settleTimeout)
	defer cancel()
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
