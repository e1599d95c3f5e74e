package rota

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "300ms": 300 * time.Millisecond, "1h30m": 90 * time.Minute, "1d": day, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, "-1d12h": -36 * time.Hour, "+2d": 2 * day, "7d1ns": 7*day + 1, "0d": 0,
		"1.5h":   90 * time.Minute,
		"36500d": 36500 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "d", "1", "soon", "12h1d", "1d-1h", "--1d", "-+1d", "1dd", "1d1d", "1e9d",
		"999999999d", "1d 2h", "NaNd", "1d2562047h"} {
		if got, err := ParseDuration(bad); KindOf(err) != KindInvalid {
			t.Errorf("%q is accepted as %s, %v", bad, got, err)
		}
	}
}

// FuzzParseDuration compares durations without days with time.ParseDuration.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d12h", "-0.5d", "300ms", "1h", "+1d", "d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseDuration(text)
		if want, wantErr := time.ParseDuration(text); wantErr == nil && (err != nil || got != want) {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
		if err != nil && (KindOf(err) != KindInvalid || got != 0) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	})
}

// TestDate_Time checks that a date is read back, and that only 0 is the zero time.
func TestDate_Time(t *testing.T) {
	t.Parallel()
	for _, d := range []Date{0, 1, -1, 1_800_000_000_123, math.MaxInt64, math.MinInt64} {
		if got := DateOf(d.Time()); got != d || d.Time().IsZero() != (d == 0) {
			t.Errorf("date %d becomes %s and %d", d, d.Time(), got)
		}
	}
	if year1 := Date(-62135596800000); year1.Time().IsZero() || DateOf(year1.Time()) >= 0 {
		t.Errorf("the year 1 becomes %s", year1.Time())
	}
}

// TestCheckUnit_refusesBareNumbers checks that every key of a duration whose name has no unit rejects a bare number and
// shows both readings of it. With a unit, under the key's own name, or as 0 it is accepted.
func TestCheckUnit_refusesBareNumbers(t *testing.T) {
	t.Parallel()
	names := []string{"penalty", "expected.resize"}
	for i := range policyKeys {
		if k := &policyKeys[i]; k.unit == unitMs && k.alias != "" {
			names = append(names, k.alias)
		}
		for _, value := range []string{"5", "5s", "0"} {
			if err := (Setting{policyKeys[i].name, value}).CheckUnit(); err != nil {
				t.Errorf("%s=%s: got %v", policyKeys[i].name, value, err)
			}
		}
	}
	for _, name := range names {
		want := name + "=5 has no unit: write " + name + "=5ms or " + name + "=5s"
		if err := (Setting{name, "5"}).CheckUnit(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		for _, value := range []string{"0", "5s", "5ms", "1d12h"} {
			if err := (Setting{name, value}).CheckUnit(); err != nil {
				t.Errorf("%s=%s: got %v", name, value, err)
			}
		}
	}
	if len(names) < 20 {
		t.Errorf("%d names of durations, want 20 or more", len(names))
	}
	if _, err := ParseDuration("5"); err == nil || err.Error() != `"5" has no unit: write 5ms or 5s` {
		t.Errorf("a bare 5: got %v", err)
	}
	if d, err := ParseDuration("0"); err != nil || d != 0 {
		t.Errorf("0: got %v, %v", d, err)
	}
}
