package rota

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestScoringKeys sets the keys of the adaptive score, and invalid values.
func TestScoringKeys(t *testing.T) {
	t.Parallel()
	for n := range int64(MaxTiers + 1) {
		p := StandardPolicy()
		err := p.Set(Setting{"tiers", strconv.FormatInt(n, 10)})
		if n < 2 {
			if KindOf(err) != KindInvalid || p.Tiers != 5 {
				t.Errorf("%d tiers: %v", n, err)
			}
			continue
		}
		if err != nil || p.Check() != nil || p.Tiers != n {
			t.Errorf("%d tiers: %v, %v", n, err, p.Check())
		}
		for i := range int64(MaxTiers) {
			if (p.TierBasesMilli[i] > 0) != (i < n) || (p.TierQuotas[i] > 0) != (i < n) ||
				i > 0 && p.TierBasesMilli[i] > p.TierBasesMilli[i-1] || i > 0 && p.TierQuotas[i] > p.TierQuotas[i-1] {
				t.Errorf("%d tiers have bases %v and quotas %v", n, p.TierBasesMilli, p.TierQuotas)
			}
		}
	}
	for _, c := range []struct{ key, value, refused string }{
		{"epsilon", "0.001", ""}, {"epsilon", "7", ""}, {"w_max", "1.25", ""}, {"t_aging", "10m", ""},
		{"base_1", "12.5", ""}, {"quota_4", "0", ""}, {"estimate", "user", ""},
		{"epsilon", "0", "0.001 to 1000"}, {"epsilon", "1.0005", "three places"}, {"epsilon", "-1", "three places"},
		{"epsilon", "NaN", "three places"}, {"epsilon", "1e3", "three places"}, {"epsilon", ".5", "three places"},
		{"epsilon", "1.", "three places"}, {"epsilon", "99999999999999999999", "three places"}, {"n_min", "0", "1 to"},
		{"w_min", "1.501", "at most w_max"}, {"base_4", "0", "base_4 must be"}, {"base_5", "1", "tiers is 5"},
		{"quota_5", "1", "tiers is 5"}, {"tiers", "9", "2 to 8"}, {"max_aging", "0.9", "1 to 1000"},
		{"estimate", "mine", "type, user"},
	} {
		p := StandardPolicy()
		err := p.Set(Setting{c.key, c.value})
		if err == nil {
			err = p.Check()
		}
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.refused)
		}
	}
	p := StandardPolicy()
	for i := range int64(5) {
		p.TierQuotas[i] = 0
	}
	if KindOf(p.Check()) != KindInvalid {
		t.Error("an empty sample is accepted")
	}
}

func TestMilli(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(0, 1_000_000_000).Draw(t, "milli")
		text := formatMilli(v)
		if got, ok := parseMilli(text); !ok || got != v || strings.HasSuffix(text, ".0") {
			t.Fatalf("%d becomes %s becomes %d", v, text, got)
		}
	})
}

func TestExpectedSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		typ        JobType
		ms         int64
		is, ok     bool
	}{
		{"expected.resize", "2s", "resize", 2000, true, true}, {"expected.A.b:c", "0", "A.b:c", 0, true, true},
		{"expected.", "2s", "", 0, true, false}, {"expected.a b", "2s", "", 0, true, false},
		{"expected.a", "-1", "a", 0, true, false},
		{"expected.a", "soon", "a", 0, true, false}, {"expected", "2s", "", 0, false, true},
		{"epsilon", "2", "", 0, false, true},
	} {
		typ, ms, is, err := Setting{c.key, c.value}.Expected()
		if is != c.is || (err == nil) != c.ok || err == nil && (typ != c.typ || ms != c.ms) {
			t.Errorf("%s=%s: %s, %d, %v, %v", c.key, c.value, typ, ms, is, err)
		}
	}
}
