package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestErrors_areFoundByTheirSentinels checks that a node's refusal matches the sentinel of its kind, even when the
// caller has wrapped it.
func TestErrors_areFoundByTheirSentinels(t *testing.T) {
	sentinels := map[rota.Kind]error{
		rota.KindInvalid: rota.ErrInvalid, rota.KindNotFound: rota.ErrNotFound, rota.KindConflict: rota.ErrConflict,
		rota.KindStale: rota.ErrStale, rota.KindMode: rota.ErrMode, rota.KindExhausted: rota.ErrExhausted,
		rota.KindUnavailable: rota.ErrUnavailable, rota.KindTimeout: rota.ErrTimeout,
		rota.KindOutOfRange: rota.ErrOutOfRange,
		rota.KindDenied:     rota.ErrDenied, rota.KindInternal: rota.ErrInternal,
	}
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		for kind, sentinel := range sentinels {
			refusal := words.ToStatus(rota.Refusef(kind, "j", "no"))
			f.nodes[0].onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
				return nil, refusal
			}
			f.nodes[0].onWait = func(*rotav1.WaitJobsRequest, grpc.ServerStreamingServer[rotav1.Job]) error { return refusal }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := f.client.Job(ctx, "j")
			if kind == rota.KindTimeout { // a node reports it only for a wait: else another node is tried
				_, err = Collect(f.client.Wait(ctx, "j"))
			}
			cancel()
			if err = fmt.Errorf("my own: %w", err); !errors.Is(err, sentinel) {
				t.Errorf("%v is not %v", err, sentinel)
			}
			for other, s := range sentinels {
				if other != kind && errors.Is(err, s) {
					t.Errorf("%v (%v) is also %v", err, kind, s)
				}
			}
		}
	})
}

// errWhy is the cause of a caller's context.
var errWhy = errors.New("the request is gone")

// TestErrors_sayThatTheTimeIsOver checks that the error of a call whose time ended wraps ctx's own error and its cause,
// whether nodes are silent, refuse, or are still working.
func TestErrors_sayThatTheTimeIsOver(t *testing.T) {
	t.Parallel()
	silence := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	refusal := func(context.Context) error {
		return words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "no leader"))
	}
	for name, answer := range map[string]func(context.Context) error{"silent": silence, "refusing": refusal} {
		t.Run(name, func(t *testing.T) { // new nodes: the earlier ones may still be answering
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 2)
				defer stop()
				for _, n := range f.nodes {
					n.onGet = func(ctx context.Context, _ *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
						return nil, answer(ctx)
					}
					n.onSubmit = func(ctx context.Context, _ *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
						return nil, answer(ctx)
					}
					n.onWait = func(_ *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
						return answer(s.Context())
					}
					n.onStatus = func(ctx context.Context) (*rotav1.StatusResponse, error) { return nil, answer(ctx) }
					n.flows.onWait = func(ctx context.Context, _ *rotav1.WaitWorkflowRequest) (*rotav1.Workflow,
						error) {
						return nil, answer(ctx)
					}
				}
				calls := map[string]func(context.Context) error{
					"job": func(ctx context.Context) error { _, err := f.client.Job(ctx, "j"); return err },
					"submit": func(ctx context.Context) error {
						_, err := f.client.Submit(ctx, rota.NewJobSpec("t", nil))
						return err
					},
					"wait": func(ctx context.Context) error {
						_, err := Collect(f.client.Wait(ctx, "j"))
						return err
					},
					"flow":   func(ctx context.Context) error { _, err := f.client.WaitWorkflow(ctx, "f"); return err },
					"status": func(ctx context.Context) error { _, err := f.client.Status(ctx); return err },
				}
				for call, ask := range calls {
					if call == "status" && name == "refusing" {
						continue // each is called once: the answer arrives in time
					}
					ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errWhy)
					err := ask(ctx)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errWhy) ||
						errors.Is(err, context.Canceled) {
						t.Errorf("%s of %s nodes, a deadline: %v", call, name, err)
					}
					if call != "wait" && call != "flow" && rota.KindOf(err) != rota.KindUnavailable {
						t.Errorf("%s of %s nodes is of kind %v", call, name, rota.KindOf(err))
					}
					if name == "refusing" && !strings.Contains(err.Error(), "no leader") {
						t.Errorf("%s of refusing nodes returns %v", call, err)
					}
					ctx, stop := context.WithCancelCause(t.Context())
					stop(errWhy)
					err = ask(ctx)
					if !errors.Is(err, context.Canceled) || !errors.Is(err, errWhy) ||
						!errors.Is(err, rota.ErrTimeout) {
						t.Errorf("%s of %s nodes, cancelled: %v", call, name, err)
					}
				}
			})
		})
	}
}

// TestErrors_sayWhatIsThere checks an address where something other than a serving node answers: the call fails to
// connect, and the error names the kind of server there instead of the library's view of it.
func TestErrors_sayWhatIsThere(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, protocol func(p *http.Protocols, set bool)) net.Addr {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog, s.Config.Protocols = log.New(io.Discard, "", 0), new(http.Protocols)
		if protocol == nil {
			s.StartTLS()
		} else {
			protocol(s.Config.Protocols, true)
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.Listener.Addr()
	}
	listen := func(t *testing.T) net.Listener {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lis.Close() })
		return lis
	}
	for name, c := range map[string]struct {
		at   func(t *testing.T) net.Addr
		want string
	}{
		"a node that starts": {func(t *testing.T) net.Addr { return listen(t).Addr() },
			"the port is open and nobody answers, as while a node starts, or waits for others"},
		"an admin port": {func(t *testing.T) net.Addr { return serve(t, (*http.Protocols).SetHTTP1) },
			"an HTTP server is there that is no client port of a node, as that of --admin is none"},
		"a server of HTTP/2": {func(t *testing.T) net.Addr { return serve(t, (*http.Protocols).SetUnencryptedHTTP2) },
			"an HTTP server is there that is no client port of a node, which answered 404 (Not Found)"},
		"a server that wants TLS": {func(t *testing.T) net.Addr { return serve(t, nil) }, "or wants TLS"},
		"one that closes": {func(t *testing.T) net.Addr {
			lis := listen(t)
			go func() {
				for {
					conn, err := lis.Accept()
					if err != nil {
						return
					}
					_ = conn.Close()
				}
			}()
			return lis.Addr()
		}, "it was closed without an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.at(t).String()
			client, err := Dial([]string{address}, WithInsecure())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Status(t.Context())
			if want := "node " + address + ": no connection: "; !errors.Is(err, rota.ErrUnavailable) ||
				!strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q and %q", err, want, c.want)
			}
			for _, raw := range []string{"preface", "http2", "raw-read", "malformed"} {
				if strings.Contains(err.Error(), raw) {
					t.Errorf("%q is in %v", raw, err)
				}
			}
		})
	}
}
