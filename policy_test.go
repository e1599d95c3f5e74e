package rota

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestPolicySet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		read       func(*QueuePolicy) int64
		want       int64
	}{
		{"lease_ms", "61000", func(p *QueuePolicy) int64 { return p.LeaseMs }, 61_000},
		{"T_lease", "61s", func(p *QueuePolicy) int64 { return p.LeaseMs }, 61_000},
		{"ack_timeout", "2s", func(p *QueuePolicy) int64 { return p.AckTimeoutMs }, 2_000},
		{"alpha", "0.5", func(p *QueuePolicy) int64 { return p.RenewAlphaPermille }, 500},
		{"reject_threshold", "0.75", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 750},
		{"renewals_max", "-1", func(p *QueuePolicy) int64 { return p.RenewalsMax }, -1},
		{"ranking", "market", func(p *QueuePolicy) int64 { return int64(p.Ranking) }, int64(RankMarket)},
		{"w_fee", "0.25", func(p *QueuePolicy) int64 { return p.WFee }, 250_000},
		{"w_fee_ppm", "250000", func(p *QueuePolicy) int64 { return p.WFee }, 250_000},
		{"w_fee", "1", func(p *QueuePolicy) int64 { return p.WFee }, 1_000_000},
		{"reject_threshold", "1", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 1_000},
		{"reject_threshold", "1.0", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 1_000},
		{"reject_threshold", ".25", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 250},
		{"reject_threshold", "0", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 0},
		{"reject_threshold_permille", "1", func(p *QueuePolicy) int64 { return p.RejectThresholdPermille }, 1},
		{"beta", "1", func(p *QueuePolicy) int64 { return p.RenewBetaPermille }, 1_000},
		{"alpha_permille", "1", func(p *QueuePolicy) int64 { return p.RenewAlphaPermille }, 1},
		{"backoff_factor", "2", func(p *QueuePolicy) int64 { return p.BackoffFactorPermille }, 2_000},
		{"backoff_factor", "1.50", func(p *QueuePolicy) int64 { return p.BackoffFactorPermille }, 1_500},
		{"domain_failure_threshold", "0", func(p *QueuePolicy) int64 { return p.DomainFailureThresholdPermille }, 0},
	} {
		p := StandardPolicy()
		if err := p.Set(Setting{c.key, c.value}); err != nil || c.read(&p) != c.want {
			t.Errorf("%s=%s: got %d, %v; want %d", c.key, c.value, c.read(&p), err, c.want)
		}
	}
	for _, c := range []struct{ key, value, names string }{
		{"no_such_key", "1", "lease_ms"},
		{"lease_ms", "0", "100 to"},
		{"lease_ms", "99999999999999999999", "milliseconds"},
		{"ranking", "best", "market"},
		{"reject_threshold", "NaN", "ratio"},
		{"reject_threshold", "1.5", "0 to 1 "},
		{"reject_threshold", "900", "0 to 1 "},
		{"reject_threshold", "0.0001", "3 decimals"},
		{"reject_threshold", "-0.1", "ratio"},
		{"reject_threshold", "1e-1", "ratio"},
		{"reject_threshold", ".", "ratio"},
		{"reject_threshold", "", "ratio"},
		{"reject_threshold", "1.0.0", "ratio"},
		{"reject_threshold_permille", "0.9", "or set reject_threshold to a ratio"},
		{"backoff_factor", "2000", "1 to 1000 "},
		{"backoff_factor", "0.5", "1 to 1000 "},
		{"alpha", "0", "0.001 to 1 "},
		{"w_fee", "550000", "0 to 1 "},
		{"w_fee_ppm", "0.25", "or set w_fee to a ratio"},
		{"min_health", "0.3", "whole number"},
		{"paused", "perhaps", "on or off"},
		{"queue_cap", "1e3", "whole number"},
		{"max_runtime", "500us", "whole milliseconds"},
		{"ttl_abs_ms", "-0.9ms", "whole milliseconds"},
	} {
		p := StandardPolicy()
		err := p.Set(Setting{c.key, c.value})
		if KindOf(err) != KindInvalid || !strings.Contains(err.Error(), c.names) || p != StandardPolicy() {
			t.Errorf("%s=%s: got %v, want a refusal that names %q and changes nothing", c.key, c.value, err, c.names)
		}
	}
}

