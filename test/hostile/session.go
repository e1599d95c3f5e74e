package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/rig"
)

// sessionCookie is the cookie in which the console keeps a session.
const sessionCookie = "__Host-rota-ui="

// sessionProbes are the probes by an attacker who finds a link to a session, or the remains of one.
func sessionProbes() []probe {
	return []probe{
		{name: "a session counts until it is signed out, or the others prove nothing", try: soundSession},
		{name: "a session that was signed out, at another node",
			try: func(ctx context.Context, s *scene) (string, error) {
				id, secret, err := s.openSession(ctx, s.tokens["acme"])
				if err == nil {
					err = s.auth(ctx, 0, secret, func(ctx context.Context, c rotav1.AuthClient) error {
						_, err := c.EndSession(ctx, &rotav1.EndSessionRequest{Id: id})
						return err
					})
				}
				return s.spent(ctx, secret, err)
			}},
		{name: "a session whose token was revoked", try: func(ctx context.Context, s *scene) (string, error) {
			t, token, err := s.root.Auth().CreateToken(ctx, rota.AccessToken{Roles: []string{"reader"},
				Expires: rota.DateOf(time.Now().Add(time.Minute))})
			if err != nil {
				return "", err
			}
			var secret string
			err = rig.Until(ctx, func() error { // that node applies the token a moment later
				_, secret, err = s.openSession(ctx, token)
				return err
			})
			if err == nil {
				err = s.root.Auth().RevokeToken(ctx, t.ID)
			}
			return s.spent(ctx, secret, err)
		}},
		{name: "a session of a session", try: func(ctx context.Context, s *scene) (string, error) {
			_, secret, err := s.openSession(ctx, s.tokens["acme"])
			if err != nil {
				return "", err
			}
			_, _, err = s.openSession(ctx, secret)
			return turnedAway(err, codes.PermissionDenied)
		}},
		{name: "a link's code, as a token", try: func(ctx context.Context, s *scene) (string, error) {
			t, code, err := s.openLink(ctx)
			if err != nil {
				return "", err
			}
			said, err := turnedAway(s.lists(ctx, 0, code), codes.PermissionDenied)
			return said, errors.Join(err, s.root.Auth().EndSession(ctx, t.ID))
		}},
		{name: "a link that was opened, opened again", try: func(ctx context.Context, s *scene) (string, error) {
			t, code, err := s.openLink(ctx)
			if err == nil {
				err = s.claim(ctx, 0, t.ID, code, sum(t.ID, draw()))
			}
			if err != nil {
				return "", err
			}
			said, err := turnedAway(s.claim(ctx, 1, t.ID, code, sum(t.ID, draw())), codes.Unauthenticated)
			return said, errors.Join(err, s.root.Auth().EndSession(ctx, t.ID))
		}},
		{name: "a link that two open at once, at two nodes", try: raced},
		{name: "another's session, ended", try: func(ctx context.Context, s *scene) (string, error) {
			id, _, err := s.openSession(ctx, s.tokens["root"])
			if err != nil {
				return "", err
			}
			return refused(s.clerk.Auth().EndSession(ctx, id), rota.KindNotFound)
		}},
		{name: "another's link, opened by one who knows its id alone",
			try: func(ctx context.Context, s *scene) (string, error) {
				t, _, err := s.openLink(ctx)
				if err != nil {
					return "", err
				}
				return turnedAway(s.claim(ctx, 0, t.ID, s.tokens["clerk"], sum(t.ID, draw())), codes.PermissionDenied)
			}},
		{name: "a session's cookie, at the API", try: cookie("GET", "/v1/jobs", "", 401)},
		{name: "a session's cookie, sent by another page", try: cookie("POST", "/ui/session", "https://"+evil, 403)},
		{name: "a session's cookie, sent by no page", try: cookie("POST", "/ui/session", "", 403)},
		{name: "a session's cookie, sent by a page of another port",
			try: cookie("POST", "/ui/session", "https://127.0.0.1:1", 403)},
		{name: "a session, signed out by another page", try: cookie("DELETE", "/ui/session", "https://"+evil, 403)},
		{name: "looks for a session's secret in the data directories",
			try: func(ctx context.Context, s *scene) (string, error) {
				_, secret, err := s.openSession(ctx, s.tokens["root"])
				if err != nil {
					return "", err
				}
				return s.search([]string{strings.Split(secret, "_")[2]})
			}},
	}
}

