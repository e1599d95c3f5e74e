package transport

import (
	"net/http"
	"strings"

	"github.com/rotasched/rota/transport/web"
)

// consolePath is the path of the console; all paths below it belong to the console too.
const consolePath = "/ui"

// Console answers requests for the console's files, which are public: they contain no data until the page calls the
// API. Origins are those of the nodes that the page may call.
type Console func(w http.ResponseWriter, r *http.Request, origins []string)

// serveConsole serves a file. The request counts among the calls of its address, and its connection may still be closed
// in favor of others.
func (s *Server) serveConsole(ui Console, w http.ResponseWriter, r *http.Request) {
	leave, err := s.receiveFrom(textAddr(r.RemoteAddr))
	if err != nil {
		web.Refuse(w, err, 0)
		return
	}
	defer leave()
	ui(w, r, s.nodeOrigins())
}

// nodeOrigins returns the origins of the cluster's nodes: all use the scheme of the node that is asked, clear text or
// TLS.
func (s *Server) nodeOrigins() []string {
	if s.options.Hosts.UI != "" {
		return nil // browsers reach the nodes only through that one
	}
	scheme, usual := "http://", ":80"
	if s.options.TLS != nil {
		scheme, usual = "https://", ":443"
	}
	apis := s.options.Core.APIs()
	origins := make([]string, len(apis))
	for i, api := range apis {
		origins[i] = scheme + strings.TrimSuffix(api, usual) // browsers omit the usual port
	}
	return origins
}
