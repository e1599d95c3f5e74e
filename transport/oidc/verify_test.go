package oidc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/test/idp"
)

// testIDP is an identity provider, with a clock of its own.
type testIDP struct {
	*idp.Provider
	t *testing.T
	// passed is how far the clock has advanced.
	passed atomic.Int64
}

func newIDP(t *testing.T) *testIDP {
	p := &testIDP{Provider: idp.New(), t: t}
	t.Cleanup(p.Close)
	return p
}

// issuer returns the cluster's configuration of the provider.
func (p *testIDP) issuer() rota.Issuer {
	return rota.Issuer{URL: p.URL, Audience: "rota", CA: p.CA,
		Maps: []rota.ClaimRole{{Claim: "groups", Value: "ops", Role: "operator"},
			{Claim: "sub", Value: "repo:acme/*", Role: "submitter"}, {Claim: "groups", Value: "dev-*", Role: "reader"}}}
}

func (p *testIDP) find(url string) (rota.Issuer, bool) {
	i := p.issuer()
	return i, url == i.URL
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (p *testIDP) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": p.URL, "sub": "repo:acme/site", "aud": "rota", "iat": noon.Unix(), "nbf": noon.Unix(),
		"exp": noon.Add(10 * time.Minute).Unix()}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func at(now time.Time) *Verifier { return &Verifier{now: func() time.Time { return now }} }

