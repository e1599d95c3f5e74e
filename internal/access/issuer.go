package access

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// SignIn holds a node's findings in a verified identity token.
type SignIn struct {
	Issuer, Audience, Subject string
	// Claim has Value, from which the issuer's maps give Role.
	Claim, Value, Role string
	// JWT is the SHA-256 of the token's signed part, Until is when the token ends.
	JWT   [32]byte
	Until rota.Date
	// Token is the id of the access token to create, Hash the hash of its secret.
	Token string
	Hash  [32]byte
}

// CheckIssuerURL rejects a URL that cannot be an identity provider's.
func CheckIssuerURL(url string) error {
	rest, ok := strings.CutPrefix(url, "https://")
	if host, _, _ := strings.Cut(rest, "/"); !ok || host == "" || !printable(url, limits.MaxIssuerText) ||
		strings.ContainsAny(rest, "?#@\\\"") {
		return rota.Refusef(rota.KindInvalid, "issuer",
			"issuer: got %q; use https://HOST or https://HOST/PATH of at most %d printable characters, "+
				"exactly as in its tokens", cutText(url), limits.MaxIssuerText)
	}
	return nil
}

// CheckIssuer rejects an issuer that cannot be set.
func CheckIssuer(i *rota.Issuer) error {
	if err := CheckIssuerURL(i.URL); err != nil {
		return err
	}
	switch {
	case !printable(i.Audience, limits.MaxIssuerText):
		return rota.Refusef(rota.KindInvalid, "audience",
			"audience: got %q; use 1 to %d printable characters, the audience that tokens are requested with",
			cutText(i.Audience), limits.MaxIssuerText)
	case len(i.CA) > limits.MaxIssuerCA:
		return rota.TooLong("ca", len(i.CA), limits.MaxIssuerCA)
	case len(i.Maps) < 1 || len(i.Maps) > limits.MaxIssuerMaps:
		return rota.Refusef(rota.KindInvalid, "maps", "maps: got %d, want 1 to %d", len(i.Maps), limits.MaxIssuerMaps)
	}
	for _, m := range i.Maps {
		if !printable(m.Claim, limits.MaxIssuerText) || !printable(m.Value, limits.MaxIssuerText) {
			return rota.Refusef(rota.KindInvalid, "maps",
				"maps: got %q; use a claim and a value of 1 to %d printable characters", cutText(m.String()),
				limits.MaxIssuerText)
		}
		if at := strings.IndexByte(m.Value, '*'); at == 0 || at > 0 && at < len(m.Value)-1 {
			return rota.Refusef(rota.KindInvalid, "maps",
				"maps: got %q; use * only at the end of a value, after a prefix",
				cutText(m.String()))
		}
		if err := rota.CheckID("role", m.Role); err != nil {
			return err
		}
	}
	return nil
}

// CheckSignIn rejects a sign-in that no node makes.
func CheckSignIn(s *SignIn) error {
	if err := CheckIssuerURL(s.Issuer); err != nil {
		return err
	}
	if !printable(s.Subject, limits.MaxSubject) {
		return rota.Refusef(rota.KindInvalid, "subject",
			"subject: got %q in the identity token, want 1 to %d printable characters",
			cutText(s.Subject), limits.MaxSubject)
	}
	if len(s.Value) > limits.MaxSubject {
		return rota.Refusef(rota.KindInvalid, "claim",
			"claim %q of the identity token too long: got %d bytes, maximum %d", cutText(s.Claim),
			len(s.Value), limits.MaxSubject)
	}
	return nil
}

// printable reports whether a text has 1 to most visible ASCII characters.
func printable(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
