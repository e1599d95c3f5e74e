package rota

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestInvalid_texts checks that each constructor names field, value and bound, and has the kind and the subject.
func TestInvalid_texts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100)
	cut := strings.Repeat("ä", maxShown/2) + "…"
	for want, got := range map[string]*Error{
		"field must be between 0 and 10, got 11":       OutOfRange("field", 11, 0, 10),
		"field must be between -1 and 10, got -2":      OutOfRange("field", -2, -1, 10),
		"too many field: got 65, maximum 64":           TooMany("field", 65, 64),
		"field too long: got 5000 bytes, maximum 4096": TooLong("field", 5000, 4096),
		`field must be one of tenant, cluster, got "clutser"; did you mean "cluster"?`: NotOneOf("field", "clutser",
			"tenant", "cluster"),
		`field must be one of tenant, cluster, got "x"`:           NotOneOf("field", "x", "tenant", "cluster"),
		`field must be one of tenant, cluster, got "` + cut + `"`: NotOneOf("field", long, "tenant", "cluster"),
		`field: got "5"; use a value such as 30s`:                 Malformed("field", "5", "use a value such as 30s"),
		`field: got "` + cut + `"; use a value such as 30s`:       Malformed("field", long, "use a value such as 30s"),
		`field: got "a\nb\"c"; use one line`:                      Malformed("field", "a\nb\"c", "use one line"),
	} {
		if got.Text != want || got.Kind != KindInvalid || got.Subject != "field" || !errors.Is(got, ErrInvalid) {
			t.Errorf("%q is of kind %v and subject %q, want %q", got.Text, got.Kind, got.Subject, want)
		}
	}
}

// TestOutOfRange_cutDurations checks that a duration in milliseconds that does not fit a time.Duration is cut, and that
// the text states that.
func TestOutOfRange_cutDurations(t *testing.T) {
	t.Parallel()
	held := int64(math.MaxInt64 / 1_000_000)
	for got, want := range map[*Error]string{
		OutOfRange("delay_ms", held, 0, 10):     "delay_ms must be between 0 and 10, got 9223372036854 or more",
		OutOfRange("delay_ms", -held, 0, 10):    "delay_ms must be between 0 and 10, got -9223372036854 or less",
		OutOfRange("delay_ms", held-1, 0, 10):   "delay_ms must be between 0 and 10, got 9223372036853",
		OutOfRange("size_bytes", held+1, 0, 10): "size_bytes must be between 0 and 10, got 9223372036855",
	} {
		if got.Text != want {
			t.Errorf("%q, want %q", got.Text, want)
		}
	}
}

// TestShorten_bounds checks that a value is cut at a whole character, and that one of exactly the maximum is not.
func TestShorten_bounds(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("x", maxShown)
	if got := shorten(whole); got != whole {
		t.Errorf("%q", got)
	}
	if got, want := shorten(whole[1:]+"ä"), whole[1:]+"…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
