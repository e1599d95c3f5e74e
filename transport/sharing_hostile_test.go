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
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

func TestCrowd(t *testing.T) {
	t.Parallel()
	c := newLimiter(5)
	var leaves []func()
	enter := func(from string, want, wantFull bool) {
		t.Helper()
		leave, full := c.enter(from)
		if (leave != nil) != want || full != wantFull {
			t.Fatalf("%s: in %v, full %v", from, leave != nil, full)
		}
		if leave != nil {
			leaves = append(leaves, leave)
		}
	}
	for range 3 {
		enter("a", true, false)
	}
	enter("a", false, false) // half is one address's share
	enter("b", true, false)
	enter("c", true, false)
	enter("d", false, true)
	for _, leave := range leaves {
		leave()
		leave() // counts once
	}
	if c.open != 0 || len(c.from) != 0 {
		t.Errorf("%d are in, from %v", c.open, c.from)
	}
	for text, want := range map[string]string{"10.0.0.1:5": "10.0.0.1", "[::ffff:10.0.0.1]:5": "10.0.0.1",
		"[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64", "[2001:db8:1:2::9]:8": "2001:db8:1:2::/64"} {
		addr, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(addr); got != want {
			t.Errorf("%s is counted for %s", text, got)
		}
	}
}

// TestCrowdOfWatchers is row 15 of the hostile list: endless watchers are rejected above the cap, others are served
// meanwhile, and everything is free again afterwards.
func TestCrowdOfWatchers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		b.server.calls = &limiter{most: 400, each: 300, from: make(map[string]int)}
		b.core.await = func(ctx context.Context, _ []rota.JobID, _ func(rota.Job) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		refused := make(chan *rota.Error, 500)
		for range 500 {
			stream, err := b.jobs.Wait(ctx, &rotav1.WaitJobsRequest{Ids: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, err := stream.Recv()
				if ctx.Err() == nil {
					refused <- words.FromStatus(err)
				}
			}()
		}
		for range 200 {
			if e := <-refused; e.Kind != rota.KindExhausted || e.RetryAfter == 0 ||
				!strings.Contains(e.Text, "300 calls of this address") {
				t.Fatalf("got %+v", e)
			}
		}
		if leave, _ := b.server.calls.enter("another address"); leave == nil {
			t.Error("another address is kept out")
		} else {
			leave()
		}
		peers := b.peersOf(t)
		if _, err := peers.Barrier(bounded(t), peer.NodeAddress{ID: "n1", API: "n1:1"}); err != nil {
			t.Errorf("another node is kept out: %v", err)
		}
		cancel()
		for { // the handlers end one by one
			if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); err == nil {
				break
			} else if kindOf(err) != rota.KindExhausted {
				t.Fatal(err)
			}
		}
	})
}

func (b *bundle) peersOf(t *testing.T) *Peers {
	peers := NewPeers(PeerOptions{Self: "n2", Name: "prod", Dial: func(ctx context.Context, _ string) (net.Conn,
		error) {
		return b.lis.DialContext(ctx)
	}})
	t.Cleanup(func() { _ = peers.Close() })
	return peers
}

