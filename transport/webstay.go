package transport

import (
	"context"
	"net/http"
	"sync"

	link "google.golang.org/grpc/peer"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/transport/web"
)

// stay is an HTTP request with a long-lived answer: what streaming is for gRPC.
type stay struct {
	server *Server
	pass   *pass
	call   string
	ctx    context.Context
	end    func()

	// class is what the caller may read, according to table.
	mu    sync.Mutex
	class string
	table access.Table
}

// Table implements web.Door.
func (d webDoor) Table() any { return d.server.options.Core.Access() }

// Stay implements web.Door.
func (d webDoor) Stay(r *http.Request, call string) (web.Visit, error) {
	s := d.server
	if _, known := methods[call]; !known {
		return nil, rota.Refusef(rota.KindInternal, "", "%s is missing from the table of rights", call)
	}
	p, err := s.admitWeb(r, call)
	if err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, s.going()
	}
	leave, err := s.receiveFrom(textAddr(r.RemoteAddr))
	if err != nil {
		s.tails.Done()
		return nil, err
	}
	seat := seatOf(r.Context())
	seat.admit()
	ctx := link.NewContext(context.WithValue(r.Context(), passKey{}, p), &link.Peer{Addr: textAddr(r.RemoteAddr)})
	ctx, cancel := s.untilDrain(p.context(ctx))
	ctx, left := s.desk.enter(ctx, p)
	return &stay{server: s, pass: p, call: call, ctx: ctx, end: func() {
		left()
		cancel()
		leave()
		seat.rest()
		s.tails.Done()
	}}, nil
}

// Context implements web.Visit.
func (v *stay) Context() context.Context { return v.ctx }

// Count implements web.Visit: there is no body.
func (v *stay) Count(int) error { return nil }

// Arrived implements web.Visit.
func (v *stay) Arrived() {}

// Settle implements web.Visit.
func (v *stay) Settle(err error) error {
	if v.Draining() {
		err = v.server.going()
	}
	if lost := wasCutOff(v.ctx); lost != nil {
		err = lost
	}
	if err == nil {
		return nil
	}
	v.pass.denied(err)
	if words.FromStatus(words.ToStatus(err)).Kind == rota.KindInternal {
		v.server.log.Error("call failed", "method", v.call, "error", err)
	}
	return err
}

// Draining implements web.Visit.
func (v *stay) Draining() bool { return v.server.draining.Err() != nil }

// Panicked implements web.Visit.
func (v *stay) Panicked(reason any) error { return v.server.panicked(v.call, reason) }

// Leave implements web.Visit.
func (v *stay) Leave() { v.end() }