func TestPolicyKeepsEveryKey(t *testing.T) {
	t.Parallel()
	for _, preset := range Presets {
		p, err := PresetPolicy(preset)
		if err != nil || p.Check() != nil || p.Preset != preset {
			t.Fatalf("preset %s: %v, %v", preset, err, p.Check())
		}
		// Every number differs from the preset's, within its range, and there are as many tiers as there are keys for.
		p.setTiers(MaxTiers - 1)
		for i := range policyKeys {
			k := &policyKeys[i]
			if v := k.get(&p); v < k.max && k.unit != unitChoice && k.unit != unitPPM {
				k.set(&p, v+1)
			}
			switch k.name {
			case "max_runtime_ms":
				k.set(&p, int64(MaxRuntimeLeast))
			case "lease_grace_on_disconnect_ms":
				k.set(&p, int64(GraceLeast))
			}
		}
		again, err := PolicyFromValues(p.Preset, p.Values())
		if err != nil || again != p {
			t.Errorf("preset %s: stored values give another policy: %v", preset, err)
		}
		for _, n := range []int{0, frozenKeys - 1, len(policyKeys) + 1} {
			if _, err := PolicyFromValues(p.Preset, append(p.Values(), 1)[:n]); err == nil {
				t.Errorf("preset %s: %d values of %d are set", preset, n, len(policyKeys))
			}
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var read QueuePolicy
		if err := json.Unmarshal(text, &read); err != nil || read != p {
			t.Errorf("preset %s: JSON gives another policy: %v", preset, err)
		}
	}
	if _, err := PresetPolicy("best"); KindOf(err) != KindInvalid || !strings.Contains(err.Error(), "aicf-ai") {
		t.Errorf("an unknown preset: %v", err)
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	ai, _ := PresetPolicy("aicf-ai")
	quantum, _ := PresetPolicy("aicf-quantum")
	standard := StandardPolicy()
	got := []int64{standard.LeaseMs, standard.RenewalsMax, standard.QueueCap, standard.OldestEvery,
		standard.BackoffUnitMs,
		ai.LeaseMs, ai.RenewalsMax, ai.BackoffBaseMs, ai.TTLAbsMs, ai.TTLRelMaxMs, ai.LeasesMaxPerWorker,
		ai.UnitsPerPeriod, ai.StarvationInterleave, ai.OldestEvery, ai.BackoffUnitMs,
		quantum.LeaseMs, quantum.BackoffBaseMs, quantum.TTLAbsMs, quantum.UnitsPerPeriod}
	want := []int64{60_000, -1, 1_000_000, 20, 1,
		600_000, 4, 5_000, 86_400_000, 21_600_000, 16, 100_000, 20, 0, 1_000,
		180_000, 2_000, 7_200_000, 10_000}
	if !slices.Equal(got, want) {
		t.Errorf("presets: got\n%v, want as in SPEC §14\n%v", got, want)
	}
	if !standard.FairShare || ai.FairShare || ai.Ranking != RankMarket || ai.Strategy != StrategyShuffle {
		t.Error("fair share, ranking or strategy of a preset is not that of SPEC §14")
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*QueuePolicy){
		"weights beyond one":        func(p *QueuePolicy) { p.WFee++ },
		"ack later than the lease":  func(p *QueuePolicy) { p.AckTimeoutMs = p.LeaseMs + 1 },
		"a number out of its range": func(p *QueuePolicy) { p.Weight = 0 },
		"no horizon":                func(p *QueuePolicy) { p.GCHorizonMs, p.AuditWindowMs = 0, 0 },
		"reports on the forgotten":  func(p *QueuePolicy) { p.GCHorizonMs = p.AuditWindowMs - 1 },
	} {
		p := StandardPolicy()
		change(&p)
		if KindOf(p.Check()) != KindInvalid {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestPolicyJSONKeepsEveryBit checks figures larger than a double holds.
func TestPolicyJSONKeepsEveryBit(t *testing.T) {
	t.Parallel()
	p := StandardPolicy()
	p.UnitsPerPeriod, p.MinStake = 1<<60+1, MaxFee-1
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back QueuePolicy
	if err := json.Unmarshal(text, &back); err != nil || back != p {
		t.Fatalf("units_per_period %d, min_stake %d, %v", back.UnitsPerPeriod, back.MinStake, err)
	}
}

// FuzzPolicySet sets any key to any text: it is rejected and changes nothing, or gives a value in its range that
// Settings formats so that Set reads the same value.
func FuzzPolicySet(f *testing.F) {
	for _, s := range []Setting{{"reject_threshold", "0.9"}, {"w_fee", "1"}, {"lease", "1h"}, {"alpha", "0.000"},
		{"beta", "1e9"},
		{"backoff_factor", "1000.000"}, {"w_age_ppm", "-1"}, {"paused", "on"}, {"ranking", "FIFO"}, {"alpha", "٣"}} {
		f.Add(s.Key, s.Value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		p := StandardPolicy()
		if err := p.Set(Setting{name, value}); err != nil {
			if KindOf(err) != KindInvalid || p != StandardPolicy() {
				t.Fatalf("%s=%q: %v, and the policy is %+v", name, value, err, p)
			}
			return
		}
		again := StandardPolicy()
		for _, s := range p.Settings() {
			if err := again.Set(s); err != nil {
				t.Fatalf("%s=%q is refused after %s=%q: %v", s.Key, s.Value, name, value, err)
			}
		}
		if again != p {
			t.Fatalf("%s=%q: settings give %+v, not %+v", name, value, again, p)
		}
	})
}

// TestPolicyRoundTrips sets every key of every preset to both ends of its range, and checks that its settings give the
// same policy, also under the name that accepts ratios.
func TestPolicyRoundTrips(t *testing.T) {
	t.Parallel()
	for _, preset := range Presets {
		for i := range policyKeys {
			k := &policyKeys[i]
			for _, v := range []int64{k.min, k.max, (k.min + k.max) / 2} {
				p, _ := PresetPolicy(preset)
				k.set(&p, v)
				again := StandardPolicy()
				again.Preset = preset
				for _, s := range p.Settings() {
					if err := again.Set(s); err != nil {
						t.Fatalf("%s=%q: %v", s.Key, s.Value, err)
					}
				}
				if again != p {
					t.Fatalf("%s=%d: settings give %+v, not %+v", k.name, v, again, p)
				}
				if scale := k.scale(); scale != 0 {
					again := p
					k.set(&again, k.min)
					if err := again.Set(Setting{k.alias, ratioText(v, scale)}); err != nil || again != p {
						t.Fatalf("%s=%s: got %v, want %d", k.alias, ratioText(v, scale), err, v)
					}
				}
			}
		}
	}
}

// TestSettingDocs checks the documentation of the keys of tenants and of the cluster: each key that Set accepts is
// documented, its default is the value when unset, and Set accepts exactly its range.
func TestSettingDocs(t *testing.T) {
	t.Parallel()
	tenant, cluster := DefaultTenantLimits(), DefaultClusterSettings()
	for _, of := range []struct {
		docs []PolicyDoc
		keys []string
		set  func(Setting) error
		same func() bool
	}{
		{tenant.Docs(), TenantKeys(), tenant.Set, func() bool { return tenant == DefaultTenantLimits() }},
		{cluster.Docs(), ClusterKeys(), cluster.Set,
			func() bool { usual := DefaultClusterSettings(); return cluster.Same(&usual) }},
	} {
		var keys []string
		for _, d := range of.docs {
			keys = append(keys, d.Key)
			if err := of.set(Setting{d.Key, d.Defaults[0]}); err != nil || !of.same() {
				t.Errorf("%s=%s is documented as the default: %v", d.Key, d.Defaults[0], err)
			}
			for _, choice := range d.Choices {
				if err := of.set(Setting{d.Key, choice}); err != nil {
					t.Errorf("%s=%s is documented but refused: %v", d.Key, choice, err)
				}
			}
			if d.Choices == nil && d.Unit != "switch" {
				for value, taken := range map[int64]bool{d.Least - 1: false, d.Least: true, d.Most: true,
					d.Most + 1: false} {
					if err := of.set(Setting{d.Key, strconv.FormatInt(value, 10)}); (err == nil) != taken {
						t.Errorf("%s=%d with a range of %d to %d: %v", d.Key, value, d.Least, d.Most, err)
					}
				}
			}
			if err := of.set(Setting{cmp.Or(d.Alias, d.Key), d.Defaults[0]}); err != nil || !of.same() {
				t.Errorf("%s is documented as %s too, and %s as no default: %v", d.Key, d.Alias, d.Defaults[0], err)
			}
		}
		if !slices.Equal(keys, of.keys) {
			t.Errorf("documented are %v, accepted %v", keys, of.keys)
		}
	}
}

// TestPolicyDocs checks that every documented default is correct.
func TestPolicyDocs(t *testing.T) {
	t.Parallel()
	for i, preset := range Presets {
		want, _ := PresetPolicy(preset)
		p, byKey := StandardPolicy(), StandardPolicy()
		p.Preset, byKey.Preset = preset, preset
		for _, d := range PolicyDocs() {
			name := d.Key
			if d.Alias != "" {
				name = d.Alias
			}
			if err := p.Set(Setting{name, d.Defaults[i]}); err != nil {
				t.Errorf("%s: %s=%s is documented but refused: %v", preset, name, d.Defaults[i], err)
			}
			if err := byKey.Set(Setting{d.Key, d.KeyDefaults[i]}); err != nil {
				t.Errorf("%s: %s=%s is documented but refused: %v", preset, d.Key, d.KeyDefaults[i], err)
			}
		}
		if p != want || byKey != want {
			t.Errorf("%s: the documented values give %+v, its keys %+v, want %+v", preset, p, byKey, want)
		}
	}
}
