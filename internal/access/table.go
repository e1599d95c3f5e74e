package access

import "github.com/rotasched/rota"

// Table is who may do what at one index of the log. It never changes.
type Table interface {
	// Prove returns the principal that a token stands for on a date.
	Prove(c Credential, date rota.Date) (rota.Principal, error)
	// Rights returns what a principal may do on a date; unauthenticated where its credential
	// counts no more.
	Rights(p rota.Principal, date rota.Date) (*Rights, error)
	// Token returns a token by its id; ok is false where none is known.
	Token(id string) (t rota.AccessToken, ok bool)
	// Issuer returns the identity provider of a URL; ok is false where none is set.
	Issuer(url string) (i rota.Issuer, ok bool)
}
