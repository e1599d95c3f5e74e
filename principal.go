package rota

import "strings"

// Principal is who called: token:ID, cert:ROLE/NAME, local, anonymous, or node:ID for what a
// leader does by itself. The empty principal stands in the log for the leader of the entry.
type Principal string

// Principals without a name of their own.
const (
	// Anonymous called without a credential.
	Anonymous Principal = "anonymous"
	// Local called through the socket in the data directory, as the account that the node runs as.
	Local Principal = "local"
)

const (
	tokenPrefix = "token:"
	certPrefix  = "cert:"
	nodePrefix  = "node:"
)

// TokenPrincipal names the holder of a token.
func TokenPrincipal(id string) Principal { return Principal(tokenPrefix + id) }

// CertPrincipal names the holder of a client certificate.
func CertPrincipal(role, name string) Principal { return Principal(certPrefix + role + "/" + name) }

// NodePrincipal names a node that acts for nobody else.
func NodePrincipal(id NodeID) Principal { return Principal(nodePrefix + string(id)) }

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

// Check refuses a principal that no caller has.
func (p Principal) Check() error {
	if p == Anonymous || p == Local {
		return nil
	}
	if id, ok := p.Token(); ok {
		return CheckTokenID(id)
	}
	if role, name, ok := p.Cert(); ok {
		if err := CheckID("role", role); err != nil {
			return err
		}
		return CheckID("name", name)
	}
	return Refusef(KindInvalid, "actor", "%q is no caller: token:ID, cert:ROLE/NAME, %s or %s is wanted", cutText(string(p)), Local, Anonymous)
}

// Caller is who asked for an operation, and how.
type Caller struct {
	Actor Principal
	// Via is the node that took the call, and by which door: NODE/grpc.
	Via string
	// Request is the caller's id of the call, or one that the node made up.
	Request string
}

// Check refuses a caller that the edge does not make.
func (c *Caller) Check() error {
	if err := c.Actor.Check(); err != nil {
		return err
	}
	if len(c.Via) > MaxViaBytes {
		return Refusef(KindInvalid, "via", "via has %d bytes: at most %d are taken", len(c.Via), MaxViaBytes)
	}
	if c.Request != "" {
		return CheckID("request_id", c.Request)
	}
	return nil
}

// CallerKey is the key of a context's value that is the [Caller] whose call it belongs to. A
// context without one is of what the node does for itself.
type CallerKey struct{}
