package transport

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// unknownCaller is the principal of who showed no credential that counts.
const unknownCaller = "unknown"

// knock is a call before the door, which is told of at most once as denied, however many of
// its items are.
type knock struct {
	server       *Server
	method, peer string
	told         atomic.Bool
}

// denied tells of a call that is refused for who made it, or of an item of it; any other
// error is none.
func (p *pass) denied(err error) {
	var e *rota.Error
	if !errors.As(err, &e) || e.Kind != rota.KindUnauthenticated && e.Kind != rota.KindDenied {
		return
	}
	k := p.knock
	if k == nil || k.server.options.Denied == nil || k.told.Swap(true) {
		return
	}
	d := logs.Denial{Method: k.method, Principal: string(p.caller.Actor), Peer: k.peer, Request: p.caller.Request, Reason: e.Text}
	switch {
	case p.caller.Actor != "":
	case p.node != "":
		d.Principal = "node:" + string(p.node)
	default:
		// What was shown is not known, and may be a secret: the error's text might have of it.
		d.Principal, d.Reason = unknownCaller, e.Kind.String()+" "+cmp.Or(e.Subject, "credential")
	}
	k.server.options.Denied(e.Kind, d)
}

// deniedItem tells of a call of which one item is refused for who made it; err is nil for one that
// is taken.
func deniedItem(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if p, ok := ctx.Value(passKey{}).(*pass); ok {
		p.denied(err)
	}
}
