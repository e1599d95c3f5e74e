package rota

import (
	"os"
	"strings"
	"testing"
)

// sourced lists the constants of the sources, by their row in docs/internals/sources.md: the preset that has each, its
// key, and its value as the key stores it.
var sourced = []struct {
	row, preset, key string
	value            int64
}{
	{"AICF-3", "aicf-ai", "w_fee_ppm", 550_000}, {"AICF-3", "aicf-ai", "w_age_ppm", 250_000},
	{"AICF-3", "aicf-ai", "w_size_ppm", 100_000}, {"AICF-3", "aicf-ai", "w_tier_ppm", 100_000},
	{"AICF-9", "aicf-ai", "lease_ms", 600_000}, {"AICF-9", "aicf-quantum", "lease_ms", 180_000},
	{"AICF-9", "aicf-ai", "renew_alpha_permille", 600}, {"AICF-9", "aicf-quantum", "renew_alpha_permille", 600},
	{"AICF-12", "aicf-ai", "ack_timeout_ms", 5_000}, {"AICF-11", "aicf-ai", "renew_beta_permille", 500},
	{"AICF-11", "aicf-ai", "renewals_max", 4}, {"AICF-14", "aicf-ai", "attempt_max", 6},
	{"AICF-15", "aicf-ai", "backoff_base_ms", 5_000}, {"AICF-15", "aicf-quantum", "backoff_base_ms", 2_000},
	{"AICF-15", "aicf-ai", "backoff_factor_permille", 2_000}, {"AICF-15", "aicf-ai", "backoff_cap_ms", 900_000},
	{"AICF-15", "aicf-ai", "backoff_jitter_permille", 100}, {"AICF-15", "aicf-ai", "backoff_unit_ms", 1_000},
	{"AICF-17", "aicf-ai", "ttl_abs_ms", 86_400_000}, {"AICF-17", "aicf-quantum", "ttl_abs_ms", 7_200_000},
	{"AICF-17", "aicf-ai", "ttl_rel_max_ms", 21_600_000}, {"AICF-17", "aicf-ai", "gc_horizon_ms", 604_800_000},
	{"AICF-5", "aicf-ai", "leases_max_per_worker", 16}, {"AICF-19", "aicf-ai", "starvation_interleave", 20},
	{"AICF-23", "aicf-ai", "batch_size", 256}, {"AICF-23", "aicf-ai", "dispatch_interval_ms", 250},
	{"AICF-23", "aicf-ai", "ack_timeout_ms", 5_000}, {"AICF-23", "aicf-ai", "renew_alpha_permille", 600},
	{"AICF-23", "aicf-ai", "renew_beta_permille", 500}, {"AICF-23", "aicf-ai", "renewals_max", 4},
	{"AICF-23", "aicf-ai", "attempt_max", 6}, {"AICF-23", "aicf-ai", "backoff_factor_permille", 2_000},
	{"AICF-23", "aicf-ai", "units_per_period", 100_000}, {"AICF-23", "aicf-quantum", "units_per_period", 10_000},
	{"DFPS-S-2", "dfps", "epsilon", 2_000}, {"DFPS-S-4", "dfps", "n_min", 50}, {"DFPS-S-5", "dfps", "w_min", 100},
	{"DFPS-S-5", "dfps", "w_max", 1_500}, {"DFPS-S-6", "dfps", "base_0", 100_000},
	{"DFPS-S-6", "dfps", "base_1", 10_000}, {"DFPS-S-6", "dfps", "base_2", 2_000},
	{"DFPS-S-6", "dfps", "base_3", 1_000}, {"DFPS-S-6", "dfps", "base_4", 500},
	{"DFPS-S-6", "dfps", "max_aging", 3_000}, {"DFPS-S-7", "dfps", "quota_0", 20}, {"DFPS-S-7", "dfps", "quota_1", 15},
	{"DFPS-S-7", "dfps", "quota_2", 10}, {"DFPS-S-7", "dfps", "quota_3", 5},
	{"DFPS-R-13", "dfps", "dispatch_interval_ms", 100}, {"FF-6", "fluxforge", "dispatch_interval_ms", 200},
	{"FF-8", "fluxforge", "min_health", 300}, {"DFPS-R-13", "dfps", "batch_size", 5_000},
	{"DAG-8", "dag", "prefetch_max", 10}, {"FF-5", "fluxforge", "aging_factor_ms", 10_000},
	{"FF-11", "fluxforge", "queue_cap", 1_000}, {"FF-11", "fluxforge", "aging_factor_ms", 10_000},
	{"FF-11", "fluxforge", "domain_failure_threshold_permille", 300}, {"FF-11", "fluxforge", "rate_limit_rps", 50},
}

// sourceFaults returns the rows whose constants presets lack.
func sourceFaults(preset func(name string) QueuePolicy) (rows []string) {
	for _, c := range sourced {
		p := preset(c.preset)
		for i := range policyKeys {
			if k := &policyKeys[i]; k.name == c.key && k.get(&p) == c.value {
				c.key = ""
			}
		}
		if c.key != "" {
			rows = append(rows, c.row+" "+c.preset+" "+c.key)
		}
	}
	return rows
}

// TestPresets_ofTheSources checks that presets have the constants in their sources, that changing any by one step is
// detected, and that the page of the sources cites this test in each row.
func TestPresets_ofTheSources(t *testing.T) {
	t.Parallel()
	of := func(name string) QueuePolicy {
		p, err := PresetPolicy(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, fault := range sourceFaults(of) {
		t.Errorf("%s differs from its source", fault)
	}
	page, err := os.ReadFile("docs/internals/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range sourced {
		mutated := func(name string) QueuePolicy {
			p := of(name)
			for i := range policyKeys {
				if k := &policyKeys[i]; name == c.preset && k.name == c.key {
					k.set(&p, k.get(&p)+1)
				}
			}
			return p
		}
		if faults := strings.Join(sourceFaults(mutated), "; "); !strings.Contains(faults,
			c.row+" "+c.preset+" "+c.key) {
			t.Errorf("%s: %s of %s may change unseen", c.row, c.key, c.preset)
		}
		if !strings.Contains(string(page), "\n| "+c.row+" |") {
			t.Errorf("docs/internals/sources.md has no row %s", c.row)
		}
	}
}
