package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// These are the sizes of an access token, rota_ID_SECRET: 60 bits for its id, 260 bits for its secret.
const (
	tokenIDBytes     = 12
	tokenSecretBytes = 52
	tokenBegin       = "rota_"
)

var tokenLetters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Credential is an access token with its secret, as its holder has it. The cluster stores the hash of it.
type Credential struct {
	ID     string
	secret string
}

// CredentialOf returns an access token made of 320 random bits.
func CredentialOf(random [40]byte) Credential {
	text := tokenLetters.EncodeToString(random[:])
	return Credential{ID: text[:tokenIDBytes], secret: text[tokenIDBytes:]}
}

// ParseCredential parses rota_ID_SECRET. Its error never quotes the input.
func ParseCredential(text string) (Credential, error) {
	rest, ok := strings.CutPrefix(text, tokenBegin)
	id, secret, found := strings.Cut(rest, "_")
	if !ok || !found || !letters(id, tokenIDBytes) || !letters(secret, tokenSecretBytes) {
		return Credential{}, rota.Refusef(rota.KindUnauthenticated, "token",
			"the token is not of the form rota_ID_SECRET, "+
				"with %d and %d of the characters a-z 2-7: take it as `rota auth token create` wrote it", tokenIDBytes,
			tokenSecretBytes)
	}
	return Credential{ID: id, secret: secret}, nil
}

func letters(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// Secret returns the token as it is sent.
func (c Credential) Secret() string { return tokenBegin + c.ID + "_" + c.secret }

// String returns the token without its secret, so that it never appears in a log.
func (c Credential) String() string { return tokenBegin + c.ID + "_…" }

// GoString returns the same as String.
func (c Credential) GoString() string { return c.String() }

// Hash returns the hash that the cluster stores for the token.
func (c Credential) Hash() [32]byte {
	return sha256.Sum256([]byte("rota|token|" + c.ID + "|" + c.secret))
}

// Proves reports whether the token has the given hash, in constant time.
func (c Credential) Proves(hash [32]byte) bool {
	own := c.Hash()
	return subtle.ConstantTimeCompare(own[:], hash[:]) == 1
}

// CheckTokenID rejects a text that is not the id of an access token.
func CheckTokenID(id string) error {
	if letters(id, tokenIDBytes) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, "token",
		"token: got the id %q; use %d of the characters a-z 2-7, see `rota auth token list`", cutText(id), tokenIDBytes)
}

// CheckToken rejects a token that cannot be created; its expiry is checked separately.
func CheckToken(t *rota.AccessToken) error {
	if err := CheckTokenID(t.ID); err != nil {
		return err
	}
	if n := len(t.Roles); n < 1 || n > limits.MaxTokenRoles {
		return rota.Refusef(rota.KindInvalid, "roles", "roles: got %d for the token, want 1 to %d", n,
			limits.MaxTokenRoles)
	}
	for i, role := range t.Roles {
		if err := rota.CheckID("role", role); err != nil {
			return err
		}
		if slices.Contains(t.Roles[:i], role) {
			return rota.Refusef(rota.KindInvalid, "roles", "role %s is named twice", role)
		}
	}
	for _, n := range []struct {
		field    string
		patterns []string
	}{{"tenant", t.Tenants}, {"queue", t.Queues}} {
		if len(n.patterns) > limits.MaxTokenPatterns {
			return rota.Refusef(rota.KindInvalid, n.field, "too many %s patterns: got %d, maximum %d", n.field,
				len(n.patterns), limits.MaxTokenPatterns)
		}
		for _, p := range n.patterns {
			if err := CheckPattern(n.field, p); err != nil {
				return err
			}
		}
	}
	if t.WorkerPrefix != "" {
		return rota.CheckID("worker_prefix", t.WorkerPrefix)
	}
	return nil
}

// CheckExpiry rejects an expiry in the past, or further ahead than tokens may live.
func CheckExpiry(expires, now rota.Date) error {
	if expires > now && expires <= now+rota.Date(limits.MaxTokenLife/time.Millisecond) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, "expires",
		"expires: got %s, and it is %s; use a date within %d days from now",
		expires, now, limits.MaxTokenLife/(24*time.Hour))
}
