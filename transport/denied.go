package transport

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// unknownCaller is the principal of a caller without a valid credential.
const unknownCaller = "unknown"

// knock is a call before it is admitted. It is reported at most once as denied, however many of its items are.
type knock struct {
	server       *Server
	method, peer string
	told         atomic.Bool
}

// denied reports a call, or an item of it, that is refused because of its caller; it ignores any other error.
func (p *pass) denied(err error) {
	var e *rota.Error
	if !errors.As(err, &e) || e.Kind != rota.KindUnauthenticated && e.Kind != rota.KindDenied {
		return
	}
	k := p.knock
	if k == nil || k.server.options.Denied == nil || k.told.Swap(true) {
		return
	}
	d := logs.Denial{Method: k.method, Principal: string(p.caller.Actor), Peer: k.peer, Request: p.caller.Request,
		Reason: e.Text}
	switch {
	case p.caller.Actor != "":
	case p.node != "":
		d.Principal = "node:" + string(p.node)
	default:
		// The presented credential is unknown, and may be a secret: the error's text might quote it.
		d.Principal, d.Reason = unknownCaller, e.Kind.String()+" "+cmp.Or(e.Subject, "credential")
	}
	k.server.options.Denied(e.Kind, d)
}

// deniedItem reports a call of which one item is refused because of its caller; err is nil for an accepted item.
func deniedItem(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if p, ok := ctx.Value(passKey{}).(*pass); ok {
		p.denied(err)
	}
}