// TestVerify checks that a token signed by a key of the issuer, for the audience and valid now, has the role of the
// first matching mapping. Any other token must be rejected with the reason.
func TestVerify(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	verifier := at(noon.Add(time.Minute))
	for _, alg := range algorithms {
		jwt := p.Sign(alg, p.claims(map[string]any{"aud": []string{"else", "rota"}, "groups": []string{"dev", "ops"}}))
		s, err := verifier.Verify(context.Background(), jwt, p.find)
		if err != nil || s.Subject != "repo:acme/site" || s.Role != "operator" || s.Claim != "groups" ||
			s.Value != "ops" || s.Audience != "rota" ||
			s.JWT != sha256.Sum256([]byte(jwt[:strings.LastIndex(jwt, ".")])) ||
			s.Until != rota.DateOf(noon.Add(10*time.Minute)) {
			t.Errorf("%s: %+v, %v", alg, s, err)
		}
	}
	if s, err := verifier.Verify(context.Background(), p.Sign("RS256", p.claims(nil)), p.find); err != nil ||
		s.Role != "submitter" {
		t.Errorf("%+v, %v", s, err)
	}
	named := p.Sign("RS256", p.claims(map[string]any{"sub": "bob", "\u017fub": "ann",
		"groups": "ops"})) // another letter, which is read as an s
	if s, err := verifier.Verify(context.Background(), named, p.find); err != nil || s.Subject != "bob" {
		t.Errorf("%+v, %v", s, err)
	}
	good := p.Sign("RS256", p.claims(nil))
	other := newIDP(t)
	forged := other.Sign("RS256", p.claims(nil)) // signed with a key that is not the issuer's, under its name
	parts := strings.Split(good, ".")
	for name, c := range map[string]struct {
		jwt     string
		subject string
		says    string
	}{
		"none":         {p.Sign("none", p.claims(nil)), "jwt", "signed"},
		"no signature": {parts[0] + "." + parts[1] + ".", "jwt", "signed"},
		"HS256": {p.Sign("HS256", p.claims(nil)), "jwt",
			`signed with "HS256": the issuer must sign with one of RS256`},
		"no algorithm": {encode([]byte("[]")) + "." + parts[1] + "." + parts[2], "jwt", `with ""`},
		"other key":    {p.SignAs("ES384", "ec", p.claims(nil)), "jwt", "with ES384"},
		"forged":       {forged, "jwt", "signed"},
		"other claims": {parts[0] + "." + strings.Split(p.Sign("RS256",
			p.claims(map[string]any{"sub": "repo:acme/x"})), ".")[1] + "." + parts[2], "jwt", "signed"},
		"audience":    {p.Sign("RS256", p.claims(map[string]any{"aud": "rota2"})), "aud", `"rota2"`},
		"no audience": {p.Sign("RS256", p.claims(map[string]any{"aud": nil})), "aud", `got ""`},
		"issuer": {p.Sign("RS256", p.claims(map[string]any{"iss": "https://evil.example"})), "issuer",
			"not set"},
		"issuer, a slash": {p.Sign("RS256", p.claims(map[string]any{"iss": p.URL + "/"})), "issuer", "not set"},
		"over": {p.Sign("RS256", p.claims(map[string]any{"exp": noon.Add(time.Minute).Unix()})), "exp",
			"ended"}, "no end": {p.Sign("RS256", p.claims(map[string]any{"exp": nil})), "exp", "exp"},
		"no beginning": {p.Sign("RS256", p.claims(map[string]any{"iat": nil})), "exp", "iat"},
		"not yet": {p.Sign("RS256", p.claims(map[string]any{"nbf": noon.Add(3 * time.Minute).Unix()})), "nbf",
			"not count yet"},
		"issued later": {p.Sign("RS256", p.claims(map[string]any{"iat": noon.Add(3 * time.Minute).Unix()})), "nbf",
			"not count yet"},
		"too long a life": {p.Sign("RS256",
			p.claims(map[string]any{"exp": noon.Add(24*time.Hour + time.Second).Unix()})),
			"exp", "24h"}, "end out of range": {p.Sign("RS256", p.claims(map[string]any{"exp": 1e300})), "exp", "exp"},
		"other AUD": {p.Sign("RS256", p.claims(map[string]any{"aud": nil, "AUD": "rota"})), "aud", `""`},
		"other Exp": {p.Sign("RS256", p.claims(map[string]any{"exp": nil, "eXp": noon.Add(time.Hour).Unix()})),
			"exp", "exp"},
		"no subject": {p.Sign("RS256", p.claims(map[string]any{"sub": nil, "groups": "ops"})), "subject", "1 to 255"},
		"a long subject": {p.Sign("RS256", p.claims(map[string]any{"sub": "repo:acme/" + strings.Repeat("a", 4096)})),
			"subject", "1 to 255"},
		"a subject's bell": {p.Sign("RS256", p.claims(map[string]any{"sub": "repo:acme/\a"})), "subject", `\a`},
		"a long value": {p.Sign("RS256", p.claims(map[string]any{"sub": "ann",
			"groups": "dev-" + strings.Repeat("a", 4096)})), "claim", "255"},
		"no map":           {p.Sign("RS256", p.claims(map[string]any{"sub": "repo:acm"})), "claim", "no claim"},
		"too long":         {good + strings.Repeat("A", limits.MaxJWT), "jwt", "bytes"},
		"no JWT":           {"a.b", "jwt", "three parts"},
		"no JSON":          {encode([]byte("{}")) + "." + encode([]byte("[]")) + ".", "jwt", "JSON"},
		"a part's padding": {parts[0] + "." + parts[1] + "=." + parts[2], "jwt", "part 2"},
	} {
		s, err := verifier.Verify(context.Background(), c.jwt, p.find)
		if e := rota.ErrorOf(err); err == nil || e.Subject != c.subject || !strings.Contains(e.Text, c.says) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if err != nil && strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%s: the refusal quotes the token: %v", name, err)
		}
	}
}

