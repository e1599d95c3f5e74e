package rota

import (
	"errors"
	"strings"
	"testing"
)

func TestTenantLimits_set(t *testing.T) {
	t.Parallel()
	want := TenantLimits{Tier: TierPremium, Weight: 3, MaxConcurrent: 8, RateLimitRPS: 50, PenaltyMs: 1500}
	got := DefaultTenantLimits()
	for _, s := range []Setting{{"tier", "premium"}, {"WEIGHT", "3"}, {"max_concurrent", " 8 "},
		{"rate_limit_rps", "50"},
		{"penalty", "1.5s"}} {
		if err := got.Set(s); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	again := DefaultTenantLimits()
	for _, s := range want.Settings() {
		if err := again.Set(s); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
	}
	if again != want || len(want.Settings()) != len(TenantKeys()) {
		t.Errorf("through its settings it is %+v, want %+v", again, want)
	}
}

func TestTenantLimits_refuses(t *testing.T) {
	t.Parallel()
	for subject, s := range map[string]Setting{
		"key":            {"colour", "red"},
		"tier":           {"tier", "GOLD"},
		"weight":         {"weight", "0"},
		"max_concurrent": {"max_concurrent", "many"},
		"rate_limit_rps": {"rate_limit_rps", "-2"},
		"penalty_ms":     {"penalty", "2h"},
	} {
		l := DefaultTenantLimits()
		err := l.Set(s)
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindInvalid || e.Subject != subject || !strings.Contains(e.Text, subject) ||
			l != DefaultTenantLimits() {
			t.Errorf("%v: got %v, limits %+v", s, err, l)
		}
	}
}
