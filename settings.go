package rota

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The limits of state_bytes_max. A node with 4 GiB holds the default, including the overhead of its rows. Less than the
// minimum makes a cluster useless, and shares of the maximum are far from overflow.
const (
	DefaultStateBytesMax = 1 << 30
	LeastStateBytes      = 1 << 20
	MaxStateBytes        = 1 << 50
)

// The limits of voters_wanted. Fewer than three voters do not survive any loss; more than MaxVoters make every commit
// slower and the cluster no safer.
const (
	LeastVotersWanted = 3
	MaxVoters         = 9
)

// ClusterSettings are the settings that `cluster set` changes.
type ClusterSettings struct {
	// StateBytesMax is the maximum number of bytes of jobs, workflows, workers, queues and tenants (SPEC §4.14).
	StateBytesMax int64 `json:"state_bytes_max"`
	// VotersWanted is the number of healthy voters that the cluster should have (SPEC §13.10). A dead voter is removed
	// once there are this many others. The leader raises it to the number of voters.
	VotersWanted int64 `json:"voters_wanted"`
	// Autopilot reports whether the leader removes dead voters.
	Autopilot bool `json:"autopilot"`
	// ETag is the version of its settings. Pass it to client.IfMatch, or in the header If-Match, to
	// change that version only.
	ETag string `json:"etag,omitempty"`
	// Changes lists what the call would change; only in the answer to a dry run.
	Changes []SettingChange `json:"changes,omitempty"`
}

// Settings returns every key with its value, in the form that Set accepts.
func (c *ClusterSettings) Settings() []Setting {
	return []Setting{{"state_bytes_max", strconv.FormatInt(c.StateBytesMax, 10)},
		{"voters_wanted", strconv.FormatInt(c.VotersWanted, 10)}, {"autopilot", strconv.FormatBool(c.Autopilot)}}
}

// Differences lists the keys whose values differ in other settings.
func (c *ClusterSettings) Differences(to *ClusterSettings) []SettingChange {
	return settingChanges(c.Settings(), to.Settings())
}

// Same reports whether all settings are equal.
func (c *ClusterSettings) Same(o *ClusterSettings) bool {
	return c.StateBytesMax == o.StateBytesMax && c.VotersWanted == o.VotersWanted && c.Autopilot == o.Autopilot
}

// clusterKeys are the keys of the cluster's settings, in the order in which they are shown.
var clusterKeys = []string{"state_bytes_max", "voters_wanted", "autopilot"}

// ClusterKeys lists the keys that ClusterSettings.Set accepts.
func ClusterKeys() []string { return append([]string(nil), clusterKeys...) }

// Docs returns the documentation of the cluster's keys, in the order of ClusterKeys; the settings are
// any.
func (*ClusterSettings) Docs() []PolicyDoc {
	return []PolicyDoc{
		byteDoc("state_bytes_max", LeastStateBytes, MaxStateBytes, DefaultStateBytesMax,
			"How many bytes the jobs, workflows, workers, queues and tenants of the whole cluster may hold; work beyond them is refused."),
		countDoc("voters_wanted", LeastVotersWanted, MaxVoters, LeastVotersWanted,
			"How many healthy voters the cluster shall have: a dead one is removed once there are so many others."),
		{Key: "autopilot", Meaning: "Whether the leader removes dead voters.", Values: "on, off",
			Unit: unitNames[unitBool], Most: 1, Defaults: []string{"on"}, KeyDefaults: []string{"on"}},
	}
}

func countDoc(key string, least, most, usual int64, meaning string) PolicyDoc {
	text := []string{strconv.FormatInt(usual, 10)}
	return PolicyDoc{Key: key, Meaning: meaning, Values: fmt.Sprintf("%d to %d", least, most),
		Unit: unitNames[unitCount], Least: least, Most: most, Defaults: text, KeyDefaults: text}
}

func byteDoc(key string, least, most, usual int64, meaning string) PolicyDoc {
	d := countDoc(key, least, most, usual, meaning)
	d.Values, d.Unit = "bytes, "+d.Values+", or such as 512MiB", unitNames[unitBytes]
	return d
}

// DefaultClusterSettings returns the settings of a cluster whose settings were never changed.
func DefaultClusterSettings() ClusterSettings {
	return ClusterSettings{StateBytesMax: DefaultStateBytesMax, VotersWanted: LeastVotersWanted, Autopilot: true}
}

// Set changes one key: state_bytes_max=2147483648 or 2GiB, voters_wanted=3, autopilot=off. It rejects unknown keys and
// values out of range without changing anything; the error names key, value and range.
func (c *ClusterSettings) Set(s Setting) error {
	switch key := strings.ToLower(strings.TrimSpace(s.Key)); key {
	case "state_bytes_max":
		v, err := parseBytes(key, s.Value, LeastStateBytes, MaxStateBytes)
		if err != nil {
			return err
		}
		c.StateBytesMax = v
	case "voters_wanted":
		v, err := strconv.ParseInt(strings.TrimSpace(s.Value), 10, 64)
		if err != nil || v < LeastVotersWanted || v > MaxVoters {
			return Refusef(KindInvalid, key, "%s must be between %d and %d, got %q", key, LeastVotersWanted, MaxVoters,
				shorten(s.Value))
		}
		c.VotersWanted = v
	case "autopilot":
		on, ok := parseSwitch(strings.TrimSpace(s.Value))
		if !ok {
			return NotOneOf(key, s.Value, "on", "off")
		}
		c.Autopilot = on
	default:
		return unknown("key", "cluster key", s.Key, clusterKeys)
	}
	return nil
}

// parseSwitch parses on and off.
func parseSwitch(text string) (on, ok bool) {
	switch strings.ToLower(text) {
	case "true", "on", "yes", "1":
		return true, true
	case "false", "off", "no", "0":
		return false, true
	}
	return false, false
}

// parseBytes reads a number of bytes, with a unit or without, of least to most.
func parseBytes(key, text string, least, most int64) (int64, error) {
	number, shift := strings.TrimSpace(text), 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number, shift = strings.TrimSpace(rest), 10*(i+1)
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, Malformed(key, text, "use a whole number of bytes, or a value such as 512MiB")
	}
	if v < 0 || v > most>>shift || v<<shift < least {
		return 0, Refusef(KindInvalid, key, "%s must be between %d and %d, got %q", key, least, most, shorten(text))
	}
	return v << shift, nil
}

// sourceName is a name that one of the sources has for a key of a queue. A bare number under one in seconds is of seconds.
type sourceName struct {
	key     string
	seconds bool
}

// sourceNames are in lower case. docs/internals/sources.md lists them.
var sourceNames = map[string]sourceName{
	"renew_alpha": {key: "alpha"}, "renew_beta": {key: "beta"},
	"leases_max_per_provider": {key: "leases_max_per_worker"},
	"ai_secs":                 {"t_lease", true}, "quantum_secs": {"t_lease", true},
	"base_backoff_ai_secs":      {"backoff_base", true},
	"base_backoff_quantum_secs": {"backoff_base", true}, "backoff_cap_secs": {"backoff_cap", true},
	"abs_default_ai_secs":      {"ttl_abs", true},
	"abs_default_quantum_secs": {"ttl_abs", true}, "rel_max_secs": {"ttl_rel_max", true},
	"gc_horizon_secs":    {"gc_horizon", true},
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
