package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// workerSecret is the secret of the workers of both tenants; a guess is another one.
const (
	workerSecret = "canary-worker-secret-0123456"
	guess        = "guessed-secret-0123456789"
)

// session is a worker's stream, without the client library.
type session struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[rotav1.WorkRequest, rotav1.WorkResponse]
}

// register opens a session with the token of the actors' worker; the error is the refusal.
func (s *scene) register(ctx context.Context, hello *rotav1.Hello) (*session, error) {
	conn, err := s.conn(s.nodes[1])
	if err != nil {
		return nil, err
	}
	w := &session{conn: conn}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.tokens["acme worker"])
	if w.stream, err = rotav1.NewWorkersClient(conn).Work(ctx); err == nil {
		_ = w.stream.Send(&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: hello}})
		var first *rotav1.WorkResponse
		if first, err = w.stream.Recv(); err == nil && first.GetWelcome() == nil {
			err = errors.New("the first message is not a welcome")
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return w, nil
}

// ask sends one command and returns the refusal, nil if there was none.
func (w *session) ask(c *rotav1.LeaseCommand) (*rotav1.Refusal, error) {
	commands := &rotav1.LeaseCommands{Sequence: 1, Commands: []*rotav1.LeaseCommand{c}}
	if err := w.stream.Send(
		&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{Commands: commands}}); err != nil {
		return nil, err
	}
	for {
		m, err := w.stream.Recv()
		if err != nil {
			return nil, err
		}
		if answers := m.GetAnswers(); answers != nil {
			if len(answers.GetAnswers()) == 1 {
				return answers.GetAnswers()[0].GetRefusal(), nil
			}
			return answers.GetRefusal(), nil
		}
	}
}

// named is the hello of a worker of the actors.
func named(id rota.WorkerID, queue rota.QueueName, secret string) *rotav1.Hello {
	return &rotav1.Hello{Secret: []byte(secret), Worker: &rotav1.WorkerSpec{Id: string(id),
		Queues: []string{string(queue)}, Slots: 1, Types: []string{"none"}}}
}

// workerProbes are the attempts of a worker of one tenant.
func workerProbes() []probe {
	var all []probe
	for _, verb := range []rotav1.LeaseVerb{rotav1.LeaseVerb_LEASE_VERB_ACK, rotav1.LeaseVerb_LEASE_VERB_RENEW,
		rotav1.LeaseVerb_LEASE_VERB_COMPLETE,
		rotav1.LeaseVerb_LEASE_VERB_FAIL, rotav1.LeaseVerb_LEASE_VERB_DECLINE, rotav1.LeaseVerb_LEASE_VERB_PROGRESS} {
		all = append(all, probe{name: fmt.Sprintf("reports %s of another's lease", verb),
			try: foreignLease(verb, func(s *scene) []byte { return s.held.Lease.ID[:] })})
	}
	hello := func(name string, what func() *rotav1.Hello) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			w, err := s.register(ctx, what())
			if err == nil {
				_ = w.conn.Close()
				return "", errors.New("it is welcomed")
			}
			return turnedAway(err, codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition,
				codes.Aborted, codes.AlreadyExists, codes.Unauthenticated)
		}}
	}
	const own = rota.QueueName(ours)
	return append(all,
		probe{name: "completes a made-up lease", try: foreignLease(rotav1.LeaseVerb_LEASE_VERB_COMPLETE,
			func(*scene) []byte { return bytes.Repeat([]byte{7}, 32) })},
		probe{name: "completes a lease without an id", try: foreignLease(rotav1.LeaseVerb_LEASE_VERB_COMPLETE,
			func(*scene) []byte { return nil })},
		hello("registers under an id beyond its prefix", func() *rotav1.Hello {
			return named("umbrella-x", own, guess)
		}),
		hello("registers for another's queue", func() *rotav1.Hello {
			return named("acme-y", rota.QueueName(theirs), guess)
		}),
		hello("registers as one that lives", func() *rotav1.Hello { return named("acme-w", own, guess) }),
		hello("takes over without the secret", func() *rotav1.Hello {
			h := named("acme-w", own, guess)
			h.Takeover = true
			return h
		}),
		hello("takes over by a guessed secret", func() *rotav1.Hello {
			h := named("acme-w", own, guess)
			h.Takeover, h.OldSecret = true, []byte(guess+"-2")
			return h
		}),
		hello("registers without a secret", func() *rotav1.Hello { return named("acme-z", own, "") }),
		hello("registers for nothing at all", func() *rotav1.Hello { return &rotav1.Hello{} }),
		hello("shows an attestation of its own making", func() *rotav1.Hello {
			h := named("acme-att", own, guess)
			h.Attestation = &rotav1.Attestation{Signature: make([]byte, 64)}
			return h
		}),
		probe{name: "reports another's process as gone", try: gone},
		probe{name: "reads the outputs before another's job", try: parents},
		probe{name: "asks by refusals which nodes of workflows there are",
			try: func(ctx context.Context, s *scene) (string, error) {
				by, err := s.dial(s.tokens["acme worker"])
				if err != nil {
					return "", err
				}
				defer by.Close()
				return "the refusals say the same", saysTheSame("umbrella-flow/b@run",
					func(id string) error { return lastOf(by.ParentOutputs(ctx, rota.JobID(id))) })
			}},
		probe{name: "retires another's worker", try: func(ctx context.Context, s *scene) (string, error) {
			by, err := s.dial(s.tokens["acme worker"])
			if err != nil {
				return "", err
			}
			defer by.Close()
			_, err = by.RetireWorker(ctx, "umbrella-w")
			return refused(err, rota.KindDenied)
		}},
		probe{name: "reads a job beyond its leases", try: func(ctx context.Context, s *scene) (string, error) {
			by, err := s.dial(s.tokens["acme worker"])
			if err != nil {
				return "", err
			}
			defer by.Close()
			_, err = by.Job(ctx, "umbrella-held")
			return refused(err, rota.KindDenied)
		}},
	)
}

// foreignLease registers correctly, and sends a command about a lease that is not its own.
func foreignLease(verb rotav1.LeaseVerb, lease func(s *scene) []byte) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		w, err := s.register(ctx, named("acme-thief", rota.QueueName(ours), guess))
		if err != nil {
			return "", err
		}
		defer w.conn.Close()
		refusal, err := w.ask(&rotav1.LeaseCommand{Verb: verb, LeaseId: lease(s), Job: "umbrella-held", Ordinal: 1,
			Progress: 1, Text: "mine"})
		if refusal == nil && err == nil {
			return "", errors.New("it was accepted")
		}
		if err != nil {
			return turnedAway(err, codes.InvalidArgument)
		}
		return refusal.GetText(), nil
	}
}

// gone claims that a worker has ended, which would end its leases.
func gone(ctx context.Context, s *scene) (string, error) {
	by, err := s.dial(s.tokens["acme worker"])
	if err != nil {
		return "", err
	}
	defer by.Close()
	return refused(by.WorkerGone(ctx, "umbrella-w", s.held.Lease.Session, []byte(guess)), rota.KindDenied,
		rota.KindNotFound, rota.KindStale, rota.KindConflict)
}

func parents(ctx context.Context, s *scene) (string, error) {
	by, err := s.dial(s.tokens["acme worker"])
	if err != nil {
		return "", err
	}
	defer by.Close()
	return refused(lastOf(by.ParentOutputs(ctx, "umbrella-held")), rota.KindDenied, rota.KindNotFound, rota.KindInvalid)
}