// draw makes the secret of a credential.
func draw() string {
	b := make([]byte, 40)
	_, _ = rand.Read(b)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))[12:]
}

// sum is the hash that a cluster keeps of a credential.
func sum(id, secret string) []byte {
	hash := sha256.Sum256([]byte("rota|token|" + id + "|" + secret))
	return hash[:]
}

// auth calls a node's Auth with a bearer.
func (s *scene) auth(ctx context.Context, node int, bearer string,
	do func(context.Context, rotav1.AuthClient) error) error {
	conn, err := s.conn(s.nodes[node])
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer), rotav1.NewAuthClient(conn))
}

// openSession opens a session by a credential, and returns its id and secret.
func (s *scene) openSession(ctx context.Context, bearer string) (id, secret string, err error) {
	id, own := draw()[:12], draw()
	err = s.auth(ctx, 0, bearer, func(ctx context.Context, c rotav1.AuthClient) error {
		_, err := c.OpenSession(ctx, &rotav1.OpenSessionRequest{Id: id, Hash: sum(id, own)})
		return err
	})
	return id, "rota_" + id + "_" + own, err
}

// openLink makes a link, and waits until each node has applied it: it is a token that has no rights yet.
func (s *scene) openLink(ctx context.Context) (t rota.AccessToken, code string, err error) {
	t, code, _, err = s.root.Auth().OpenSession(ctx, true)
	for node := range s.nodes {
		if err == nil {
			err = rig.Until(ctx, func() error {
				_, err := turnedAway(s.lists(ctx, node, code), codes.PermissionDenied)
				return err
			})
		}
	}
	return t, code, err
}

// claim opens a link by its code, or by another credential.
func (s *scene) claim(ctx context.Context, node int, id, bearer string, hash []byte) error {
	return s.auth(ctx, node, bearer, func(ctx context.Context, c rotav1.AuthClient) error {
		_, err := c.ClaimSession(ctx, &rotav1.ClaimSessionRequest{Id: id, Hash: hash})
		return err
	})
}

// lists lists jobs at a node, as a session.
func (s *scene) lists(ctx context.Context, node int, secret string) error {
	conn, err := s.conn(s.nodes[node])
	if err != nil {
		return err
	}
	defer conn.Close()
	return invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret), conn,
		rotav1.Jobs_List_FullMethodName)
}

// spent presents a session that must not be valid to each node, once err is nil.
func (s *scene) spent(ctx context.Context, secret string, err error) (said string, _ error) {
	for node := range s.nodes {
		if err == nil {
			said, err = s.spentAt(ctx, node, secret)
		}
	}
	return said, err
}

// spentAt waits until a node has applied the end of the session.
func (s *scene) spentAt(ctx context.Context, node int, secret string) (said string, err error) {
	err = rig.Until(ctx, func() error {
		said, err = turnedAway(s.lists(ctx, node, secret), codes.Unauthenticated)
		return err
	})
	return said, err
}

// soundSession is accepted at each node.
func soundSession(ctx context.Context, s *scene) (string, error) {
	_, secret, err := s.openSession(ctx, s.tokens["acme"])
	for node := range s.nodes {
		if err == nil {
			err = rig.Until(ctx, func() error { return s.lists(ctx, node, secret) })
		}
	}
	return "taken", err
}

// raced opens a link twice at once: one gets in.
func raced(ctx context.Context, s *scene) (string, error) {
	for range 10 {
		t, code, err := s.openLink(ctx)
		if err != nil {
			return "", err
		}
		ended := make(chan error)
		for node := range 2 {
			go func() { ended <- s.claim(ctx, node, t.ID, code, sum(t.ID, draw())) }()
		}
		one, other := <-ended, <-ended
		if (one == nil) == (other == nil) {
			return "", fmt.Errorf("the two are answered %v and %v", one, other)
		}
		if err := s.root.Auth().EndSession(ctx, t.ID); err != nil {
			return "", err
		}
	}
	return "one gets in, ten times of ten", nil
}

// cookie sends a session as a browser would keep it, from a page or none, where it must not be accepted.
func cookie(method, path, origin string, want int) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		_, secret, err := s.openSession(ctx, s.tokens["root"])
		if err != nil {
			return "", err
		}
		said, err := webRefused(method, path, func(r *http.Request) {
			r.Header.Set("Cookie", sessionCookie+secret)
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		}, want)(ctx, s)
		if err != nil {
			return "", err
		}
		return said, s.lists(ctx, 0, secret) // the caller ended nothing
	}
}
