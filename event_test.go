package rota

import (
	"slices"
	"testing"
)

// TestEventFilter_actor checks that events caused by a principal, directly or through its sessions, are selected, and
// none of others or of the leader.
func TestEventFilter_actor(t *testing.T) {
	t.Parallel()
	token := TokenPrincipal("aaaaaaaaaaaa")
	session := SessionPrincipal("ssssssssssss", token)
	all := []Principal{"", Anonymous, token, session, TokenPrincipal("bbbbbbbbbbbb"),
		SessionPrincipal("ssssssssssss", CertPrincipal("r", "n"))}
	for actor, want := range map[Principal][]Principal{"": all, token: {token, session}, session: {session},
		Anonymous: {Anonymous}, Local: nil} {
		f := EventFilter{Actor: actor}
		var got []Principal
		for _, by := range all {
			if f.Wants(&Event{Actor: by}) {
				got = append(got, by)
			}
		}
		if !slices.Equal(got, want) || f.All() != (actor == "") {
			t.Errorf("of %q: got %q, want %q", actor, got, want)
		}
	}
}
