package transport

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/test/idp"
)

// TestExchange checks that a caller without a credential may exchange an identity token, and that a token of an unknown
// issuer is rejected.
func TestExchange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	jwt := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp.example","sub":"ann"}`)) + ".c2ln"
	exchange := func(id, jwt string) *rota.Error {
		_, err := rotav1.NewAuthClient(b.conn).Exchange(ctx,
			&rotav1.ExchangeRequest{Jwt: jwt, Id: id, Hash: make([]byte, 32)})
		if err == nil {
			t.Fatal("it is accepted")
		}
		return words.FromStatus(err)
	}
	if e := exchange("abc", jwt); e.Kind != rota.KindInvalid || e.Subject != "token" {
		t.Errorf("%+v", e)
	}
	if e := exchange("abcdefghijkl", "not a JWT"); e.Kind != rota.KindInvalid || e.Subject != "jwt" {
		t.Errorf("%+v", e)
	}
	if e := exchange("abcdefghijkl", jwt); e.Kind != rota.KindUnauthenticated || e.Subject != "issuer" {
		t.Errorf("%+v", e)
	}
}

// TestExchange_denied checks that an identity token rejected by the node or by the leader is reported once, without any
// part of it, and that an accepted one is not reported.
func TestExchange_denied(t *testing.T) {
	t.Parallel()
	var told toldDenied
	b := setup(t, func(o *Options) { o.Denied = told.tell })
	p := idp.New()
	defer p.Close()
	b.core.setTable(&rightsTable{issuer: rota.Issuer{URL: p.URL, CA: p.CA, Audience: "rota",
		Maps: []rota.ClaimRole{{Claim: "sub", Value: "ann", Role: access.RoleReader}}}})
	now := time.Now().Unix()
	exchange := func(change map[string]any) (*rotav1.AccessToken, string, error) {
		claims := map[string]any{"iss": p.URL, "sub": "ann", "aud": "rota", "iat": now, "exp": now + 600}
		maps.Copy(claims, change)
		jwt := p.Sign("ES256", claims)
		made, err := rotav1.NewAuthClient(b.conn).Exchange(bounded(t),
			&rotav1.ExchangeRequest{Jwt: jwt, Id: "abcdefghijkl", Hash: make([]byte, 32)})
		return made, jwt, err
	}
	if made, _, err := exchange(nil); err != nil || made.GetBy() != string(rota.OIDCPrincipal(p.URL, "ann")) {
		t.Fatalf("%v, %v", made, err)
	}
	for says, change := range map[string]map[string]any{"not set": {"iss": "https://evil.example"},
		"audience": {"aud": "else"}, "ended": {"exp": now - 1},
		"maps no claim": {"sub": "bob"}, "exchanged before": nil} {
		b.core.err = nil
		if says == "exchanged before" {
			b.core.err = rota.Refusef(rota.KindUnauthenticated, "jwt", "it was exchanged before")
		}
		_, jwt, err := exchange(change)
		if kindOf(err) != rota.KindUnauthenticated {
			t.Errorf("%s: %v", says, err)
		}
		k, x := told.only(t)
		if k != rota.KindUnauthenticated || x.Method != "/rota.v1.Auth/Exchange" ||
			x.Principal != string(rota.Anonymous) || !strings.Contains(x.Reason, says) ||
			x.Peer == "" || x.Request == "" {
			t.Errorf("%s: %v %+v", says, k, x)
		}
		for _, part := range strings.Split(jwt, ".") {
			if strings.Contains(fmt.Sprint(x, err), part) {
				t.Errorf("%s: it is quoted: %+v, %v", says, x, err)
			}
		}
	}
}
