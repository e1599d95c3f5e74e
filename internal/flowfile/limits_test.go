package flowfile

import (
	"strings"
	"testing"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	l, err := ParseLimits([]byte("keys:\n- {name: m, rate: 10, period_ms: 1000, unit: usd}\nbudgets: [{name: b, unit: usd, limit: 0.5}]\n"))
	if err != nil || len(l.Keys) != 1 || l.Keys[0].Unit != "usd" || l.Budgets[0].Limit != 500_000 {
		t.Fatalf("%+v, %v", l, err)
	}
	for text, want := range map[string]string{
		"":                                   "is empty",
		"keys: []":                           "no limits",
		"rules: []":                          `unknown field "rules"`,
		"keys: [{name: m, colour: 1}]":       "keys[0].colour",
		"keys: [{name: m}]":                  "keys[0]: ",
		"keys: [{name: m, concurrency: -1}]": "keys[0]: concurrency",
		"keys: [{name: m, concurrency: 1, queue: q}]":                "keys[0].queue: got q",
		"budgets: [{name: b, unit: usd, limit: 0.5, queue: q}]":      "budgets[0].queue: got q",
		"budgets: [{name: b, unit: usd, limit: 0.5, every: decade}]": "every",
		"budgets: [{name: b, unit: usd, limit: 1e-7}]":               "limit",
		"keys: {a: 1}":        "keys",
		"[1]":                 "not a file of limits",
		"{":                   "not YAML",
		"keys: [{1: {2: 3}}]": "not a file of limits",
	} {
		if _, err := ParseLimits([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
