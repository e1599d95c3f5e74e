package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// fakeStream is the server's end of a stream whose other end is the test. Its Send blocks like gRPC's: until the other
// end reads the message, or the call is over.
type fakeStream struct {
	grpc.ServerStream
	ctx  context.Context
	in   chan *rotav1.WorkRequest
	out  chan *rotav1.WorkResponse
	read atomic.Int64
}

func (s *fakeStream) Context() context.Context { return s.ctx }

func (s *fakeStream) Recv() (*rotav1.WorkRequest, error) {
	select {
	case m, ok := <-s.in:
		if !ok {
			return nil, io.EOF
		}
		s.read.Add(1)
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) Send(m *rotav1.WorkResponse) error {
	select {
	case s.out <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// RecvMsg and SendMsg carry the message types that each side uses.
func (s *fakeStream) RecvMsg(to any) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	b, err := words.Codec().Marshal(m)
	return errors.Join(err, words.Codec().Unmarshal(b, to))
}

func (s *fakeStream) SendMsg(m any) error {
	b, err := words.Codec().Marshal(m)
	out := new(rotav1.WorkResponse)
	if err := errors.Join(err, words.Codec().Unmarshal(b, out)); err != nil {
		return err
	}
	return s.Send(out)
}

// served runs Work on a fake stream in fake time; result holds its return value.
func served(t *testing.T, session *fakeSession) (*fakeStream, <-chan error) {
	t.Helper()
	core := &fakeCore{open: func(context.Context, rota.WorkerSpec, []byte, bool) (WorkerSession, error) {
		return session, nil
	}}
	s, err := NewServer(Options{Self: "n1", Core: core, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream := &fakeStream{ctx: ctx, in: make(chan *rotav1.WorkRequest, 100),
		out: make(chan *rotav1.WorkResponse)}
	result := make(chan error, 1)
	go func() {
		defer s.Close()
		err := (&workersService{server: s, core: core}).Work(stream)
		cancel() // as gRPC does when the handler has returned
		result <- err
	}()
	return stream, result
}

func TestWork_endsWithoutAHello(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, result := served(t, nil)
		if err := <-result; rota.KindOf(err) != rota.KindTimeout || time.Since(start) != helloTimeout {
			t.Errorf("after %v: got %v", time.Since(start), err)
		}
	})
}

func TestWork_cutsOffASlowConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		stream, result := served(t, session)
		stream.in <- helloOf("w1")
		<-stream.out // the welcome, and nothing after it
		session.notices <- []peer.Notice{{Draining: true}}
		start := time.Now()
		err := <-result
		if rota.KindOf(err) != rota.KindExhausted || !strings.Contains(err.Error(), "slow consumer") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took < slowConsumer || took > slowConsumer+2*time.Second {
			t.Errorf("it took %v", took)
		}
		<-session.closed
	})
}

func TestWork_keepsAConsumerThatIsOnlySlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		stream, result := served(t, session)
		stream.in <- helloOf("w1")
		<-stream.out
		go func() {
			for range 3 * outboxMessages {
				session.notices <- []peer.Notice{{Draining: true}}
			}
		}()
		for range 3 * outboxMessages { // minutes in all
			<-time.After(slowConsumer - time.Second)
			<-stream.out
		}
		close(stream.in)
		if err := <-result; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestWork_holdsBackAWorkerThatAsksTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		var running atomic.Int64
		release := make(chan struct{})
		session.do = func(_ context.Context, c []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
			running.Add(1)
			<-release
			return make([]peer.LeaseAnswer, len(c)), nil
		}
		stream, result := served(t, session)
		stream.in <- helloOf("w1")
		<-stream.out
		const batches = 50
		for i := range batches {
			stream.in <- commandsOf(uint64(i), renew(1))
		}
		synctest.Wait()
		// One more waits for a slot; a hello came first.
		if running.Load() != batchesInFlight || stream.read.Load() != batchesInFlight+2 {
			t.Errorf("%d run, %d are read", running.Load(), stream.read.Load())
		}
		close(release)
		for range batches {
			<-stream.out
		}
		close(stream.in)
		if err := <-result; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestWork_givesUpABeatForNewerOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		session.graced.Store(true)
		var beats atomic.Int64
		session.beat = func(ctx context.Context) (rota.Clock, error) {
			if beats.Add(1) == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 5, nil
		}
		stream, result := served(t, session)
		stream.in <- helloOf("w1")
		<-stream.out
		start := time.Now()
		stream.in <- beatOf(1)
		// The first has to be in progress: a pending beat is replaced by the next, and the one that hangs would be the
		// second, which nothing follows.
		<-stream.out // it was received
		synctest.Wait()
		stream.in <- beatOf(2)
		<-stream.out
		if got := (<-stream.out).GetBeat(); got.GetSequence() != 2 || time.Since(start) != beatTimeout {
			t.Errorf("after %v: got %v", time.Since(start), got)
		}
		close(stream.in)
		if err := <-result; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// The pump learns that the session is over before Bye has its answer; the bye still counts.
func TestWork_letsAWorkerGoThoughItsSessionEndsMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		session.bye = func(ctx context.Context) error {
			session.ended <- rota.Refusef(rota.KindStale, "session", "session 7 is over")
			synctest.Wait()
			return ctx.Err()
		}
		stream, result := served(t, session)
		stream.in <- helloOf("w1")
		<-stream.out
		stream.in <- byeOf()
		if err := <-result; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// panickingStream panics at the second message that is read from it.
type panickingStream struct {
	*fakeStream
	reads int
}

func (s *panickingStream) RecvMsg(to any) error {
	if s.reads++; s.reads > 1 {
		panic("planted")
	}
	return s.fakeStream.RecvMsg(to)
}

// TestWork_endsWithAnErrorWhenReadingPanics checks that a worker does not mistake a fault of its node for a normal end.
func TestWork_endsWithAnErrorWhenReadingPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		session := newSession()
		core := &fakeCore{open: func(context.Context, rota.WorkerSpec, []byte, bool) (WorkerSession, error) {
			return session, nil
		}}
		s, err := NewServer(Options{Self: "n1", Core: core, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stream := &panickingStream{fakeStream: &fakeStream{ctx: ctx, in: make(chan *rotav1.WorkRequest, 1),
			out: make(chan *rotav1.WorkResponse, 9)}}
		stream.in <- helloOf("w1")
		err = (&workersService{server: s, core: core}).Work(stream)
		cancel()
		s.Close()
		if rota.KindOf(err) != rota.KindInternal {
			t.Errorf("got %v", err)
		}
	})
}
