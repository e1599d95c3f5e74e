package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/limits"
)

// algorithms are those that a signature may be by: asymmetric ones, so that no public key is
// taken for a shared secret, and never none.
var algorithms = []string{gooidc.RS256, gooidc.ES256, gooidc.EdDSA}

const (
	// maxVerify bounds one verification, its requests to the issuer among it.
	maxVerify = 10 * time.Second
	// discoveredFor is how long an issuer's configuration is believed. Its keys are asked for
	// anew where a token names one that is not known.
	discoveredFor = time.Hour
)

// Verifier verifies identity tokens. Its zero value is ready.
type Verifier struct {
	mu sync.Mutex
	// known are issuers that were asked, by URL.
	known map[string]*provider
	// now is the wall clock, time.Now unless a test sets another.
	now func() time.Time
}

// provider is an issuer as its address describes it.
type provider struct {
	ca     string
	client *http.Client

	mu       sync.Mutex
	verifier *gooidc.IDTokenVerifier
	asked    time.Time
	// sound is true where a key that the verifier was led to has signed a token.
	sound bool
}

// claims are what a token says. Names are as they are written: a reader that takes SUB for sub
// believes claims that an issuer lets others choose.
type claims map[string]any

func (c claims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// texts returns a claim that is a text or a list of texts.
func (c claims) texts(name string) []string {
	list, _ := c[name].([]any)
	if _, is := c[name].(string); is {
		list = []any{c[name]}
	}
	var texts []string
	for _, v := range list {
		if text, is := v.(string); is {
			texts = append(texts, text)
		}
	}
	return texts
}

// seconds reads a date. One that is not of this age is none.
func (c claims) seconds(name string) (time.Time, bool) {
	n, is := c[name].(float64)
	if !is || !(n > 0 && n < 1<<36) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(n * 1000)), true
}

// Verify returns what an identity token says that counts now: who it is of, and the role that its
// issuer maps it to (SECURITY §1.18). issuers finds those that are set.
func (v *Verifier) Verify(ctx context.Context, jwt string, issuers func(url string) (rota.Issuer, bool)) (s access.SignIn, err error) {
	c, signed, err := read(jwt)
	if err != nil {
		return s, err
	}
	issuer, ok := issuers(c.text("iss"))
	if !ok {
		return s, refused("issuer", "the identity token is of issuer %q, which is not set: `rota auth issuer set` takes its tokens", cut(c.text("iss")))
	}
	if err := v.proved(ctx, jwt, &issuer); err != nil {
		return s, err
	}
	until, err := c.current(v.time(), &issuer)
	if err != nil {
		return s, err
	}
	subject := c.text("sub")
	m, value, ok := c.role(issuer.Maps)
	if !ok {
		return s, refused("claim", "issuer %s maps no claim of the identity token of subject %q to a role: `rota auth issuer list` shows its maps",
			issuer.URL, cut(subject))
	}
	s = access.SignIn{Issuer: issuer.URL, Audience: issuer.Audience, Subject: subject, Claim: m.Claim, Value: value, Role: m.Role,
		JWT: sha256.Sum256([]byte(signed)), Until: until}
	err = access.CheckSignIn(&s)
	return s, err
}

// proved refuses a token whose signature is by no key of its issuer, or by another algorithm.
func (v *Verifier) proved(ctx context.Context, jwt string, issuer *rota.Issuer) error {
	ctx, cancel := context.WithTimeout(ctx, maxVerify)
	defer cancel()
	p, err := v.provider(issuer)
	if err != nil {
		return err
	}
	verifier, err := p.ask(ctx, issuer.URL, v.time())
	if err != nil {
		return err
	}
	_, err = verifier.Verify(ctx, jwt) // signature, algorithm and issuer; the rest is judged by who asks
	if err == nil {
		p.believe(verifier)
		return nil
	}
	if failure := p.failure(); failure != nil {
		p.doubt(verifier)
		return unavailable(issuer.URL, failure)
	}
	return refused("jwt", "the identity token is not signed by a key of issuer %s, by one of %s", issuer.URL, strings.Join(algorithms, ", "))
}

func (v *Verifier) time() time.Time {
	if v.now != nil {
		return v.now()
	}
	return time.Now()
}

// strictly reads a part of a token. What is written otherwise than it would be encoded is refused.
var strictly = base64.RawURLEncoding.Strict()

// read reads what a token says, before anybody has vouched for it, and returns the text that its
// signature is of. That names the token: a signature can be changed into another one that counts.
func read(jwt string) (c claims, signed string, err error) {
	if len(jwt) > limits.MaxJWT {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt", "identity token too long: got %d bytes, maximum %d", len(jwt), limits.MaxJWT)
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || strings.ContainsAny(jwt, "\r\n") {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt", "the identity token is not a JWT: it must have three parts separated by dots")
	}
	var read [3][]byte
	for i, part := range parts {
		if read[i], err = strictly.DecodeString(part); err != nil {
			return nil, "", rota.Refusef(rota.KindInvalid, "jwt", "the identity token is not a JWT: part %d is not unpadded base64 for URLs", i+1)
		}
	}
	if err := jsonparts.Read(read[1], &c, true); err != nil {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt", "the identity token is not a JWT: its second part is not a JSON object of claims")
	}
	return c, parts[0] + "." + parts[1], nil
}

// current refuses a token that is for another audience, or not of the present. It returns when
// it ends.
func (c claims) current(now time.Time, issuer *rota.Issuer) (rota.Date, error) {
	expires, ends := c.seconds("exp")
	issued, stamped := c.seconds("iat")
	begins, bounded := c.seconds("nbf")
	switch aud := c.texts("aud"); {
	case !slices.Contains(aud, issuer.Audience):
		return 0, refused("aud", "the identity token must be for audience %q, got %q", issuer.Audience, cut(strings.Join(aud, ", ")))
	case !ends || !stamped || !bounded && c["nbf"] != nil:
		return 0, refused("exp", "the identity token does not say by seconds since 1970 when it was issued (iat) and when it ends (exp)")
	case !now.Before(expires):
		return 0, refused("exp", "the identity token ended at %s, and it is %s: ask the issuer for another one", utc(expires), utc(now))
	case bounded && begins.After(now.Add(limits.JWTSkew)), issued.After(now.Add(limits.JWTSkew)):
		return 0, refused("nbf", "the identity token is of %s, and it is %s: it does not count yet", utc(later(issued, begins)), utc(now))
	case expires.Sub(issued) > limits.MaxJWTLife:
		return 0, refused("exp", "the identity token is valid for %s, maximum %s", expires.Sub(issued),
			limits.MaxJWTLife)
	}
	return rota.DateOf(expires), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// role returns the first map that fits a claim, and the claim's value.
func (c claims) role(maps []rota.ClaimRole) (m rota.ClaimRole, value string, ok bool) {
	for _, m := range maps {
		for _, text := range c.texts(m.Claim) {
			if m.Fits(text) {
				return m, text, true
			}
		}
	}
	return m, "", false
}

func refused(subject, format string, args ...any) *rota.Error {
	return rota.Refusef(rota.KindUnauthenticated, subject, format, args...)
}

// cut is as much of a text that nobody vouched for as a refusal quotes.
func cut(s string) string {
	if len(s) > limits.MaxIssuerText {
		return s[:limits.MaxIssuerText] + "…"
	}
	return s
}
