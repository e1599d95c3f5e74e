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
	"github.com/rotasched/rota/internal/limits"
)

// algorithms are those that a signature may be by: asymmetric ones, so that no public key is
// taken for a shared secret, and never none.
var algorithms = []string{gooidc.RS256, gooidc.ES256, gooidc.EdDSA}

const (
	// verifyMost bounds one verification, its requests to the issuer among it.
	verifyMost = 10 * time.Second
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
}

// claims are what every identity token says, and all that it says.
type claims struct {
	Issuer  string      `json:"iss"`
	Subject string      `json:"sub"`
	Aud     audience    `json:"aud"`
	Expires json.Number `json:"exp"`
	Issued  json.Number `json:"iat"`
	Begins  json.Number `json:"nbf"`
	all     map[string]any
}

// audience is a text or a list of texts.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// Verify returns what an identity token says that counts now: who it is of, and the role that its
// issuer maps it to. issuers finds those that are set.
func (v *Verifier) Verify(ctx context.Context, jwt string, issuers func(url string) (rota.Issuer, bool)) (s access.SignIn, err error) {
	c, err := read(jwt)
	if err != nil {
		return s, err
	}
	issuer, ok := issuers(c.Issuer)
	if !ok {
		return s, refused("issuer", "the identity token is of issuer %q, which is not set: `rota auth issuer set` takes its tokens", cut(c.Issuer))
	}
	ctx, cancel := context.WithTimeout(ctx, verifyMost)
	defer cancel()
	p, err := v.provider(&issuer)
	if err != nil {
		return s, err
	}
	verifier, err := p.ask(ctx, issuer.URL, v.time())
	if err != nil {
		return s, err
	}
	if _, err := verifier.Verify(ctx, jwt); err != nil { // signature, algorithm and issuer; the rest is judged below
		if failure := p.failure(); failure != nil {
			return s, unavailable(issuer.URL, failure)
		}
		return s, refused("jwt", "the identity token is not signed by a key of issuer %s, by one of %s", issuer.URL, strings.Join(algorithms, ", "))
	}
	until, err := c.current(v.time(), &issuer)
	if err != nil {
		return s, err
	}
	m, value, ok := c.role(issuer.Maps)
	if !ok {
		return s, refused("claim", "issuer %s maps no claim of the identity token of subject %q to a role: `rota auth issuer list` shows its maps",
			issuer.URL, cut(c.Subject))
	}
	return access.SignIn{Issuer: issuer.URL, Audience: issuer.Audience, Subject: c.Subject, Claim: m.Claim, Value: value, Role: m.Role,
		JWT: sha256.Sum256([]byte(jwt)), Until: until}, nil
}

func (v *Verifier) time() time.Time {
	if v.now != nil {
		return v.now()
	}
	return time.Now()
}

// read reads what a token says, before anybody has vouched for it.
func read(jwt string) (c claims, err error) {
	if len(jwt) > limits.MaxJWT {
		return c, rota.Refusef(rota.KindInvalid, "jwt", "the identity token has %d bytes: at most %d are taken", len(jwt), limits.MaxJWT)
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return c, rota.Refusef(rota.KindInvalid, "jwt", "the identity token is no JWT: three parts between dots are wanted")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err == nil {
		err = json.Unmarshal(body, &c.all)
	}
	if err != nil {
		return c, rota.Refusef(rota.KindInvalid, "jwt", "the identity token is no JWT: its second part is no object of JSON with the claims of one")
	}
	return c, nil
}

// current refuses a token that is for another audience, or not of the present. It returns when
// it ends.
func (c *claims) current(now time.Time, issuer *rota.Issuer) (rota.Date, error) {
	expires, ok := seconds(c.Expires)
	issued, stamped := seconds(c.Issued)
	begins, bounded := seconds(c.Begins)
	switch {
	case !slices.Contains(c.Aud, issuer.Audience):
		return 0, refused("aud", "the identity token is for audience %q, %q is wanted", cut(strings.Join(c.Aud, ", ")), issuer.Audience)
	case !ok || !stamped || !bounded && c.Begins != "":
		return 0, refused("exp", "the identity token does not say by seconds since 1970 when it was issued (iat) and when it ends (exp)")
	case !now.Before(expires):
		return 0, refused("exp", "the identity token ended at %s, and it is %s: ask the issuer for another one", utc(expires), utc(now))
	case bounded && begins.After(now.Add(limits.JWTSkew)), issued.After(now.Add(limits.JWTSkew)):
		return 0, refused("nbf", "the identity token is of %s, and it is %s: it does not count yet", utc(later(issued, begins)), utc(now))
	case expires.Sub(issued) > limits.MaxJWTLife:
		return 0, refused("exp", "the identity token counts for %s: at most %s are taken, as it is kept in mind until it ends", expires.Sub(issued),
			limits.MaxJWTLife)
	}
	return rota.DateOf(expires), nil
}

// seconds reads a date of a JWT. One that is not of this age is none.
func seconds(n json.Number) (time.Time, bool) {
	f, err := n.Float64()
	if err != nil || !(f > 0 && f < 1<<36) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(f * 1000)), true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// role returns the first map that fits a claim, and the claim's value.
func (c *claims) role(maps []rota.ClaimRole) (m rota.ClaimRole, value string, ok bool) {
	for _, m := range maps {
		values, _ := c.all[m.Claim].([]any)
		if one, is := c.all[m.Claim].(string); is {
			values = []any{one}
		}
		for _, v := range values {
			if text, is := v.(string); is && m.Fits(text) && len(text) <= limits.MaxJWT {
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
