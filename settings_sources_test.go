package rota

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCanonical sets each name of the sources, as the page of the sources lists it, and reads rota's own.
func TestCanonical(t *testing.T) {
	t.Parallel()
	values := map[string]string{"t_lease": "7", "aging_factor": "7", "backoff_base": "7", "alpha": "0.5",
		"domain_failure_threshold": "0.5", "beta": "0.5", "tiers": "4",
		"max_aging": "4", "strategy": "LeastLoaded", "gc_horizon": "86400", "ttl_abs": "3600"}
	wants := map[string]string{"t_lease": "7s", "aging_factor": "7s", "backoff_base": "7s", "strategy": "least_loaded",
		"gc_horizon": "1d", "ttl_abs": "1h"}
	page, err := os.ReadFile("docs/internals/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, own := range sourceNames {
		if !regexp.MustCompile(`(?i)\b` + name + `\b`).Match(page) {
			t.Errorf("docs/internals/sources.md does not list %s", name)
		}
		value := values[own.key]
		if value == "" {
			value = "9"
		}
		p := StandardPolicy()
		if err := p.Set(Setting{strings.ToUpper(name), value}.Canonical()); err != nil {
			t.Errorf("%s=%s: %v", name, value, err)
			continue
		}
		want := wants[own.key]
		if want == "" {
			want = map[bool]string{true: value + "s", false: value}[own.seconds]
		}
		same := StandardPolicy()
		if err := same.Set(Setting{own.key, want}); err != nil {
			t.Fatal(err)
		}
		if d := p.Differences(&same); len(d) > 0 {
			t.Errorf("%s=%s is not %s=%s: %v", name, value, own.key, want, d)
		}
		if s := (Setting{own.key, "1"}); s.Canonical() != s {
			t.Errorf("%v is changed", s)
		}
	}
}

// TestCanonical_units checks that a duration under a name in seconds is accepted, and that an invalid one is rejected.
func TestCanonical_units(t *testing.T) {
	t.Parallel()
	p := StandardPolicy()
	if err := p.Set(Setting{"AgingFactorSeconds", "2m"}.Canonical()); err != nil || p.AgingFactorMs != 120_000 {
		t.Errorf("2m: %d ms, %v", p.AgingFactorMs, err)
	}
	if err := p.Set(Setting{"queue.AgingFactorSeconds", " 0.5"}.Canonical()); err != nil || p.AgingFactorMs != 500 {
		t.Errorf("0.5: %d ms, %v", p.AgingFactorMs, err)
	}
	if s := (Setting{"expected.ai_secs", "5s"}); s.Canonical() != s { // how long jobs of the type ai_secs take
		t.Errorf("%v became %v", s, s.Canonical())
	}
	if err := p.Set(Setting{"AgingFactorSeconds", "-1"}.Canonical()); err == nil || p.AgingFactorMs != 500 {
		t.Errorf("-1 is accepted: %d ms", p.AgingFactorMs)
	}
}
