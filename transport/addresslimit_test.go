package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestTurnstile checks that an address has a fixed number of calls per second, whatever others do, and that addresses
// that call once do not use a slot for long.
func TestTurnstile(t *testing.T) {
	t.Parallel()
	s, now := newAddressLimiter(10), time.Unix(1e9, 0)
	for i := range 10 {
		if err := s.pass("a", now); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := s.pass("a", now); rota.KindOf(err) != rota.KindExhausted || rota.ErrorOf(err).RetryAfter <= 0 {
		t.Errorf("an eleventh: %v", err)
	}
	if err := s.pass("b", now); err != nil {
		t.Error(err)
	}
	now = now.Add(100 * time.Millisecond)
	if err := s.pass("a", now); err != nil {
		t.Error(err)
	}
	if err := s.pass("a", now); err == nil {
		t.Error("two in a tenth of a second")
	}
	for i := range maxLimitedAddresses {
		_ = s.pass(fmt.Sprint(i), now)
	}
	if err := s.pass("new", now); rota.KindOf(err) != rota.KindExhausted || len(s.next) > maxLimitedAddresses {
		t.Errorf("%v, %d addresses", err, len(s.next))
	}
	if err := s.pass("new", now.Add(2*time.Second)); err != nil || len(s.next) != 1 {
		t.Errorf("%v, %d addresses", err, len(s.next))
	}
}
