package access

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// CheckPrincipal refuses a principal that no caller has.
func CheckPrincipal(p rota.Principal) error {
	if p == rota.Anonymous || p == rota.Local {
		return nil
	}
	if id, ok := p.Token(); ok {
		return CheckTokenID(id)
	}
	if role, name, ok := p.Cert(); ok {
		if err := rota.CheckID("role", role); err != nil {
			return err
		}
		return rota.CheckID("name", name)
	}
	if id, parent, ok := p.Session(); ok {
		if err := CheckTokenID(id); err != nil {
			return err
		}
		if MayHaveSessions(parent) {
			return CheckPrincipal(parent)
		}
	}
	return rota.Refusef(rota.KindInvalid, "actor", "actor: got %q; use token:ID, cert:ROLE/NAME, a session of either, %s or %s", cutText(string(p)),
		rota.Local, rota.Anonymous)
}

// MayHaveSessions reports whether a principal may ask for browser sessions: the holder of a token or
// of a certificate. A session may not, nor who shows no credential that could end.
func MayHaveSessions(p rota.Principal) bool {
	_, token := p.Token()
	_, _, cert := p.Cert()
	return token || cert
}

// Caller is who asked for an operation, and how.
type Caller struct {
	Actor rota.Principal
	// Via is the node that took the call, and by which door: NODE/grpc.
	Via string
	// Request is the caller's id of the call, or one that the node made up.
	Request string
}

// Check refuses a caller that the edge does not make.
func (c *Caller) Check() error {
	if err := CheckPrincipal(c.Actor); err != nil {
		return err
	}
	if len(c.Via) > limits.MaxViaBytes {
		return rota.TooLong("via", len(c.Via), limits.MaxViaBytes)
	}
	if c.Request != "" {
		return rota.CheckID("request_id", c.Request)
	}
	return nil
}

// CallerKey is the key of a context's value that is the [Caller] whose call it belongs to. A
// context without one is of what the node does for itself.
type CallerKey struct{}