// TestStormOfStreams opens streams and drops them at once, a limited version of an attack: nothing of them remains, and
// another client is served.
func TestStormOfStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		b.core.await = func(ctx context.Context, _ []rota.JobID, _ func(rota.Job) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for range 5_000 {
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := b.jobs.Wait(ctx, &rotav1.WaitJobsRequest{Ids: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if open := b.server.calls.open; open != 0 {
			t.Errorf("%d calls are still counted", open)
		}
	})
}

func lastingCert(t *testing.T, life time.Duration) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"n1.rota"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTrust is row 17 of the hostile list: an open stream ends within 30 s of its certificate's end, or of the
// revocation of its authority.
func TestTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ life, revoked, over time.Duration }{
		"expired":    {life: 3 * time.Minute, over: 3 * time.Minute},
		"taken back": {life: time.Hour, revoked: 5 * time.Minute, over: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				certificate, pool := lastingCert(t, time.Hour)
				theirs, theirPool := lastingCert(t, c.life)
				var revoked atomic.Bool
				if c.revoked > 0 {
					time.AfterFunc(c.revoked, func() { revoked.Store(true) })
				}
				b := setup(t, func(o *Options) {
					o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: theirPool,
						ClientAuth: tls.VerifyClientCertIfGiven, VerifyConnection: func(tls.ConnectionState) error {
							if revoked.Load() {
								return errors.New("its authority was revoked")
							}
							return nil
						}}
				})
				b.core.await = func(ctx context.Context, _ []rota.JobID, _ func(rota.Job) error) error {
					<-ctx.Done()
					return ctx.Err()
				}
				began := time.Now()
				conn, err := grpc.NewClient("passthrough:///n1.rota", grpc.WithTransportCredentials(credentials.NewTLS(
					&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{theirs}})),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						return b.lis.DialContext(ctx)
					}))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				stream, err := rotav1.NewJobsClient(conn).Wait(t.Context(), &rotav1.WaitJobsRequest{Ids: []string{"a"}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = stream.Recv()
				if took := time.Since(began); err == nil || took < c.over || took > c.over+30*time.Second {
					t.Errorf("the stream ended after %v: %v", took, err)
				}
				if !strings.Contains(b.log.String(), "its certificate no longer counts") {
					t.Error("the log does not say it")
				}
				b.server.Close()
				synctest.Wait()
			})
		})
	}
}

// FuzzMessages sends any bytes as the message of any call, of clients and of nodes, to its handler with a core that
// accepts everything: each returns an answer or an error.
func FuzzMessages(f *testing.F) {
	b := setup(f)
	type method struct {
		service any
		desc    grpc.MethodDesc
	}
	var methods []method
	for _, one := range []struct {
		desc    *grpc.ServiceDesc
		service any
	}{
		{&rotav1.Node_ServiceDesc, &nodeService{core: b.node, log: b.server.log}},
		{&rotav1.Jobs_ServiceDesc, &jobsService{server: b.server, core: b.core}},
		{&rotav1.Workers_ServiceDesc, &workersService{server: b.server, core: b.core}},
		{&rotav1.Queues_ServiceDesc, &queuesService{core: b.core}},
		{&rotav1.Tenants_ServiceDesc, &tenantsService{core: b.core}},
		{&rotav1.Explain_ServiceDesc, &explainService{core: b.core}},
		{&rotav1.Workflows_ServiceDesc, &workflowsService{server: b.server, core: b.core}},
		{&rotav1.Keys_ServiceDesc, &keysService{core: b.core}},
		{&rotav1.Plans_ServiceDesc, &plansService{core: b.core}},
		{&rotav1.Batches_ServiceDesc, &batchesService{server: b.server, core: b.core}},
		{&rotav1.Schedules_ServiceDesc, &schedulesService{core: b.core}},
		{&rotav1.Webhooks_ServiceDesc, &webhooksService{core: b.core}},
		{&rotav1.Cluster_ServiceDesc, &clusterService{core: b.core, attention: b.server.attention}},
	} {
		for _, m := range one.desc.Methods {
			methods = append(methods, method{one.service, m})
		}
	}
	me, _ := proto.Marshal(&rotav1.ForwardRequest{Caller: &rotav1.Caller{Node: "n2", ClusterName: "prod"},
		Commands: []byte("x")})
	submit, _ := proto.Marshal(&rotav1.SubmitRequest{Jobs: []*rotav1.JobSpec{{Id: "a", Type: "x", Queue: "default"}}})
	for i := range methods {
		f.Add(byte(i), me)
		f.Add(byte(i), submit)
		f.Add(byte(i), []byte{0x0a, 1, 'a', 0x12, 1, 'b', 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			1})
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		m := methods[int(which)%len(methods)]
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		var garbled error // gRPC rejects that before any handler
		_, err := m.desc.Handler(m.service, ctx, func(message any) error {
			garbled = proto.Unmarshal(data, message.(proto.Message))
			return garbled
		}, nil)
		if garbled == nil && kindOf(err) == rota.KindInternal {
			t.Fatalf("%s: %v", m.desc.MethodName, err)
		}
	})
}
