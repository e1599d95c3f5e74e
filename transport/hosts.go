package transport

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Hosts are the host names that HTTP answers to. A page in someone's browser can reach a node under a name of its own
// that resolves here, and it sends its origin: requests with a foreign name or a foreign origin are rejected.
type Hosts struct {
	// Names are hosts of this node, with or without a port. Loopback, and the address that a connection came to, need
	// not be listed.
	Names []string
	// Origins lists the origins, besides the node's own, whose pages may call, such as https://console.example.
	Origins []string
	// UI is the one origin under which browsers find the console of all nodes, such as that of a load balancer; empty
	// if it is each node's own.
	UI string
	// Nodes returns the origins of the cluster's nodes, whose console may call every node; nil means none.
	Nodes func() []string
	// Certificate returns the node's own certificate, whose names count too; nil means none.
	Certificate func() *x509.Certificate
}

// refuse returns the error and the status for a request, or 0 if it is allowed. A request without a Host does not come
// from a browser.
func (h *Hosts) refuse(r *http.Request) (code int, err error) {
	if r.Host != "" && !h.own(r, hostOf(r.Host)) {
		return http.StatusMisdirectedRequest, rota.Refusef(rota.KindInvalid, "host",
			"this node does not serve the requested Host: add it with --api-host")
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && !h.ofOurs(r, origins) {
		return http.StatusForbidden, rota.Refusef(rota.KindDenied, "origin",
			"pages of this Origin must not call this node: add it with --cors-origin")
	}
	return 0, nil
}

func (h *Hosts) own(r *http.Request, host string) bool {
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && ip != nil && at != nil {
		if local := net.ParseIP(hostOf(at.String())); local != nil && local.Equal(ip) {
			return true
		}
	}
	if slices.ContainsFunc(h.Names, func(name string) bool { return strings.EqualFold(hostOf(name), host) }) {
		return true
	}
	if h.UI != "" {
		if at, err := url.Parse(h.UI); err == nil && strings.EqualFold(at.Hostname(), host) {
			return true
		}
	}
	if h.Certificate == nil {
		return false
	}
	certificate := h.Certificate()
	return certificate != nil && certificate.VerifyHostname(host) == nil
}

// ofOurs reports whether a request's only origin is the node itself, as addressed, or one that is allowed.
func (h *Hosts) ofOurs(r *http.Request, origins []string) bool {
	if len(origins) != 1 {
		return false
	}
	if slices.Contains(h.Origins, origins[0]) || h.UI != "" && h.UI == origins[0] {
		return true
	}
	at, err := url.Parse(origins[0])
	if err == nil && (at.Scheme == "http" || at.Scheme == "https") && strings.EqualFold(at.Host, r.Host) {
		return true
	}
	return h.ofNode(origins[0])
}

// ofNode reports whether an origin belongs to a node of the cluster.
func (h *Hosts) ofNode(origin string) bool {
	return h.Nodes != nil && slices.Contains(h.Nodes(), origin)
}

// hostOf returns an address without its port and brackets.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return strings.Trim(addr, "[]")
}
