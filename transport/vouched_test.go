package transport

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestStreamsEnd_whereNobodyVouches checks that streams end with the reason once no leader confirms a node's state, and
// that a backup of the remaining state continues.
func TestStreamsEnd_whereNobodyVouches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		begun := make(chan struct{}, 3)
		b.core.await = func(ctx context.Context, _ []rota.JobID, _ func(rota.Job) error) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		b.core.events = func(ctx context.Context, _ rota.EventFilter, _ func(peer.EventBatch) error) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		more := make(chan struct{})
		b.core.snapshot = func(_ context.Context, w io.Writer) error {
			begun <- struct{}{}
			<-more
			_, err := w.Write([]byte("saved"))
			return err
		}
		ctx := bounded(t)
		received := make(map[string]func() error)
		wait, err := b.jobs.Wait(ctx, &rotav1.WaitJobsRequest{Ids: []string{"j1"}})
		if err != nil {
			t.Fatal(err)
		}
		received["a wait"] = func() error { _, err := wait.Recv(); return err }
		tail, err := rotav1.NewEventsClient(b.conn).Tail(ctx, &rotav1.TailRequest{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		received["events"] = func() error { _, err := tail.Recv(); return err }
		work := open(t, b, newSession())
		received["a worker"] = func() error { return endOf(work) }
		saved, err := b.cluster.SaveSnapshot(ctx, &rotav1.SaveSnapshotRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			<-begun
		}
		b.core.unvouched.Store(rota.Refusef(rota.KindUnavailable, "node", "no leader vouches: ask another node"))
		for what, recv := range received {
			if err := recv(); kindOf(err) != rota.KindUnavailable ||
				!strings.Contains(err.Error(), "no leader vouches: ask another node") {
				t.Errorf("%s ended with %v", what, err)
			}
		}
		close(more)
		if chunk, err := saved.Recv(); err != nil || string(chunk.GetData()) != "saved" {
			t.Errorf("a backup continues with %q, %v", chunk.GetData(), err)
		}
	})
}

// TestWebSocket_isJudged checks that events over WebSocket are read under their caller's rights, and end when it loses
// its right or no leader confirms the node's state.
func TestWebSocket_isJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *bundle)
		reason string
		code   websocket.StatusCode
	}{
		"a revocation": {func(b *bundle) { b.core.setTable(&rightsTable{}) }, "UNAUTHENTICATED",
			websocket.StatusPolicyViolation},
		"no leader": {func(b *bundle) {
			b.core.unvouched.Store(rota.Refusef(rota.KindUnavailable, "node", "no leader vouches"))
		}, "UNAVAILABLE: no leader vouches", websocket.StatusServiceRestart},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := setup(t)
				table := &rightsTable{}
				table.give(rota.Anonymous, rota.RightRead)
				b.core.setTable(table)
				callers := make(chan access.Caller, 1)
				b.core.events = func(ctx context.Context, _ rota.EventFilter, _ func(peer.EventBatch) error) error {
					caller, _ := ctx.Value(access.CallerKey{}).(access.Caller)
					callers <- caller
					<-ctx.Done()
					return ctx.Err()
				}
				conn, _, err := b.web(t, eventsPath)
				if err != nil {
					t.Fatal(err)
				}
				if caller := <-callers; caller.Actor != rota.Anonymous || caller.Via != "n1/http" {
					t.Errorf("events are read for %+v", caller)
				}
				c.change(b)
				_, _, err = conn.Read(bounded(t))
				var end websocket.CloseError
				if !errors.As(err, &end) || end.Code != c.code || !strings.HasPrefix(end.Reason, c.reason) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
