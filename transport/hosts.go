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

// Hosts are the names that HTTP answers to. A page in somebody's browser reaches a node by a
// name of its own that leads here, and says whose page it is: neither is answered.
type Hosts struct {
	// Names are hosts of this node, with a port or without. Loopback, and the address that a
	// connection came to, need no mention.
	Names []string
	// Origins are those of pages that may ask beside the node's own, such as
	// https://console.example.
	Origins []string
	// UI is the one origin under which browsers find the console of all nodes, such as that of a load
	// balancer; empty where it is each node's own.
	UI string
	// Nodes returns the origins of the cluster's nodes, whose console may ask every node; nil where
	// there are none.
	Nodes func() []string
	// Certificate returns the node's own, whose names count too; nil where there is none.
	Certificate func() *x509.Certificate
}

// refuse returns how a request is refused, and with which status, 0 where it is not.
// One without a Host comes from no browser.
func (h *Hosts) refuse(r *http.Request) (code int, err error) {
	if r.Host != "" && !h.own(r, hostOf(r.Host)) {
		return http.StatusMisdirectedRequest, rota.Refusef(rota.KindInvalid, "host", "this node does not serve the requested Host: add it with --api-host")
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && !h.ofOurs(r, origins) {
		return http.StatusForbidden, rota.Refusef(rota.KindDenied, "origin", "pages of this Origin must not call this node: add it with --cors-origin")
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

// ofOurs reports whether a request's one origin is the node itself, as it was asked for, or
// one that may.
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

// ofNode reports whether an origin is that of a node of the cluster.
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
