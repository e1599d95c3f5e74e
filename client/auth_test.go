package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
)

// authOf is a node that creates tokens and records its callers.
type authOf struct {
	rotav1.UnimplementedAuthServer
	asked  *rotav1.CreateTokenRequest
	header []string
}

func (n *authOf) CreateToken(ctx context.Context, r *rotav1.CreateTokenRequest) (*rotav1.AccessToken, error) {
	n.asked, n.header = r, metadata.ValueFromIncomingContext(ctx, "authorization")
	t, _, err := words.NewTokenFromWire(r)
	return words.AccessTokenToWire(&t), err
}

func (n *authOf) Exchange(_ context.Context, r *rotav1.ExchangeRequest) (*rotav1.AccessToken, error) {
	return &rotav1.AccessToken{Id: r.GetId(), By: r.GetJwt()}, nil
}

// TestExchange checks that a JWT is sent over TLS or to loopback only, and that the client generates the secret of the
// access token.
func TestExchange(t *testing.T) {
	t.Parallel()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer(grpc.ForceServerCodecV2(words.Codec()))
	rotav1.RegisterAuthServer(server, &authOf{})
	go server.Serve(listener)
	defer server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for address, want := range map[string]rota.Kind{"127.0.0.1:1": rota.KindNone, "unix:/nowhere": rota.KindNone,
		"10.0.0.1:1": rota.KindInvalid} {
		c, err := Dial([]string{address}, WithInsecure(),
			WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		made, secret, err := c.Auth().Exchange(ctx, "a.b.c")
		if rota.KindOf(err) != want || strings.Contains(fmt.Sprint(err), "a.b.c") ||
			(err == nil) != (made.By == "a.b.c") {
			t.Errorf("%s: %+v, %v", address, made, err)
		}
		if credential, failed := access.ParseCredential(secret); (err == nil) != (failed == nil &&
			credential.ID == made.ID) {
			t.Errorf("%s: the secret is %v", address, failed)
		}
		_ = c.Close()
	}
}

// TestCreateToken checks that the client generates the secret, that the secret matches the hash that the cluster gets
// instead of it, and that the client's own token goes with the call.
func TestCreateToken(t *testing.T) {
	t.Parallel()
	listener, server, n := bufconn.Listen(1<<16), grpc.NewServer(grpc.ForceServerCodecV2(words.Codec())), &authOf{}
	rotav1.RegisterAuthServer(server, n)
	go server.Serve(listener)
	defer server.Stop()
	own := access.CredentialOf([40]byte{1}).Secret()
	c, err := Dial([]string{"127.0.0.1:1"}, WithToken(own),
		WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	made, secret, err := c.Auth().CreateToken(ctx, rota.AccessToken{Roles: []string{"worker"}, WorkerPrefix: "gpu-",
		Expires: 7})
	if err != nil {
		t.Fatal(err)
	}
	credential, err := access.ParseCredential(secret)
	if err != nil || credential.ID != made.ID || made.WorkerPrefix != "gpu-" || made.Expires != 7 ||
		!credential.Proves([32]byte(n.asked.GetHash())) {
		t.Errorf("%+v, %v", made, err)
	}
	if !slices.Equal(n.header, []string{"Bearer " + own}) {
		t.Errorf("the call showed %q", n.header)
	}
	if _, again, err := c.Auth().CreateToken(ctx, rota.AccessToken{}); err != nil || again == secret {
		t.Errorf("two tokens are equal: %v", err)
	}
}

// TestWithToken checks that a token is sent over TLS or to loopback only.
func TestWithToken(t *testing.T) {
	t.Parallel()
	token := access.CredentialOf([40]byte{1}).Secret()
	for _, c := range []struct {
		address, token string
		tls            bool
		want           rota.Kind
	}{
		{"127.0.0.1:6470", token, false, rota.KindNone},
		{"127.9.9.9:6470", token, false, rota.KindNone},
		{"[::1]:6470", token, false, rota.KindNone},
		{"localhost:6470", token, false, rota.KindNone},
		{"10.0.0.1:6470", token, true, rota.KindNone},
		{"10.0.0.1:6470", "", false, rota.KindNone},
		{"10.0.0.1:6470", token, false, rota.KindInvalid},
		{"node.example:6470", token, false, rota.KindInvalid},
		{"localhost.example:6470", token, false, rota.KindInvalid},
		{"127.0.0.1:6470", token[1:], false, rota.KindUnauthenticated},
	} {
		opts := []Option{WithToken(c.token)}
		if c.tls {
			opts = append(opts, WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}))
		}
		client, err := Dial([]string{c.address}, opts...)
		if rota.KindOf(err) != c.want {
			t.Errorf("%s, TLS %v: %v", c.address, c.tls, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
}
