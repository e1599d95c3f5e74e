package transport

import (
	"net/http"
	"strings"

	"github.com/rotasched/rota/transport/web"
)

// consolePath is where the console is; everything beneath it is the console's too.
const consolePath = "/ui"

// Console answers requests for the console's files, which are for everybody: it has no data
// before its page calls the API. Origins are those of the nodes that the page may call.
type Console func(w http.ResponseWriter, r *http.Request, origins []string)

// serveConsole serves a file. Whoever asks counts among the calls of an address, and such a
// connection still gives way to others.
func (s *Server) serveConsole(ui Console, w http.ResponseWriter, r *http.Request) {
	leave, err := s.receiveFrom(textAddr(r.RemoteAddr))
	if err != nil {
		web.Refuse(w, err, 0)
		return
	}
	defer leave()
	ui(w, r, s.nodeOrigins())
}

// nodeOrigins returns the origins of the cluster's nodes: all show what they are asked with alike,
// in clear text or under TLS.
func (s *Server) nodeOrigins() []string {
	if s.options.Hosts.UI != "" {
		return nil // browsers reach the nodes by that one only
	}
	scheme, usual := "http://", ":80"
	if s.options.TLS != nil {
		scheme, usual = "https://", ":443"
	}
	apis := s.options.Core.APIs()
	origins := make([]string, len(apis))
	for i, api := range apis {
		origins[i] = scheme + strings.TrimSuffix(api, usual) // browsers leave the usual port out
	}
	return origins
}
