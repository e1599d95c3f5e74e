package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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

// algorithms lists the accepted signature algorithms: only asymmetric ones, so that a public key is never used as a
// shared secret, and never "none".
var algorithms = []string{gooidc.RS256, gooidc.RS384, gooidc.RS512, gooidc.PS256, gooidc.PS384, gooidc.PS512,
	gooidc.ES256, gooidc.ES384, gooidc.ES512, gooidc.EdDSA}

const (
	// maxVerify bounds one verification, including its requests to the issuer.
	maxVerify = 10 * time.Second
	// discoveredFor is how long an issuer's configuration is trusted. Its keys are fetched again when a token names an
	// unknown one.
	discoveredFor = time.Hour
)

// Verifier verifies identity tokens. Its zero value is ready.
type Verifier struct {
	mu sync.Mutex
	// known holds the issuers that were queried, by URL.
	known map[string]*provider
	// now returns the wall clock, time.Now unless a test sets another.
	now func() time.Time
}

// provider is an issuer as its own address describes it.
type provider struct {
	ca     string
	client *http.Client

	mu       sync.Mutex
	verifier *gooidc.IDTokenVerifier
	asked    time.Time
	// sound reports that a key found by the verifier has signed a token.
	sound bool
}

// claims holds a token's claims. Names are case-sensitive: a reader that accepts SUB as sub would trust claims that an
// issuer lets others choose.
type claims map[string]any

func (c claims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// at returns the value at a path of names separated by dots, such as realm_access.roles. A claim with the whole name
// comes first, then the shortest name that has an object as value: names may contain dots themselves.
func (c claims) at(path string) any {
	for {
		if v, ok := c[path]; ok {
			return v
		}
		inner, rest := c.enter(path)
		if inner == nil {
			return nil
		}
		c, path = inner, rest
	}
}

// enter returns the object with the shortest name that begins a path, and the rest of the path.
func (c claims) enter(path string) (inner claims, rest string) {
	for i, r := range path {
		if r != '.' {
			continue
		}
		if object, is := c[path[:i]].(map[string]any); is {
			return object, path[i+1:]
		}
	}
	return nil, ""
}

// texts returns a claim that is a text or a list of texts.
func (c claims) texts(name string) []string { return texts(c[name]) }

// texts returns the texts of a value that is a text or a list.
func texts(v any) []string {
	list, _ := v.([]any)
	if _, is := v.(string); is {
		list = []any{v}
	}
	var found []string
	for _, item := range list {
		if text, is := item.(string); is {
			found = append(found, text)
		}
	}
	return found
}

// seconds reads a date, and returns false if it is implausible.
func (c claims) seconds(name string) (time.Time, bool) {
	n, is := c[name].(float64)
	if !is || !(n > 0 && n < 1<<36) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(n * 1000)), true
}

// Verify returns the contents of a currently valid identity token: its subject, and the role that its issuer maps it to
// (SECURITY §1.18). issuers looks up the configured issuers.
func (v *Verifier) Verify(ctx context.Context, jwt string, issuers func(url string) (rota.Issuer,
	bool)) (s access.SignIn, err error) {
	c, signed, err := read(jwt)
	if err != nil {
		return s, err
	}
	issuer, ok := issuers(c.text("iss"))
	if !ok {
		return s, refused("issuer",
			"the identity token is of issuer %q, which is not set: `rota auth issuer set` takes its tokens",
			cut(c.text("iss")))
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
		return s, refused("claim",
			"issuer %s maps no claim of the identity token of subject %q to a role: `rota auth issuer list` shows its maps",
			issuer.URL, cut(subject))
	}
	s = access.SignIn{Issuer: issuer.URL, Audience: issuer.Audience, Subject: subject, Claim: m.Claim, Value: value,
		Role: m.Role, JWT: sha256.Sum256([]byte(signed)), Until: until}
	err = access.CheckSignIn(&s)
	return s, err
}

