package rota

import (
	"strconv"
	"strings"
	"time"
)

// tenantKeys are the keys of a tenant's limits, in the order in which they are
// shown.
var tenantKeys = []string{"tier", "weight", "max_concurrent", "rate_limit_rps", "penalty_ms", "bytes_max"}

// TenantKeys lists the keys that TenantLimits.Set accepts.
func TenantKeys() []string { return append([]string(nil), tenantKeys...) }

// Docs returns the documentation of a tenant's keys, in the order of TenantKeys; the limits are those
// of any tenant.
func (TenantLimits) Docs() []PolicyDoc {
	usual := DefaultTenantLimits()
	docs := []PolicyDoc{
		{Key: "tier", Meaning: "The service tier, a term of ranking=market.",
			Values: strings.Join(serviceTierNames, ", "),
			Unit:   unitNames[unitChoice], Most: int64(TierPremium), Choices: ServiceTierNames()},
		countDoc("weight", 1, maxTenantWeight, usual.Weight, "The tenant's share where fair_share=on."),
		countDoc("max_concurrent", 0, maxTenantLeases, usual.MaxConcurrent,
			"The most leases that it may have open over all queues; its other jobs wait."),
		countDoc("rate_limit_rps", -1, maxTenantRPS, usual.RateLimitRPS,
			"How many submissions a second it may make over all queues; -1 leaves that to each queue's rate_limit_rps."),
		{Key: "penalty_ms", Alias: "penalty",
			Meaning: "How long its jobs wait at least once it has reached max_concurrent.",
			Values:  "a duration, 0 to " + durationText(maxTenantPenaltyMs), Unit: unitNames[unitMs],
			Most: maxTenantPenaltyMs},
		byteDoc("bytes_max", 0, MaxStateBytes, usual.BytesMax,
			"How many bytes its jobs and workflows may hold; more are refused."),
	}
	zeros := map[string]string{"max_concurrent": "no limit", "rate_limit_rps": "no limit",
		"penalty_ms": "they wait for a lease that ends only",
		"bytes_max":  "no limit"}
	for i, s := range usual.Settings() {
		docs[i].Zero, docs[i].Defaults, docs[i].KeyDefaults = zeros[s.Key], []string{s.Value}, []string{s.Value}
	}
	return docs
}

// Set changes one key: tier=PREMIUM, weight=3, max_concurrent=8, rate_limit_rps=50 (−1 leaves it to each queue),
// penalty_ms=1000 or penalty=1s, bytes_max=67108864 or 64MiB. It rejects unknown keys and values out of range without
// changing anything; the error names key, value and range.
func (l *TenantLimits) Set(s Setting) error {
	key, text := strings.ToLower(strings.TrimSpace(s.Key)), strings.TrimSpace(s.Value)
	changed := *l
	var into *int64
	switch key {
	case "tier":
		if err := changed.Tier.UnmarshalText([]byte(strings.ToUpper(text))); err != nil {
			return unknown("tier", "tier", strings.ToUpper(text), serviceTierNames)
		}
	case "weight":
		into = &changed.Weight
	case "max_concurrent":
		into = &changed.MaxConcurrent
	case "rate_limit_rps":
		into = &changed.RateLimitRPS
	case "penalty_ms", "penalty":
		into, key = &changed.PenaltyMs, "penalty_ms"
	case "bytes_max":
		v, err := parseBytes(key, text, 0, MaxStateBytes)
		if err != nil {
			return err
		}
		changed.BytesMax = v
	default:
		return unknown("key", "tenant key", s.Key, tenantKeys)
	}
	if into != nil {
		v, err := strconv.ParseInt(text, 10, 64)
		if d, durationErr := ParseDuration(text); err != nil && key == "penalty_ms" && durationErr == nil &&
			d%time.Millisecond == 0 {
			v, err = d.Milliseconds(), nil
		}
		want := "a whole number"
		if key == "penalty_ms" {
			want = "a number of milliseconds or a duration such as 5s or 1d12h"
		}
		if err != nil {
			return Refusef(KindInvalid, key, "%s: got %q; use %s", key, shorten(text), want)
		}
		*into = v
	}
	if err := changed.Check(); err != nil {
		return err
	}
	*l = changed
	return nil
}

// Settings returns every key with its value in the form that Set accepts.
func (l TenantLimits) Settings() []Setting {
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	return []Setting{{"tier", l.Tier.String()}, {"weight", number(l.Weight)},
		{"max_concurrent", number(l.MaxConcurrent)},
		{"rate_limit_rps", number(l.RateLimitRPS)}, {"penalty_ms", number(l.PenaltyMs)},
		{"bytes_max", number(l.BytesMax)}}
}
