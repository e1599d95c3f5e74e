package transport

import (
	"log"
	"net/http"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/transport/web"
)

// The limits of HTTP on either port of a node (SECURITY §2.7).
const (
	// webHeader bounds the time of a request's header, webBody and webBodyRate that of its
	// body: so much, and a second for each piece.
	webHeader   = 5 * time.Second
	webBody     = 10 * time.Second
	webBodyRate = 64 << 10
	// webHeaders is what net/http reads of a header. What has more is answered by it alone, in plain
	// text, before any handler: so it is above maxHeaderBytes, from which on we refuse ourselves.
	// net/http takes 4 KiB more than it is told.
	webHeaders = 2*maxHeaderBytes - 4<<10
	// webIdle ends an HTTP connection that asks for nothing more.
	webIdle = 30 * time.Second
	// connGrace ends a connection on which no call was admitted; one of health is none.
	connGrace = 10 * time.Second
)

// NewWebServer returns an HTTP server of a node: requests have so much time and no more, and
// are for its own hosts.
// On a listener of CapListener a connection rests while no request is under way.
func NewWebServer(handler http.Handler, hosts *Hosts, errors *log.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkHeaders(r); err != nil {
				web.Refuse(w, err, http.StatusRequestHeaderFieldsTooLarge)
				return
			}
			if code, err := hosts.refuse(r); err != nil {
				w.Header().Set("Connection", "close")
				web.Refuse(w, err, code)
				return
			}
			if r.ContentLength != 0 { // −1 is a body of unknown length, which has no more time than an empty one
				most := webBody + time.Duration(max(0, r.ContentLength)/webBodyRate)*time.Second
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(most))
			}
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: webHeader, IdleTimeout: webIdle, MaxHeaderBytes: webHeaders, ErrorLog: errors, ConnContext: withSeat,
	}
}

// checkHeaders bounds the headers of a request: their names and values, as they are written a line each.
func checkHeaders(r *http.Request) error {
	const written = len(": \r\n")
	size := len("Host") + len(r.Host) + written
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + written
		}
	}
	if size > maxHeaderBytes {
		return rota.Refusef(rota.KindInvalid, "headers", "headers too long: got %d bytes, maximum %d", size, maxHeaderBytes)
	}
	return nil
}

// Seated has each request's connection keep its place while the request is under way.
func Seated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seat := seatOf(r.Context())
		seat.admit()
		defer seat.rest()
		handler.ServeHTTP(w, r)
	})
}
