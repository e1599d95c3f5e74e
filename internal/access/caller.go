package access

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// CheckPrincipal rejects a principal that no caller has.
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
	return rota.Refusef(rota.KindInvalid, "actor",
		"actor: got %q; use token:ID, cert:ROLE/NAME, a session of either, %s or %s", cutText(string(p)),
		rota.Local, rota.Anonymous)
}

// MayHaveSessions reports whether a principal may have browser sessions: the holder of a token or of a certificate. A
// session may not, nor may a caller without a credential that can end.
func MayHaveSessions(p rota.Principal) bool {
	_, token := p.Token()
	_, _, cert := p.Cert()
	return token || cert
}

// Caller is the origin of an operation: its principal, interface and request.
type Caller struct {
	Actor rota.Principal
	// Via is the node that received the call, and the interface: NODE/grpc.
	Via string
	// Request is the caller's id of the call, or one that the node generated.
	Request string
}

// Check rejects a caller that the edge does not produce.
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

// CallerKey is the context key for the [Caller] of a call. A context without one belongs to work that the node does on
// its own behalf.
type CallerKey struct{}
