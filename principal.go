package rota

import "strings"

// Principal identifies a caller: token:ID, cert:ROLE/NAME, session:ID/PARENT for a browser session of one of these,
// local, anonymous, or node:ID for actions of a leader by itself. In the log, the empty principal means the leader of
// the entry.
type Principal string

// Principals without a name of their own.
const (
	// Anonymous called without a credential.
	Anonymous Principal = "anonymous"
	// Local called through the socket in the data directory, as the account that the node runs as.
	Local Principal = "local"
)

const (
	tokenPrefix   = "token:"
	certPrefix    = "cert:"
	nodePrefix    = "node:"
	oidcPrefix    = "oidc:"
	sessionPrefix = "session:"
)

// TokenPrincipal names the holder of a token.
func TokenPrincipal(id string) Principal { return Principal(tokenPrefix + id) }

// CertPrincipal names the holder of a client certificate.
func CertPrincipal(role, name string) Principal { return Principal(certPrefix + role + "/" + name) }

// NodePrincipal names a node that acts on its own behalf.
func NodePrincipal(id NodeID) Principal { return Principal(nodePrefix + string(id)) }

// OIDCPrincipal names the subject of an identity provider: it calls by the token that it got.
func OIDCPrincipal(issuer, subject string) Principal {
	return Principal(oidcPrefix + issuer + "/" + subject)
}

// Token returns the id of the principal's token; ok is false for one that has none.
func (p Principal) Token() (id string, ok bool) { return strings.CutPrefix(string(p), tokenPrefix) }

// Cert returns role and name of the principal's certificate; ok is false for one that has none.
func (p Principal) Cert() (role, name string, ok bool) {
	rest, ok := strings.CutPrefix(string(p), certPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// Node reports whether the principal is a node.
func (p Principal) Node() bool { return strings.HasPrefix(string(p), nodePrefix) }

// SessionPrincipal returns the principal of a browser session, which contains the principal that requested it.
func SessionPrincipal(id string, parent Principal) Principal {
	return Principal(sessionPrefix + id + "/" + string(parent))
}

// Session returns the id of a session and the principal that requested it; ok is false if p is not a session.
func (p Principal) Session() (id string, parent Principal, ok bool) {
	rest, ok := strings.CutPrefix(string(p), sessionPrefix)
	if !ok {
		return "", "", false
	}
	id, of, ok := strings.Cut(rest, "/")
	return id, Principal(of), ok
}

// Owner returns the owner of objects that the principal creates: for a session, its parent.
func (p Principal) Owner() Principal {
	if _, parent, ok := p.Session(); ok {
		return parent
	}
	return p
}
