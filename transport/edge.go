package transport

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// callTimeout is the timeout of a call without a deadline.
	callTimeout = 30 * time.Second
	// maxMargin is the most that is subtracted from a caller's deadline; a tenth of a short one.
	maxMargin = 200 * time.Millisecond
	// comeBack is the retry delay sent to a caller whose time was too short.
	comeBack = 500 * time.Millisecond
)

// unary intercepts every unary RPC.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (resp any, err error) {
	leave, err := s.receive(ctx, info.FullMethod)
	if err != nil {
		return nil, words.ToStatus(err)
	}
	defer leave()
	p, err := passOf(ctx)
	if err != nil {
		return nil, words.ToStatus(err)
	}
	inner, cancel := withMargin(p.context(ctx), callTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, words.ToStatus(s.panicked(info.FullMethod, r))
		}
	}()
	size := sizeOf(info.FullMethod, req)
	if err := checkSize(size); err != nil {
		return nil, words.ToStatus(err)
	}
	unpacked := p.unpack(ctx)
	defer unpacked.release()
	unpacked.hold(size)
	if resp, err = handler(inner, req); err != nil {
		p.denied(err)
		return nil, s.toStatus(ctx, info.FullMethod, err)
	}
	if err := s.answerable(p); err != nil {
		p.denied(err)
		return nil, words.ToStatus(err)
	}
	return resp, nil
}

// streaming intercepts every stream; a stream without a deadline gets none.
func (s *Server) streaming(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	leave, err := s.receive(stream.Context(), info.FullMethod)
	if err != nil {
		return words.ToStatus(err)
	}
	defer leave()
	p, err := passOf(stream.Context())
	if err != nil {
		return words.ToStatus(err)
	}
	ctx, cancel := withMargin(p.context(stream.Context()), 0)
	defer cancel()
	ctx, left := s.desk.enter(ctx, p)
	defer left()
	if strings.HasPrefix(info.FullMethod, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		// Otherwise a watcher of our health service would hold a draining server open.
		ctx, cancel = s.untilDrain(ctx)
		defer cancel()
	}
	defer func() {
		if r := recover(); r != nil {
			err = words.ToStatus(s.panicked(info.FullMethod, r))
		}
	}()
	unpacked := p.unpack(stream.Context())
	defer unpacked.release()
	err = handler(srv, &edgeStream{ServerStream: stream, ctx: ctx, method: info.FullMethod, unpacked: unpacked})
	if lost := wasCutOff(ctx); lost != nil {
		err = lost
	} else if rota.KindOf(err) == rota.KindStale {
		err = s.orLost(p, err)
	}
	if err != nil {
		p.denied(err)
		return s.toStatus(stream.Context(), info.FullMethod, err)
	}
	return nil
}

// orLost adds to the error of a worker's ended session that its credential is no longer valid, if that is the case.
func (s *Server) orLost(p *pass, err error) error {
	again := *p // its call reads its own
	lost := s.judge(&again)
	if rota.KindOf(lost) != rota.KindUnauthenticated {
		return err
	}
	e := *rota.ErrorOf(err)
	e.Text = "the session ended: " + rota.ErrorOf(lost).Text
	return &e
}

// edgeStream is a stream with the effective deadline and the size limit.
type edgeStream struct {
	grpc.ServerStream
	ctx    context.Context
	method string
	// unpacked counts its messages if they arrive compressed.
	unpacked *unpacked
}

func (s *edgeStream) Context() context.Context { return s.ctx }

func (s *edgeStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := wasCutOff(s.ctx); err != nil {
		return err
	}
	size := sizeOf(s.method, m)
	s.unpacked.hold(size)
	return checkSize(size)
}

func (s *edgeStream) SendMsg(m any) error {
	if err := wasCutOff(s.ctx); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// withMargin returns a context that ends a little before the caller's, so that the server's own answer reaches a caller
// that still listens (SPEC §13.1). A call without a deadline gets otherwise; 0 means none.
func withMargin(ctx context.Context, otherwise time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if ok {
		margin := min(maxMargin, time.Until(deadline)/10)
		return context.WithDeadline(ctx, deadline.Add(-max(0, margin)))
	}
	if otherwise > 0 {
		return context.WithTimeout(ctx, otherwise)
	}
	return context.WithCancel(ctx)
}

// toStatus builds the caller's error. An internal error is logged here, because the caller can do nothing about it.
func (s *Server) toStatus(ctx context.Context, method string, err error) error {
	err = words.ToStatus(late(ctx, err))
	if status.Code(err) == codes.Internal {
		s.log.Error("call failed", "method", method, "error", err)
	}
	return err
}

// late turns a core's bare context error into the error of SPEC §13.1: the effective deadline has passed while the
// caller still waits.
func late(ctx context.Context, err error) error {
	var e *rota.Error
	if ctx.Err() != nil || errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &rota.Error{Kind: rota.KindUnavailable, RetryAfter: comeBack,
		Text: "the node found no answer in time, what came of the call is unknown: repeat it with the same ids"}
}

// refusalOf returns the error for one item of a batch, or of a stream.
func refusalOf(ctx context.Context, err error) *rota.Error {
	return words.FromStatus(late(ctx, err))
}

// panicked logs a panic with its stack and returns the error for the caller.
func (s *Server) panicked(method string, r any) error {
	s.log.Error("panic in a call", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return rota.Refusef(rota.KindInternal, "", "the node failed to answer: see its log")
}

// sizeOf returns the size of a public call's message, 0 for one of a node.
func sizeOf(method string, m any) int {
	switch m := m.(type) {
	case *words.FromWorker:
		return m.Size
	case *words.Submission:
		return m.Size
	case proto.Message:
		if !ofNodes(method) {
			return proto.Size(m)
		}
	}
	return 0
}

// checkSize limits public calls to the largest message (SECURITY §2.1).
func checkSize(size int) error {
	if size > limits.MaxMessageBytes {
		return rota.Refusef(rota.KindInvalid, "message",
			"message too long: got %d bytes, maximum %d; send smaller batches",
			size, limits.MaxMessageBytes)
	}
	return nil
}

// checkCount rejects a list that is empty or too long.
func checkCount(field string, n, most int) error {
	if n < 1 || n > most {
		return rota.Refusef(rota.KindInvalid, field, "%s: got %d, want 1 to %d", field, n, most)
	}
	return nil
}

// checkOptionalID rejects a given id that is not valid.
func checkOptionalID(field, id string) error {
	if id == "" {
		return nil
	}
	return rota.CheckID(field, id)
}

// checkLengths returns an error if a core answered more or fewer items than were requested: guessing which outcome
// belongs to which item would be worse than none.
func checkLengths(what string, asked, answered int) error {
	if asked != answered {
		return rota.Refusef(rota.KindInternal, what, "asked for %d %s, got %d answers", asked, what, answered)
	}
	return nil
}