// proved rejects a token that is not signed by a key of its issuer, or is signed with another algorithm.
func (v *Verifier) proved(ctx context.Context, jwt string, issuer *rota.Issuer) error {
	algorithm, err := algorithm(jwt)
	if err != nil {
		return err
	}
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
	_, err = verifier.Verify(ctx, jwt) // signature, algorithm and issuer; the caller checks the rest
	if err == nil {
		p.believe(verifier)
		return nil
	}
	if failure := p.failure(); failure != nil {
		p.doubt(verifier)
		return unavailable(issuer.URL, failure)
	}
	return refused("jwt", "the identity token is not signed by a key of issuer %s with %s", issuer.URL, algorithm)
}

// algorithm returns the name of a token's signature algorithm, and an error for one that is not accepted.
func algorithm(jwt string) (string, error) {
	var head struct {
		Alg string `json:"alg"`
	}
	first, _, _ := strings.Cut(jwt, ".")
	text, _ := strictly.DecodeString(first)
	_ = json.Unmarshal(text, &head) // no name is refused like an unknown one
	if !slices.Contains(algorithms, head.Alg) {
		return "", refused("jwt", "the identity token is signed with %q: the issuer must sign with one of %s",
			cut(head.Alg), strings.Join(algorithms, ", "))
	}
	return head.Alg, nil
}

func (v *Verifier) time() time.Time {
	if v.now != nil {
		return v.now()
	}
	return time.Now()
}

// strictly decodes a part of a token and rejects any non-canonical encoding.
var strictly = base64.RawURLEncoding.Strict()

// read returns a token's claims before its signature is verified, and the signed text. That text identifies the token:
// a signature can be changed into another valid one.
func read(jwt string) (c claims, signed string, err error) {
	if len(jwt) > limits.MaxJWT {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt", "identity token too long: got %d bytes, maximum %d",
			len(jwt), limits.MaxJWT)
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || strings.ContainsAny(jwt, "\r\n") {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt",
			"the identity token is not a JWT: it must have three parts separated by dots")
	}
	var read [3][]byte
	for i, part := range parts {
		if read[i], err = strictly.DecodeString(part); err != nil {
			return nil, "", rota.Refusef(rota.KindInvalid, "jwt",
				"the identity token is not a JWT: part %d is not unpadded base64 for URLs", i+1)
		}
	}
	if err := jsonparts.Read(read[1], &c, true); err != nil {
		return nil, "", rota.Refusef(rota.KindInvalid, "jwt",
			"the identity token is not a JWT: its second part is not a JSON object of claims")
	}
	return c, parts[0] + "." + parts[1], nil
}

// current rejects a token for another audience, or one that is not valid now. It returns when it ends.
func (c claims) current(now time.Time, issuer *rota.Issuer) (rota.Date, error) {
	expires, ends := c.seconds("exp")
	issued, stamped := c.seconds("iat")
	begins, bounded := c.seconds("nbf")
	switch aud := c.texts("aud"); {
	case !slices.Contains(aud, issuer.Audience):
		return 0, refused("aud", "the identity token must be for audience %q, got %q", issuer.Audience,
			cut(strings.Join(aud, ", ")))
	case !ends || !stamped || !bounded && c["nbf"] != nil:
		return 0, refused("exp",
			"the identity token does not say by seconds since 1970 when it was issued (iat) and when it ends (exp)")
	case !now.Before(expires):
		return 0, refused("exp", "the identity token ended at %s, and it is %s: ask the issuer for another one",
			utc(expires), utc(now))
	case bounded && begins.After(now.Add(limits.JWTSkew)), issued.After(now.Add(limits.JWTSkew)):
		return 0, refused("nbf", "the identity token is of %s, and it is %s: it does not count yet",
			utc(later(issued, begins)), utc(now))
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

// role returns the first mapping that matches a claim, and the claim's value.
func (c claims) role(maps []rota.ClaimRole) (m rota.ClaimRole, value string, ok bool) {
	for _, m := range maps {
		for _, text := range texts(c.at(m.Claim)) {
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

// cut returns the part of an unverified text that an error quotes.
func cut(s string) string {
	if len(s) > limits.MaxIssuerText {
		return s[:limits.MaxIssuerText] + "…"
	}
	return s
}
