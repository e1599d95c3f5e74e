package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, otherwise, want time.Duration }{
		"long":             {10 * time.Second, 30 * time.Second, 9800 * time.Millisecond},
		"short":            {time.Second, 30 * time.Second, 900 * time.Millisecond},
		"none":             {0, 30 * time.Second, 30 * time.Second},
		"none of a stream": {0, 0, 0},
		"over":             {-time.Second, 30 * time.Second, -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, ctx := time.Now(), context.Background()
				if c.given != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithDeadline(ctx, start.Add(c.given))
					defer cancel()
				}
				ctx, cancel := withMargin(ctx, c.otherwise)
				defer cancel()
				deadline, ok := ctx.Deadline()
				if ok != (c.want != 0) || (ok && deadline.Sub(start) != c.want) {
					t.Errorf("effective deadline is %v (%v), want %v", deadline.Sub(start), ok, c.want)
				}
			})
		})
	}
	t.Run("the_nodes_answer_overtakes_the_callers_deadline", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := setup(t)
			b.core.job = func(ctx context.Context, _ rota.JobID, _ peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
				<-ctx.Done()
				return rota.Job{}, rota.ReadAt{}, ctx.Err()
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := b.jobs.Get(ctx, &rotav1.GetJobRequest{Id: "a"})
			if got := words.FromStatus(err); got.Kind != rota.KindUnavailable || got.RetryAfter != comeBack ||
				ctx.Err() != nil {
				t.Errorf("got %+v, the caller's own context: %v", got, ctx.Err())
			}
		})
	})
}

func TestStatus_ofEveryKindReachesTheCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refusal *rota.Error
	b.core.job = func(context.Context, rota.JobID, peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
		return rota.Job{}, rota.ReadAt{}, refusal
	}
	for kind := rota.KindInvalid; kind <= rota.KindInternal; kind++ {
		refusal = &rota.Error{Kind: kind, Op: "get", Subject: "j1", Text: "no: because",
			RetryAfter: time.Duration(kind) * time.Second}
		_, err := b.jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: "a"})
		if got := words.FromStatus(err); *got != *refusal {
			t.Errorf("%v: got %+v", kind, got)
		}
	}
	if !strings.Contains(b.log.String(), "call failed") {
		t.Error("an internal error is not in the log")
	}
}

func TestPanic_isAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.job = func(context.Context, rota.JobID, peer.ReadOptions) (rota.Job, rota.ReadAt,
		error) {
		panic("kaboom-1")
	}
	b.core.await = func(context.Context, []rota.JobID, func(rota.Job) error) error { panic("kaboom-2") }
	if _, err := b.jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: "a"}); kindOf(err) != rota.KindInternal {
		t.Errorf("got %v", err)
	}
	stream, err := b.jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); kindOf(err) != rota.KindInternal {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"kaboom-1", "kaboom-2", "edge_test.go"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("%s is not in the log", want)
		}
	}
	if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := healthv1.NewHealthClient(b.conn)
	check := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := client.Check(bounded(t), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != want {
			t.Errorf("%q is %v (%v), want %v", service, got.GetStatus(), err, want)
		}
	}
	check("", healthv1.HealthCheckResponse_NOT_SERVING)
	check("rota.v1.Cluster", healthv1.HealthCheckResponse_SERVING)
	b.server.SetServing(true)
	check("", healthv1.HealthCheckResponse_SERVING)
	check("rota.v1.Jobs", healthv1.HealthCheckResponse_SERVING)
	watch, err := client.Watch(bounded(t), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("watch: got %v, %v", got, err)
	}
	if err := b.server.Drain(bounded(t)); err != nil {
		t.Errorf("a watcher of the health held the server open: %v", err)
	}
}

func TestHealth_isPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var say atomic.Value
		say.Store("no leader")
		core := &fakeCore{ready: func() error {
			switch text := say.Load().(string); text {
			case "":
				return nil
			case "panic":
				panic(text)
			default:
				return errors.New(text)
			}
		}}
		s, err := NewServer(Options{Core: core})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		go s.pollReady(time.Second)
		for i, want := range []healthv1.HealthCheckResponse_ServingStatus{
			healthv1.HealthCheckResponse_NOT_SERVING, healthv1.HealthCheckResponse_SERVING,
			healthv1.HealthCheckResponse_NOT_SERVING,
		} {
			synctest.Wait()
			got, err := s.health.Check(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil || got.GetStatus() != want {
				t.Errorf("poll %d: got %v, %v, want %v", i, got.GetStatus(), err, want)
			}
			say.Store([]string{"", "panic", ""}[i])
			<-time.After(time.Second)
		}
	})
}

func TestReflection_isServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(b.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || !strings.Contains(answer.String(), "rota.v1.Jobs") {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestDrain_cutsOffWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		in, got := make(chan struct{}), make(chan error)
		b.core.job = func(ctx context.Context, _ rota.JobID, _ peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
			close(in)
			<-ctx.Done()
			return rota.Job{}, rota.ReadAt{}, ctx.Err()
		}
		go func() {
			_, err := b.jobs.Get(context.Background(), &rotav1.GetJobRequest{Id: "a"})
			got <- err
		}()
		<-in
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.server.Drain(ctx); rota.KindOf(err) != rota.KindTimeout {
			t.Errorf("drain: got %v", err)
		}
		if err := <-got; kindOf(err) != rota.KindUnavailable {
			t.Errorf("the call: got %v", err)
		}
	})
}

func TestListener_refusesOneConnectionTooMany(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxConnections = 1 })
	if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); err != nil {
		t.Fatal(err)
	}
	second, err := b.lis.DialContext(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("the second connection is served")
	}
	_ = second.Close()
	if !strings.Contains(b.log.String(), "connection refused") {
		t.Error("the log does not say it")
	}
	_ = b.conn.Close()
	third, err := grpc.NewClient("passthrough:///again",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return b.lis.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if _, err := rotav1.NewJobsClient(third).List(bounded(t), &rotav1.ListJobsRequest{},
		grpc.WaitForReady(true)); err != nil {
		t.Errorf("after the first is closed: %v", err)
	}
}

func TestTLS_isUsedWhenSet(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t)
	b := setup(t, func(o *Options) { o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}} })
	if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); kindOf(err) != rota.KindUnavailable {
		t.Errorf("without TLS: got %v", err)
	}
	conn, err := grpc.NewClient("passthrough:///n1.rota",
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return b.lis.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := rotav1.NewJobsClient(conn).List(bounded(t), &rotav1.ListJobsRequest{}); err != nil {
		t.Errorf("with TLS: %v", err)
	}
}

// certify returns a certificate for n1.rota that is its own authority.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"n1.rota"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestNewServer_refusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"no core": {}, "connections": {Core: &fakeCore{},
		MaxConnections: -1}} {
		if _, err := NewServer(options); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnknownCall_isUnimplemented(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Node = nil })
	_, err := rotav1.NewNodeClient(b.conn).Barrier(bounded(t), &rotav1.BarrierRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}
