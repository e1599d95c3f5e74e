package rota

import (
	"regexp"
	"slices"
	"strings"
)

// sourceName is a name that one of the sources has for a key of a queue. A bare number under one in seconds is of seconds.
type sourceName struct {
	key     string
	seconds bool
}

// sourceNames are in lower case. docs/internals/sources.md lists them.
var sourceNames = map[string]sourceName{
	"renew_alpha": {key: "alpha"}, "renew_beta": {key: "beta"}, "leases_max_per_provider": {key: "leases_max_per_worker"},
	"ai_secs": {"t_lease", true}, "quantum_secs": {"t_lease", true}, "base_backoff_ai_secs": {"backoff_base", true},
	"base_backoff_quantum_secs": {"backoff_base", true}, "backoff_cap_secs": {"backoff_cap", true}, "abs_default_ai_secs": {"ttl_abs", true},
	"abs_default_quantum_secs": {"ttl_abs", true}, "rel_max_secs": {"ttl_rel_max", true}, "gc_horizon_secs": {"gc_horizon", true},
	"ai_units_per_epoch": {key: "units_per_period"}, "quantum_units_per_epoch": {key: "units_per_period"},
	"schedulerqueuecap": {key: "queue_cap"}, "agingfactorseconds": {"aging_factor", true},
	"domainfailurethreshold": {key: "domain_failure_threshold"}, "tenantratelimit": {key: "rate_limit_rps"},
	"numpriorities": {key: "tiers"}, "maxaging": {key: "max_aging"}, "balance_strategy": {key: "strategy"},
}

// sourceSections are the sections of AICF's file of parameters.
var sourceSections = []string{"queue", "lease", "retries", "quotas", "ttl"}

var decimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,3})?$`)

// sourceStrategies are the DAG's names of strategies, in lower case.
var sourceStrategies = map[string]string{"roundrobin": "round_robin", "leastloaded": "least_loaded"}

// Canonical returns the setting of a queue under rota's own name where it has one that a source uses, such as
// AgingFactorSeconds for aging_factor. Any other is returned as it is.
func (s Setting) Canonical() Setting {
	name := strings.ToLower(strings.TrimSpace(s.Key))
	// AICF files its parameters by section, such as lease.ai_secs.
	if section, bare, filed := strings.Cut(name, "."); filed && slices.Contains(sourceSections, section) {
		name = bare
	}
	own, known := sourceNames[name]
	if !known {
		return s
	}
	value := strings.TrimSpace(s.Value)
	if own.seconds {
		if decimal.MatchString(value) {
			value += "s"
		}
	}
	if strategy, is := sourceStrategies[strings.ToLower(value)]; is && own.key == "strategy" {
		value = strategy
	}
	return Setting{Key: own.key, Value: value}
}
