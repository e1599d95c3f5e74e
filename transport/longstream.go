package transport

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// maxStep bounds how long a long stream may be idle: no message arrives, or is received.
const maxStep = 20 * time.Second

// allowance bounds the total that calls of one kind hold on this node.
type allowance struct {
	most int64
	mu   sync.Mutex
	used int64
}

// take reserves n more, or returns false if that much is not free.
func (a *allowance) take(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used+n > a.most {
		return false
	}
	a.used += n
	return true
}

func (a *allowance) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= n
}

// busy sends a caller to another node, which may have capacity.
func (s *Server) busy(what string) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: comeBack,
		Text: "node " + string(s.options.Self) + " " + what + ": ask another node, or again"}
}

// untilDone runs a stream's work and returns its error, or the reason that ctx ended if that happens first: Recv and
// Send react only to gRPC's own context. The step that f is in then ends as the handler returns.
func (s *Server) untilDone(ctx context.Context, method string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- s.panicked(method, r)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// patience ends a context when a stream does not move for maxStep.
type patience struct{ timer *time.Timer }

func withPatience(ctx context.Context) (context.Context, patience, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxStep, func() {
		cancel(rota.Refusef(rota.KindTimeout, "stream", "the stream was cancelled: no message moved for %v", maxStep))
	})
	return ctx, patience{timer}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// moved restarts the time.
func (p patience) moved() { p.timer.Reset(maxStep) }
