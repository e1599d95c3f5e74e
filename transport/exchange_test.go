package transport

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestExchange: who has no credential may exchange an identity token; one of an issuer that is
// not set is refused.
func TestExchange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	jwt := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp.example","sub":"ann"}`)) + ".c2ln"
	exchange := func(id, jwt string) *rota.Error {
		_, err := rotav1.NewAuthClient(b.conn).Exchange(ctx, &rotav1.ExchangeRequest{Jwt: jwt, Id: id, Hash: make([]byte, 32)})
		if err == nil {
			t.Fatal("it is taken")
		}
		return words.FromStatus(err)
	}
	if e := exchange("abc", jwt); e.Kind != rota.KindInvalid || e.Subject != "token" {
		t.Errorf("%+v", e)
	}
	if e := exchange("abcdefghijkl", "no JWT"); e.Kind != rota.KindInvalid || e.Subject != "jwt" {
		t.Errorf("%+v", e)
	}
	if e := exchange("abcdefghijkl", jwt); e.Kind != rota.KindUnauthenticated || e.Subject != "issuer" {
		t.Errorf("%+v", e)
	}
}
