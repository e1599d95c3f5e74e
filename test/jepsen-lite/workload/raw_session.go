package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// rawSlots is the number of slots of a raw session.
const rawSlots = 2

// rawSession is a worker without the library: it sends exactly the messages that it is given.
type rawSession struct {
	name, node string
	w          *trial
	conn       *grpc.ClientConn
	stream     grpc.BidiStreamingClient[rotav1.WorkRequest, rotav1.WorkResponse]
	ctx        context.Context
	cancel     context.CancelFunc
	assigned   chan *rotav1.Assignment
	loops      sync.WaitGroup

	mu       sync.Mutex
	sequence uint64
	waiting  map[uint64]chan *rotav1.LeaseAnswers
}

// rawPatience is how long a raw call waits for its answer.
const rawPatience = 5 * time.Second

var errNoAnswer = rota.Refusef(rota.KindUnavailable, "", "no answer came")

func dialRaw(ctx context.Context, w *trial, node *fault.Server, name string, r *rand.Rand) (*rawSession, error) {
	conn, err := grpc.NewClient("passthrough:///"+node.API, w.dialling()...)
	if err != nil {
		return nil, err
	}
	s := &rawSession{name: name, node: node.ID, w: w, conn: conn, assigned: make(chan *rotav1.Assignment, 64),
		waiting: make(map[uint64]chan *rotav1.LeaseAnswers)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	late := time.AfterFunc(rawPatience, s.cancel)
	if err := s.hello(r); err != nil || !late.Stop() {
		s.cancel()
		_ = conn.Close()
		return nil, errors.Join(err, s.ctx.Err(), errNoAnswer)
	}
	s.loops.Go(s.receive)
	s.loops.Go(s.beat)
	return s, nil
}

func (s *rawSession) hello(r *rand.Rand) (err error) {
	if s.stream, err = rotav1.NewWorkersClient(s.conn).Work(s.ctx); err != nil {
		return err
	}
	secret := make([]byte, 32)
	for i := range secret {
		secret[i] = byte(r.Uint32())
	}
	s.w.Rec.With(func(h *check.History) { h.Holds(s.name, rawSlots) })
	hello := &rotav1.Hello{Secret: secret, Worker: &rotav1.WorkerSpec{Id: s.name, Queues: []string{"prey"},
		Slots: rawSlots}}
	if err := s.stream.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	first, err := s.stream.Recv()
	if err == nil && first.GetWelcome() == nil {
		err = fmt.Errorf("the first message is not a welcome")
	}
	return err
}

// receive reads messages until the stream breaks.
func (s *rawSession) receive() {
	defer s.cancel()
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return
		}
		for _, a := range m.GetNotices().GetAssigned() {
			op := check.Op{Process: s.name, Func: check.OpGrant, Job: a.GetLease().GetJob(), Node: s.node,
				Outcome: check.OK, Attempt: a.GetLease().GetAttempt(), Lease: fmt.Sprintf("%x", a.GetLease().GetId())}
			_ = op.Token.UnmarshalText([]byte(a.GetLease().GetToken())) // none stays zero
			op.Invoke = s.w.Rec.Now()
			op.Return = op.Invoke
			s.w.Rec.Add(op)
			select {
			case s.assigned <- a:
			default: // more than it has slots: left to run out
			}
		}
		if answers := m.GetAnswers(); answers != nil {
			s.mu.Lock()
			if c := s.waiting[answers.GetSequence()]; c != nil {
				c <- answers
				delete(s.waiting, answers.GetSequence())
			}
			s.mu.Unlock()
		}
	}
}

// beat keeps the session alive.
func (s *rawSession) beat() {
	for n := uint64(1); fault.Rest(s.ctx, limits.BeatEvery); n++ {
		if s.send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Beat{Beat: &rotav1.Beat{Sequence: n}}}) != nil {
			return
		}
	}
}

func (s *rawSession) send(m *rotav1.WorkRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// ask sends one command and waits for its answer.
func (s *rawSession) ask(c *rotav1.LeaseCommand) (*rotav1.LeaseAnswer, error) {
	answer := make(chan *rotav1.LeaseAnswers, 1)
	s.mu.Lock()
	s.sequence++
	sequence := s.sequence
	s.waiting[sequence] = answer
	s.mu.Unlock()
	commands := &rotav1.LeaseCommands{Sequence: sequence, Commands: []*rotav1.LeaseCommand{c}}
	if err := s.send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{Commands: commands}}); err != nil {
		return nil, errNoAnswer
	}
	timer := time.NewTimer(rawPatience)
	defer timer.Stop()
	select {
	case a := <-answer:
		if refusal := a.GetRefusal(); refusal != nil || len(a.GetAnswers()) != 1 {
			return nil, errNoAnswer
		}
		return a.GetAnswers()[0], nil
	case <-s.ctx.Done():
	case <-timer.C:
	}
	return nil, errNoAnswer
}

func (s *rawSession) close() {
	s.cancel()
	s.loops.Wait()
	_ = s.conn.Close()
}
