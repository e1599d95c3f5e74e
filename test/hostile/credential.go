package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/rig"
)

// bearing calls with authorization headers, which must not be accepted.
func bearing(headers func(s *scene) []string) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		conn, err := s.conn(s.nodes[0])
		if err != nil {
			return "", err
		}
		defer conn.Close()
		for _, h := range headers(s) {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", h)
		}
		return turnedAway(invoke(ctx, conn, rotav1.Jobs_List_FullMethodName), codes.Unauthenticated)
	}
}

// tokenProbes are tokens that are not valid.
func tokenProbes() []probe {
	one := func(name string, header func(s *scene) string) probe {
		return probe{name: name, try: bearing(func(s *scene) []string { return []string{header(s)} })}
	}
	root := func(s *scene) string { return s.tokens["root"] }
	return []probe{
		one("a token that was never made", func(*scene) string {
			return "Bearer rota_abcdefghijkl_" + strings.Repeat("flood777", 6) + "flop"
		}),
		one("a token's id with another secret", func(s *scene) string {
			return "Bearer rota_" + idOf(root(s)) + "_" + strings.Split(s.tokens["acme"], "_")[2]
		}),
		one("a token cut short", func(s *scene) string { return "Bearer " + root(s)[:len(root(s))-1] }),
		one("a token in capitals", func(s *scene) string { return "Bearer " + strings.ToUpper(root(s)) }),
		one("a token as a password", func(s *scene) string { return "Basic " + root(s) }),
		one("a token of 4 KiB", func(*scene) string { return "Bearer rota_" + strings.Repeat("a", 4<<10) }),
		one("a token that was revoked", func(s *scene) string { return "Bearer " + s.tokens["revoked"] }),
		{name: "a token that has expired", try: expiredToken},
		{name: "two tokens at once", try: bearing(func(s *scene) []string {
			return []string{"Bearer " + s.tokens["acme"], "Bearer " + root(s)}
		})},
		{name: "a token and a certificate at once", try: tokenAndCertificate},
	}
}

// expiredToken waits until the token has expired, by its date, and presents it.
func expiredToken(ctx context.Context, s *scene) (said string, err error) {
	err = rig.Until(ctx, func() error {
		said, err = bearing(func(s *scene) []string { return []string{"Bearer " + s.tokens["expired"]} })(ctx, s)
		return err
	})
	return said, err
}

func tokenAndCertificate(ctx context.Context, s *scene) (string, error) {
	pair, err := s.clientCA.client("root", "ann")
	if err != nil {
		return "", err
	}
	conn, err := s.conn(s.nodes[0], pair)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.tokens["root"])
	return turnedAway(invoke(ctx, conn, rotav1.Jobs_List_FullMethodName), codes.Unauthenticated)
}

// showing calls with a client certificate that must not be accepted: the connection ends, or the call is refused.
func showing(certificate func(s *scene) (tls.Certificate, error)) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		pair, err := certificate(s)
		if err != nil {
			return "", err
		}
		conn, err := s.conn(s.nodes[0], pair)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return turnedAway(invoke(ctx, conn, rotav1.Jobs_List_FullMethodName), codes.Unauthenticated,
			codes.PermissionDenied, codes.Unavailable)
	}
}

// certificateProbes are certificates with one fault each; one without a fault is accepted.
func certificateProbes() []probe {
	with := func(name string, faults ...fault) probe {
		return probe{name: name, try: showing(func(s *scene) (tls.Certificate, error) {
			return s.clientCA.client("root", "ann", faults...)
		})}
	}
	uri := func(texts ...string) fault {
		return func(c *x509.Certificate) {
			c.URIs = nil
			for _, text := range texts {
				parsed, _ := url.Parse(text)
				c.URIs = append(c.URIs, parsed)
			}
		}
	}
	usable := func(uses ...x509.ExtKeyUsage) fault { return func(c *x509.Certificate) { c.ExtKeyUsage = uses } }
	const ann = "spiffe://rota/client/root/ann"
	return []probe{
		{name: "a sound certificate counts, or the others prove nothing", try: soundCertificate},
		{name: "a certificate of a foreign authority", try: showing(func(s *scene) (tls.Certificate, error) {
			return s.foreignCA.client("root", "ann")
		})},
		{name: "a client's of the nodes' authority", try: showing(func(s *scene) (tls.Certificate, error) {
			return s.nodeCA.client("root", "ann")
		})},
		{name: "a node's of the clients' authority", try: showing(func(s *scene) (tls.Certificate, error) {
			return s.clientCA.node("n1")
		})},
		{name: "a node's own, for a client's call", try: showing(func(s *scene) (tls.Certificate, error) {
			return s.nodeCA.node("n2")
		})},
		{name: "a certificate signed by a client's", try: showing(grandchild)},
		{name: "a certificate that blocks name", try: blocked},
		with("a certificate for servers alone", usable(x509.ExtKeyUsageServerAuth)),
		with("a certificate for any use", usable(x509.ExtKeyUsageAny)),
		with("a certificate with two URIs", uri(ann, ann+"2")),
		with("a certificate without a URI", uri()),
		with("a certificate of another cluster", uri("spiffe://other/client/root/ann")),
		with("a certificate with one part too many", uri(ann+"/x")),
		with("a certificate with a path in its role", uri("spiffe://rota/client/../node/n1")),
		with("a certificate of a role that is none", uri("spiffe://rota/client/nosuch/ann")),
		with("a certificate that has expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		with("a certificate that does not count yet",
			func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
	}
}

func soundCertificate(ctx context.Context, s *scene) (string, error) {
	pair, err := s.clientCA.client("root", "bob")
	if err != nil {
		return "", err
	}
	return "taken", asClient(ctx, s, pair)
}

// asClient lists jobs with a certificate.
func asClient(ctx context.Context, s *scene, pair tls.Certificate) error {
	conn, err := s.conn(s.nodes[0], pair)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = rotav1.NewJobsClient(conn).List(ctx, &rotav1.ListJobsRequest{})
	return err
}

// grandchild is signed by a client's key, in place of an authority's.
func grandchild(s *scene) (tls.Certificate, error) {
	parent, err := s.clientCA.client("reader", "eve")
	if err != nil {
		return parent, err
	}
	between := authorityOf(parent)
	child, err := between.client("root", "ann")
	child.Certificate = append(child.Certificate, parent.Certificate...)
	return child, err
}

// blocked has an operator block a name whose certificate was valid before.
func blocked(ctx context.Context, s *scene) (said string, err error) {
	pair, err := s.clientCA.client("root", "gone")
	if err != nil {
		return "", err
	}
	if err := asClient(ctx, s, pair); err != nil {
		return "", fmt.Errorf("before it is blocked: %w", err)
	}
	if err := s.root.Auth().SetBlock(ctx, "root", "gone", true); err != nil {
		return "", err
	}
	err = rig.Until(ctx, func() error { // that node applies it a moment later
		if err := asClient(ctx, s, pair); status.Code(err) != codes.Unauthenticated {
			return errors.Join(errors.New("it counts"), err)
		} else {
			said = err.Error()
		}
		return nil
	})
	return said, err
}
