package transport

import (
	"log"
	"net/http"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/transport/web"
)

// These are the limits of HTTP on either port of a node (SECURITY §2.7).
const (
	// webHeader bounds the time of a request's header. webBody and webBodyRate bound that of its body: a base time, and
	// a second for each piece.
	webHeader   = 5 * time.Second
	webBody     = 10 * time.Second
	webBodyRate = 64 << 10
	// webHeaders is the header size that net/http reads. It answers larger headers itself, in plain text, before any
	// handler runs. So the value is above maxHeaderBytes, from which on our handler rejects requests. net/http accepts
	// 4 KiB more than its setting.
	webHeaders = 2*maxHeaderBytes - 4<<10
	// webIdle ends an HTTP connection that has no further requests.
	webIdle = 30 * time.Second
	// connGrace ends a connection on which no call was admitted; calls of health do not count.
	connGrace = 10 * time.Second
)

// NewWebServer returns a node's HTTP server: requests are limited in time, and must be for its own hosts. On a listener
// of CapListener a connection is idle while no request is in progress.
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
			if r.ContentLength != 0 { // −1 is a body of unknown length, which gets the same time as an empty one
				most := webBody + time.Duration(max(0, r.ContentLength)/webBodyRate)*time.Second
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(most))
			}
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: webHeader, IdleTimeout: webIdle, MaxHeaderBytes: webHeaders, ErrorLog: errors,
		ConnContext: withSeat,
	}
}

// checkHeaders bounds the headers of a request: their names and values, each written as one line.
func checkHeaders(r *http.Request) error {
	const written = len(": \r\n")
	size := len("Host") + len(r.Host) + written
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + written
		}
	}
	if size > maxHeaderBytes {
		return rota.Refusef(rota.KindInvalid, "headers", "headers too long: got %d bytes, maximum %d", size,
			maxHeaderBytes)
	}
	return nil
}

// Seated returns a handler that keeps each request's connection in its seat while the request is in progress.
func Seated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seat := seatOf(r.Context())
		seat.admit()
		defer seat.rest()
		handler.ServeHTTP(w, r)
	})
}
