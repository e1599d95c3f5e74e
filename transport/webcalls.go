package transport

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	link "google.golang.org/grpc/peer"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/transport/web"
)

const (
	// webBuffer is how much of unread bodies HTTP/2 buffers, per stream and per connection: the protocol's minimum.
	webBuffer = 64 << 10
	// webStreams bounds the requests in flight on one connection.
	webStreams = 250
)

// webServer serves HTTP on gRPC's port: HTTP/1.1, and HTTP/2 on connections that the sorter does not give to gRPC.
func (s *Server) webServer() *http.Server {
	server := NewWebServer(http.HandlerFunc(s.serveWeb), &s.options.Hosts, log.New(io.Discard, "", 0))
	server.WriteTimeout = handshakeTimeout // a call sets its own
	server.ConnContext = withShown
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for connections that are already decrypted
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: webStreams, MaxReceiveBufferPerStream: webBuffer,
		MaxReceiveBufferPerConnection: webBuffer}
	return server
}

// newSite builds the HTTP calls from the gRPC calls.
func (s *Server) newSite(jobs *jobsService, calls web.Calls) (*web.Site, error) {
	calls.Jobs, calls.Submit, calls.Await = jobs, jobs.admit, jobs.await
	calls.Events, calls.Stats, calls.Live = s.webEvents, s.webStats, webLive{s}
	calls.Lanes, calls.Views, calls.Round = s.webLanes, s.webViews, s.webRound
	calls.DatesOf = func(times *rota.ScheduleTimes, most int) ([]rota.Date, error) {
		return s.options.Core.DatesOf(times, s.today(), most)
	}
	streamed(&calls)
	return web.New(web.Options{Calls: calls, Door: webDoor{s}, Node: string(s.options.Self), Version: s.options.Version,
		Origins: s.options.Hosts.Origins, OfNode: s.options.Hosts.ofNode, Life: s.life})
}

func (s *Server) serveWeb(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 && isGRPC(r.Header.Get("Content-Type")) {
		s.relay(w, r)
		return
	}
	if ui := s.options.Console; ui != nil && (r.URL.Path == consolePath ||
		strings.HasPrefix(r.URL.Path, consolePath+"/")) {
		if r.URL.Path == sessionPath {
			s.serveSession(w, r)
		} else {
			s.serveConsole(ui, w, r)
		}
		return
	}
	s.site.ServeHTTP(w, r)
}

// withShown returns a connection's context with its seat, and the credentials that its other end has presented.
func withShown(ctx context.Context, c net.Conn) context.Context {
	if known, ok := c.(*knownConn); ok {
		ctx = context.WithValue(ctx, shownKey{}, known.shown)
	}
	return withSeat(ctx, c)
}

// textAddr is an address as written in a request.
type textAddr string

// Network implements net.Addr.
func (textAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a textAddr) String() string { return string(a) }

// webDoor is gRPC's admission for HTTP.
type webDoor struct{ server *Server }

// Enter implements web.Door.
func (d webDoor) Enter(w http.ResponseWriter, r *http.Request, call string, most time.Duration) (web.Visit, error) {
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
	v := &visit{server: s, pass: p, call: call, outer: r.Context(), end: leave, http: http.NewResponseController(w)}
	if !p.need.anybody {
		v.seat = seatOf(r.Context())
		v.seat.admit()
	}
	ctx := link.NewContext(context.WithValue(r.Context(), passKey{}, p), &link.Peer{Addr: textAddr(r.RemoteAddr)})
	v.ctx, v.cancel = context.WithTimeout(p.context(ctx), most)
	_ = v.http.SetWriteDeadline(time.Now().Add(most + handshakeTimeout)) // a connection without deadlines needs none
	if r.ContentLength != 0 {
		v.body = s.followWeb(r, p, v.cancel, v.http)
	}
	return v, nil
}

// visit is an admitted HTTP request.
type visit struct {
	server *Server
	pass   *pass
	call   string
	// outer is the request's context, ctx the call's.
	outer, ctx context.Context
	cancel     context.CancelFunc
	end        func()
	seat       *seat
	http       *http.ResponseController
	// body counts the bytes read; nil for a request without one.
	body *webFlight
}

// Context implements web.Visit.
func (v *visit) Context() context.Context { return v.ctx }

// Count implements web.Visit.
func (v *visit) Count(n int) error {
	if v.body == nil {
		return nil
	}
	return v.body.count(v.ctx, n)
}

// Arrived implements web.Visit.
func (v *visit) Arrived() {
	if v.body != nil {
		v.body.arrived()
	}
}

// Settle implements web.Visit: it does the same as unary at the end of a call.
func (v *visit) Settle(err error) error {
	if err != nil {
		v.pass.denied(err)
		err = late(v.outer, err)
		if words.FromStatus(words.ToStatus(err)).Kind == rota.KindInternal {
			v.server.log.Error("call failed", "method", v.call, "error", err)
		}
		return err
	}
	if err := v.server.answerable(v.pass); err != nil {
		v.pass.denied(err)
		return err
	}
	return nil
}

// Class implements web.Visit: a call reads once.
func (v *visit) Class() string { return "" }

