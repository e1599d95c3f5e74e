package relay

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errRefused is why a relay does not post to an address.
var errRefused = errors.New("refused address")

// unusual are networks that no receiver on the Internet has, in addition to those that netip knows to be private.
var unusual = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("fec0::/10")}

// private reports whether an address is of the host or of a network around it: only the relay can reach those, and a
// user who sets a webhook should not.
func private(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range unusual {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// newHTTP returns a client that follows no redirect and dials no private address. The check is on the resolved address
// that is dialed, so a name that resolves to another address the next time cannot bypass it.
func newHTTP(allowPrivate bool, timeout time.Duration) *http.Client {
	d := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w %s", errRefused, address)
		}
		if !allowPrivate && private(at.Addr()) {
			return fmt.Errorf("%w %s: it is private, --allow-private posts there", errRefused, at.Addr())
		}
		return nil
	}}
	return &http.Client{Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: d.DialContext, Proxy: nil, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 4, MaxIdleConns: 100,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout,
			MaxResponseHeaderBytes: 16 << 10,
			DisableCompression:     true}}
}