// TestVerify_nested checks that a map may name a claim inside others, and which claim that is if names contain dots.
func TestVerify_nested(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	type object = map[string]any
	roles := object{"roles": []string{"dev", "ops"}}
	for _, c := range []struct {
		claim  string
		claims object
		want   string
	}{
		{"realm_access.roles", object{"realm_access": roles}, "operator"},
		{"resource_access.my.app.roles", object{"resource_access": object{"my.app": roles}}, "operator"},
		{"https://acme.example/roles", object{"https://acme.example/roles": "ops"}, "operator"},
		{"a.b", object{"a.b": "dev", "a": object{"b": "ops"}}, ""}, // the whole name comes first
		{"a.b.c", object{"a": object{"x": "y"}, "a.b": object{"c": "ops"}}, ""},
		{"a.b", object{"a": []object{{"b": "ops"}}}, ""},
		{"a.", object{"a": object{"b": "ops"}}, ""},
		{"a.b", object{"a": object{"B": "ops"}}, ""},
		{"a", object{"a": object{"b": "ops"}}, ""},
		{strings.Repeat(".", 200), object{"": object{"": "ops"}}, ""},
	} {
		find := func(string) (rota.Issuer, bool) {
			i := p.issuer()
			i.Maps = []rota.ClaimRole{{Claim: c.claim, Value: "ops", Role: "operator"}}
			return i, true
		}
		s, err := at(noon.Add(time.Minute)).Verify(context.Background(), p.Sign("ES256", p.claims(c.claims)), find)
		if s.Role != c.want || (err == nil) != (c.want != "") || err == nil && (s.Claim != c.claim || s.Value != "ops") {
			t.Errorf("%s in %v: got %+v, %v, want %q", c.claim, c.claims, s, err, c.want)
		}
	}
}

