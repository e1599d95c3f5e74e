package transport

import (
	"fmt"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

const (
	// maxExchanges is how many exchanges one address may try per second: each costs a signature check, and may cost a
	// request to an issuer.
	maxExchanges = 10
	// maxLimitedAddresses bounds the addresses that are counted.
	maxLimitedAddresses = 10_000
)

// addressLimiter limits the calls per second of each address.
type addressLimiter struct {
	each int
	mu   sync.Mutex
	// next is when an address has all its calls available again.
	next map[string]time.Time
}

func newAddressLimiter(each int) *addressLimiter {
	return &addressLimiter{each: each, next: make(map[string]time.Time)}
}

// pass counts a call, or rejects it.
func (t *addressLimiter) pass(address string, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, known := t.next[address]
	if !known && len(t.next) >= maxLimitedAddresses {
		t.forget(now)
	}
	if next.Before(now) {
		next = now
	}
	next = next.Add(time.Second / time.Duration(t.each))
	if wait := next.Sub(now) - time.Second; wait > 0 || !known && len(t.next) >= maxLimitedAddresses {
		return &rota.Error{Kind: rota.KindExhausted, Subject: "address",
			RetryAfter: max(wait, time.Second/time.Duration(t.each)),
			Text: fmt.Sprintf(
				"too many token exchanges from this address, or from too many addresses: maximum %d a second from each; try again",
				t.each)}
	}
	t.next[address] = next
	return nil
}

// forget forgets the addresses that have all their calls available again.
func (t *addressLimiter) forget(now time.Time) {
	for address, next := range t.next {
		if !next.After(now) {
			delete(t.next, address)
		}
	}
}
