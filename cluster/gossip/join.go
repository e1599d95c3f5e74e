package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// joinBackoffMin and joinBackoffMax bound the wait between two attempts on one address: nodes of a cluster are
	// started together, in any order.
	joinBackoffMin = 50 * time.Millisecond
	joinBackoffMax = 2 * time.Second
	// joinCheck is how often a reached address is checked again.
	joinCheck = 2 * time.Second
	// maxUnanswered is how many attempts in a row a starting or ending node may cut off.
	maxUnanswered = 5
	// resolveTimeout bounds a name lookup.
	resolveTimeout = 2 * time.Second
)

// joinLoop tries one address forever. Once reached, it is tried again only while no live member has that address:
// memberlist gives up on a node that was dead for half a minute, so the two halves of a long partition would never find
// each other again.
func (g *Gossip) joinLoop(ctx context.Context, address string) {
	wait, failing, unanswered := joinBackoffMin, false, 0
	for {
		err := g.join(ctx, address)
		unanswered++
		if !cutOff(err) {
			unanswered = 0
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failing {
				g.opts.Logger.Info("gossip: joined", "address", address)
			}
			wait, failing = joinCheck, false
		default:
			if !failing {
				g.opts.Logger.Info("gossip: cannot join yet, trying on", "address", address, "error", err)
				failing, wait = true, joinBackoffMin
			}
			wait = min(2*wait, g.opts.joinBackoffMax)
		}
		g.unanswered(address, unanswered >= maxUnanswered)
		pause := time.NewTimer(wait/2 + rand.N(wait/2)) // so that nodes do not act in step
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// cutOff reports whether a node was reached and closed the connection without an answer, as one that rejects gossip
// does (gate).
func cutOff(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error() // memberlist does not wrap errors
	return strings.HasSuffix(text, ": EOF") || strings.Contains(text, ": read tcp ") ||
		strings.Contains(text, ": write tcp ")
}

// unanswered records whether a node leaves gossip unanswered, and logs it once a minute while it does.
func (g *Gossip) unanswered(address string, is bool) {
	if is && g.lines.Allow("join/"+address) {
		g.opts.Logger.Warn(
			"gossip: the node at this address refuses this one's gossip: is --cluster the same, and the gossip key?",
			"address", address, "cluster", g.opts.Cluster)
	}
	if g.opts.OnRefused != nil {
		g.opts.OnRefused(address, is)
	}
}

// join ensures that a live member has the address.
func (g *Gossip) join(ctx context.Context, address string) error {
	ip, port, err := resolveAddress(ctx, address)
	if err != nil {
		return err
	}
	target := net.JoinHostPort(ip.String(), strconv.Itoa(port))
	if g.hasLive(target) {
		return nil
	}
	if _, err = g.list.Join([]string{target}); err != nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " ")) // memberlist's error has many lines
	}
	return nil
}

// hasLive reports whether a live member, this node included, has the address.
func (g *Gossip) hasLive(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, member := range g.members {
		if member.Alive && member.Gossip == address {
			return true
		}
	}
	return false
}

// seekLoop tries dead members, as joinLoop tries the given addresses: nodes that found each other through a third have
// no --join of each other.
func (g *Gossip) seekLoop(ctx context.Context) {
	tick := time.NewTicker(5 * g.opts.joinBackoffMax)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, member := range g.Members() {
			if !member.Alive && ctx.Err() == nil {
				_, _ = g.list.Join([]string{member.Gossip}) // expected to fail: the member is listed as dead
			}
		}
	}
}

// resolveAddress returns the IP and port of host:port. An empty host is the unspecified address; of several addresses,
// an IPv4 one is preferred.
func resolveAddress(ctx context.Context, address string) (net.IP, int, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, fmt.Errorf("address %q: %w", address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("address %q: invalid port %q: use a number up to 65535", address, portText)
	}
	if host == "" {
		return net.IPv4zero, int(port), nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, int(port), nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, 0, fmt.Errorf("address %q: %w", address, err)
	}
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("address %q: the name has no address", address)
	}
	for _, addr := range found {
		if v4 := addr.IP.To4(); v4 != nil {
			return v4, int(port), nil
		}
	}
	return found[0].IP, int(port), nil
}
