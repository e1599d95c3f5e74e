package rota

import (
	"errors"
	"fmt"
	"testing"
)

// sentinels maps kinds to their sentinels.
var sentinels = map[Kind]error{
	KindInvalid: ErrInvalid, KindNotFound: ErrNotFound, KindConflict: ErrConflict, KindStale: ErrStale,
	KindMode: ErrMode, KindExhausted: ErrExhausted,
	KindUnavailable: ErrUnavailable, KindTimeout: ErrTimeout, KindOutOfRange: ErrOutOfRange, KindDenied: ErrDenied,
	KindInternal:        ErrInternal,
	KindUnauthenticated: ErrUnauthenticated,
}

// TestSentinels checks that each kind has one sentinel, that errors.Is finds it through wraps and among several errors,
// and that it finds no other.
func TestSentinels(t *testing.T) {
	if len(sentinels) != len(kindNames)-1 {
		t.Fatalf("%d sentinels of %d kinds", len(sentinels), len(kindNames)-1)
	}
	for kind := range sentinels {
		var err error = Refusef(kind, "x", "no")
		for _, err := range []error{err, fmt.Errorf("call: %w", err), errors.Join(errors.New("other"), err)} {
			for other, sentinel := range sentinels {
				if errors.Is(err, sentinel) != (other == kind) {
					t.Errorf("%v: errors.Is(%v) is %v", err, sentinel, other != kind)
				}
			}
		}
		if got := KindOf(fmt.Errorf("call: %w", sentinels[kind])); got != kind {
			t.Errorf("the sentinel of %v is of kind %v", kind, got)
		}
		if got := ErrorOf(sentinels[kind]); got.Kind != kind {
			t.Errorf("the sentinel of %v becomes %+v", kind, got)
		}
	}
	if (*Error)(nil).Is(ErrInvalid) || errors.Is(&Error{}, ErrInternal) {
		t.Error("no error has a kind")
	}
}