// TestVerify_issuer checks that an issuer is rejected if it redirects, sends too much, names another issuer or keys
// that are not behind https, or has an untrusted certificate. It is not queried again at once.
func TestVerify_issuer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(p *testIDP) http.HandlerFunc
		says   string
		asked  int64
	}{
		"redirects": {func(p *testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, p.URL+"/keys", http.StatusFound)
			}
		}, "redirects", 1},
		"too long": {func(*testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2*maxAnswer)) }
		}, "more than", 1},
		"another issuer": {func(p *testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":"https://evil.example","jwks_uri":%q}`, p.URL+"/keys")
			}
		}, "evil.example", 1},
		"keys in clear text": {func(p *testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.URL,
					strings.Replace(p.URL, "https:", "http:", 1)+"/keys")
			}
		}, "not https", 1},
		"keys redirect": {func(p *testIDP) http.HandlerFunc {
			hop := httptest.NewTLSServer(http.RedirectHandler(p.URL+"/keys", http.StatusFound))
			hop.Config.ErrorLog = nil
			p.t.Cleanup(hop.Close)
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.URL, hop.URL)
			}
		}, "redirects", 1},
		"down": {func(*testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		}, "503 Service Unavailable", 1},
		"slow and down": {func(p *testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				p.passed.Add(int64(answerKept)) // a waiting caller makes no further request
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, "503", 1},
		"no JSON": {func(*testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{internal page") }
		}, "not JSON", 1},
		"too many keys": {func(*testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"keys":[{}%s]}`, strings.Repeat(",{}", maxKeys))
			}
		}, "got 101, maximum 100", 1},
		"keys of another kind": {func(p *testIDP) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.URL, p.URL+"/nothing")
			}
		}, "404", 2},
	} {
		p := newIDP(t)
		p.Answer(idp.ConfigurationPath, c.answer(p))
		v := &Verifier{now: func() time.Time { return noon.Add(time.Minute + time.Duration(p.passed.Load())) }}
		for range 3 {
			s, err := v.Verify(context.Background(), p.Sign("RS256", p.claims(nil)), p.find)
			if e := rota.ErrorOf(err); err == nil || e.Kind != rota.KindUnavailable || e.Subject != "issuer" ||
				!strings.Contains(e.Text, c.says) ||
				strings.Contains(e.Text, "internal") {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
		}
		if n := p.Asked(); n != c.asked {
			t.Errorf("%s: it was asked %d times", name, n)
		}
		p.Restore()
		p.passed.Add(int64(answerKept))
		if _, err := v.Verify(context.Background(), p.Sign("RS256", p.claims(nil)), p.find); err != nil {
			t.Errorf("%s: it is sound again: %v", name, err)
		}
	}
	p := newIDP(t)
	_, err := at(noon.Add(time.Minute)).Verify(context.Background(), p.Sign("RS256", p.claims(nil)),
		func(string) (rota.Issuer, bool) {
			i := p.issuer()
			i.CA = ""
			return i, true
		})
	if e := rota.ErrorOf(err); err == nil || e.Kind != rota.KindUnavailable ||
		!strings.Contains(e.Text, "certificate") {
		t.Errorf("an untrusted certificate: %v", err)
	}
	if _, err := Roots("no PEM"); rota.KindOf(err) != rota.KindInvalid {
		t.Errorf("%v", err)
	}
}

// TestVerify_once checks that a token is recognized and used only once, however it is encoded.
func TestVerify_once(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	v := at(noon.Add(time.Minute))
	for _, alg := range algorithms {
		taken := 0
		for pad := range 3 { // lengths of the second part
			jwt := p.Sign(alg, p.claims(map[string]any{"pad": strings.Repeat("a", pad)}))
			first, err := v.Verify(context.Background(), jwt, p.find)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range rewritten(t, p, alg, jwt) {
				s, err := v.Verify(context.Background(), other, p.find)
				if err != nil {
					continue
				}
				if taken++; s.JWT != first.JWT {
					t.Errorf("%s: it counts once more as %q", alg, other)
				}
			}
		}
		if alg == "ES256" && taken == 0 {
			t.Error("the other signature is not a signature: the test checks nothing")
		}
	}
}

// rewritten returns other texts that lax readers accept as the same token.
func rewritten(t *testing.T, p *testIDP, alg, jwt string) (others []string) {
	parts := strings.Split(jwt, ".")
	for i, part := range parts {
		with := func(text string) {
			changed := append([]string{}, parts...)
			changed[i] = text
			others = append(others, strings.Join(changed, "."))
		}
		for _, space := range []string{"\n", "\r", " ", "\t", "=", "\u00a0"} {
			with(part + space)
			with(space + part)
			with(part[:5] + space + part[5:])
		}
		want, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			text := part[:len(part)-1] + string(last)
			if got, err := base64.RawURLEncoding.DecodeString(text); err == nil && bytes.Equal(got, want) &&
				text != part {
				with(text)
			}
		}
		if alg == "ES256" && i == 2 { // each signature has a second valid form
			s := new(big.Int).SetBytes(want[32:])
			with(encode(append(want[:32:32], s.Sub(p.Curve.Params().N, s).FillBytes(make([]byte, 32))...)))
		}
	}
	return others
}

// TestVerify_bounded checks that unsigned tokens do not cause endless requests.
func TestVerify_bounded(t *testing.T) {
	t.Parallel()
	p, other := newIDP(t), newIDP(t)
	v := at(noon.Add(time.Minute))
	for i := range 1000 {
		jwt := other.SignAs("ES256", fmt.Sprint("key", i), p.claims(nil))
		if _, err := v.Verify(context.Background(), jwt, p.find); rota.KindOf(err) != rota.KindUnauthenticated {
			t.Fatal(err)
		}
	}
	if n := p.Asked(); n != 2 { // for its configuration, and for its keys
		t.Errorf("it was asked %d times", n)
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// TestVerify_mute checks that an issuer that never finishes its answer costs the waiting callers one request, and
// others nothing.
func TestVerify_mute(t *testing.T) {
	t.Parallel()
	p, other := newIDP(t), newIDP(t)
	reached := make(chan struct{}, 1)
	p.Answer(idp.ConfigurationPath, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		reached <- struct{}{}
		<-r.Context().Done()
	})
	v := at(noon.Add(time.Minute))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := v.Verify(context.Background(), p.Sign("ES256", p.claims(nil)), p.find)
			if e := rota.ErrorOf(err); err == nil || e.Kind != rota.KindUnavailable || e.Subject != "issuer" {
				t.Errorf("%v", err)
			}
		})
	}
	<-reached
	if s, err := v.Verify(context.Background(), other.Sign("ES256", other.claims(nil)), other.find); err != nil {
		t.Errorf("another issuer meanwhile: %+v, %v", s, err)
	}
	all.Wait()
	if n := p.Asked(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
