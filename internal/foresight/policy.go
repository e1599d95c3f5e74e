package foresight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/nearest"
)

// Policy is a queue's settings under a name.
type Policy struct {
	Name     string
	Settings []rota.Setting
}

// bare are the settings that a policy begins with: no fair share, turn of the oldest, hold, preemption or aging.
var bare = []rota.Setting{
	{Key: "fair_share", Value: "off"}, {Key: "oldest_every", Value: "0"},
	{Key: "hold_after_ms", Value: fmt.Sprint(longest)},
	{Key: "preempt", Value: "off"}, {Key: "estimate", Value: "user"}, {Key: "ranking", Value: "fifo"},
	{Key: "shortest_aging", Value: "0"},
}

// lasting are the settings of every simulated queue: leases outlast any run, nothing is refused, and ended jobs are
// soon deleted. No policy may change them.
var lasting = []rota.Setting{
	{Key: "lease_ms", Value: fmt.Sprint(longest)}, {Key: "ack_timeout_ms", Value: fmt.Sprint(ackTimeout)},
	{Key: "queue_cap", Value: "100000000"}, {Key: "reject_threshold_permille", Value: "0"},
	{Key: "max_queue_size", Value: "0"}, {Key: "rate_limit_rps", Value: "0"}, {Key: "max_runtime_ms", Value: "0"},
	{Key: "audit_window_ms", Value: "0"}, {Key: "gc_horizon_ms", Value: fmt.Sprint(rota.GCHorizonLeast)},
	{Key: "paused", Value: "off"},
}

// unbounded are the settings removed from a preset unless the policy names them: no time to live.
var unbounded = []rota.Setting{{Key: "ttl_abs_ms", Value: "0"}, {Key: "ttl_rel_max_ms", Value: "0"}}

// ParsePolicy parses NAME:key=value,… where preset=NAME begins with a preset instead of the bare settings; usual are
// settings of both. It refuses a policy that no queue can have.
func ParsePolicy(text string, usual ...rota.Setting) (Policy, error) {
	name, rest, ok := strings.Cut(text, ":")
	if !ok || name == "" {
		return Policy{}, rota.Refusef(rota.KindInvalid, "policy", "policy: got %q; use NAME:key=value,…", text)
	}
	p := Policy{Name: name}
	preset, own, err := p.parse(rest)
	if err != nil {
		return p, err
	}
	queue := rota.StandardPolicy()
	begin := bare
	if preset != "" {
		if queue, err = rota.PresetPolicy(preset); err != nil {
			return p, err
		}
		begin = queue.Settings()
	}
	p.Settings = slices.Concat(begin, usual, lasting, unbounded)
	for _, s := range p.Settings {
		if err := queue.Set(s); err != nil {
			return p, fmt.Errorf("policy %s: %w", name, err)
		}
	}
	fixed := queue
	for i, s := range own {
		s = s.Canonical()
		own[i] = s
		if err := cmp.Or(s.CheckUnit(), queue.Set(s)); err != nil {
			return p, fmt.Errorf("policy %s: %w", name, err)
		}
		for _, d := range fixed.Differences(&queue) {
			if slices.ContainsFunc(lasting, func(l rota.Setting) bool { return l.Key == d.Key }) {
				return p, rota.Refusef(rota.KindInvalid, s.Key,
					"policy %s: %s=%s is refused: every simulated queue has %s=%s", name, s.Key, s.Value, d.Key, d.From)
			}
		}
	}
	p.Settings = append(p.Settings, own...)
	if err := queue.Check(); err != nil {
		return p, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}

// parse parses key=value,….
func (p *Policy) parse(text string) (preset string, own []rota.Setting, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			return "", nil, rota.Refusef(rota.KindInvalid, "policy", "policy %s: got %q; use key=value", p.Name, part)
		case key == "preset":
			preset = value
		case nearest.Name(key, append(rota.PolicyKeys(), "preset")) == "preset":
			return "", nil, rota.Refusef(rota.KindInvalid, "key", "policy %s: unknown key %q: did you mean \"preset\"?",
				p.Name, key)
		default:
			own = append(own, rota.Setting{Key: key, Value: value})
		}
	}
	return preset, own, nil
}