// Draining implements web.Visit.
func (v *visit) Draining() bool { return v.server.draining.Err() != nil }

// Panicked implements web.Visit.
func (v *visit) Panicked(reason any) error { return v.server.panicked(v.call, reason) }

// Leave implements web.Visit.
func (v *visit) Leave() {
	v.cancel()
	if v.body != nil {
		v.body.leave()
	}
	v.end()
	v.seat.rest()
	v.server.tails.Done()
}

// webFlight counts a request's body among the messages in flight, as a connection of its own.
type webFlight struct {
	conn    *inflightConn
	request *requestConn
	stream  *inflightStream
}

// followWeb starts counting the body of a request.
func (s *Server) followWeb(r *http.Request, p *pass, cancel context.CancelFunc, w *http.ResponseController) *webFlight {
	f := &webFlight{request: &requestConn{from: textAddr(r.RemoteAddr), cancel: cancel, http: w},
		stream: &inflightStream{}}
	f.conn = s.inflight.follow(f.request)
	f.conn.streams[1] = f.stream
	f.conn.lingers = true
	f.conn.belongs(p.caller.Actor)
	return f
}

// count reserves memory for the body, and waits until there is room; a negative n releases memory.
func (f *webFlight) count(ctx context.Context, n int) error {
	f.conn.mu.Lock()
	if !f.conn.ended {
		f.conn.count(&f.stream.part, int64(n), true)
	}
	f.conn.mu.Unlock()
	if n > 0 {
		f.conn.relieve()
		if !f.conn.all.awaitRoom(ctx) {
			return noRoom()
		}
	}
	return f.refusal()
}

// arrived reports that the body is complete.
func (f *webFlight) arrived() {
	f.conn.mu.Lock()
	defer f.conn.mu.Unlock()
	if !f.conn.ended {
		whole := f.stream.part
		f.conn.count(&f.stream.part, -whole, true)
		f.conn.count(&f.stream.whole, whole, false)
	}
}

// refusal returns why the request was cut off, or nil.
func (f *webFlight) refusal() error {
	if !f.request.cut.Load() {
		return nil
	}
	return noRoom()
}

func noRoom() error {
	e := rota.Refusef(rota.KindExhausted, "body",
		"the messages in flight on this node exceed --inflight-bytes: try again, or ask another node")
	e.RetryAfter = comeBack
	return e
}

// leave ends the request and releases its memory.
func (f *webFlight) leave() {
	f.request.left.Store(true)
	_ = f.conn.Close()
	f.conn.mu.Lock()
	behind := f.conn.behind
	f.conn.mu.Unlock()
	f.conn.all.left(behind)
}

// requestConn is a request presented as a connection that can be ended.
type requestConn struct {
	net.Conn
	from      textAddr
	cancel    context.CancelFunc
	http      *http.ResponseController
	left, cut atomic.Bool
}

// RemoteAddr implements net.Conn.
func (c *requestConn) RemoteAddr() net.Addr { return c.from }

// Close implements net.Conn: the body can no longer be read, and the answer gets a moment.
func (c *requestConn) Close() error {
	if !c.left.Load() {
		c.cut.Store(true)
		_ = c.http.SetReadDeadline(time.Now())
		_ = c.http.SetWriteDeadline(time.Now().Add(lastWrite))
		c.cancel()
	}
	return nil
}

// relay serves a gRPC call that came over HTTP, from a client or a proxy that speaks both. It passes the same
// admission; grpc.Server answers calls that are not in the table.
func (s *Server) relay(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a stream has no time limit: its messages are counted and timed
	_ = control.SetWriteDeadline(time.Time{})
	need, known := methods[r.URL.Path]
	if known {
		p, err := s.admitWeb(r, r.URL.Path)
		if err != nil {
			refuseGRPC(w, err)
			return
		}
		if !need.anybody {
			seatOf(r.Context()).keep()
		}
		if !s.enter() {
			refuseGRPC(w, s.going())
			return
		}
		defer s.tails.Done()
		ctx, cancel := s.untilDrain(context.WithValue(r.Context(), passKey{}, p))
		defer cancel()
		flight := s.followWeb(r, p, cancel, control)
		defer flight.leave()
		p.flight = flight.conn
		r = r.WithContext(ctx)
		r.Body = &relayed{r.Body, flight}
	}
	s.grpc.ServeHTTP(w, r)
}

// relayed is the body of a gRPC call, whose messages are counted as they arrive.
type relayed struct {
	io.ReadCloser
	flight *webFlight
}

func (b *relayed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	c := b.flight.conn
	c.mu.Lock()
	if !c.ended && n > 0 {
		c.message(b.flight.stream, p[:n])
		c.time()
	}
	c.mu.Unlock()
	c.relieve()
	if cut := b.flight.refusal(); cut != nil {
		return 0, cut
	}
	return n, err
}

// refuseGRPC answers a gRPC call with a status only.
func refuseGRPC(w http.ResponseWriter, err error) {
	code, message, details := words.Trailer(err)
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", code)
	h.Set("Grpc-Message", message)
	if details != "" {
		h.Set("Grpc-Status-Details-Bin", details)
	}
	w.WriteHeader(http.StatusOK)
}
