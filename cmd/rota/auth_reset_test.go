package main

import (
	"iter"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli/auth"
)

// TestEarlierTokens_countsValidOnes has the tokens that a restore leaves, where each token is revoked, and a cluster
// that was never restored.
func TestEarlierTokens_countsValidOnes(t *testing.T) {
	t.Parallel()
	const now = 1_000
	list := func(tokens ...rota.AccessToken) iter.Seq2[rota.AccessToken, error] {
		return func(yield func(rota.AccessToken, error) bool) {
			for _, token := range append(tokens, rota.AccessToken{ID: "made", Expires: 9_000}) {
				if !yield(token, nil) {
					return
				}
			}
		}
	}
	valid, revoked := rota.AccessToken{ID: "a", Expires: 9_000}, rota.AccessToken{ID: "b", Expires: 9_000,
		Revoked: rota.Moment{Date: 1, Clock: 1}}
	ended, session := rota.AccessToken{ID: "c", Expires: 900}, rota.AccessToken{ID: "d", Expires: 9_000,
		Parent: "token:a"}
	broken := func(yield func(rota.AccessToken, error) bool) {
		yield(rota.AccessToken{}, rota.Refusef(rota.KindUnavailable, "node", "gone"))
	}
	for name, c := range map[string]struct {
		tokens iter.Seq2[rota.AccessToken, error]
		want   string
	}{
		"none":            {list(), "no earlier token is valid"},
		"after a restore": {list(revoked, ended), "no earlier token is valid"},
		"never restored":  {list(valid, revoked, ended, session), "earlier tokens that are valid: 1;"},
		"no answer":       {broken, "earlier tokens stay as they are"},
	} {
		if got := auth.EarlierTokens(c.tokens, "made", now); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
