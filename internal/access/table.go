package access

import "github.com/rotasched/rota"

// Table holds the access rights at one index of the log. It is immutable.
type Table interface {
	// Prove returns the principal of a token on a date.
	Prove(c Credential, date rota.Date) (rota.Principal, error)
	// Rights returns the rights of a principal on a date; unauthenticated if its credential is no longer valid.
	Rights(p rota.Principal, date rota.Date) (*Rights, error)
	// Token returns a token by its id; ok is false if it is unknown.
	Token(id string) (t rota.AccessToken, ok bool)
	// Issuer returns the identity provider of a URL; ok is false if none is set.
	Issuer(url string) (i rota.Issuer, ok bool)
}
