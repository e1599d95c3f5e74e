package rota

import (
	"strings"
	"testing"
)

// Every closed set of names suggests the likely name, and lists the valid ones.
func TestUnknown_names(t *testing.T) {
	t.Parallel()
	var state JobState
	var mode ClusterMode
	var kind EventKind
	var flow WorkflowState
	policy, limits := StandardPolicy(), DefaultTenantLimits()
	_, presetErr := PresetPolicy("standart")
	for meant, err := range map[string]error{
		"COMPLETED":   state.UnmarshalText([]byte("COMPLETE")),
		"READ_ONLY":   mode.UnmarshalText([]byte("READONLY")),
		"jobDead":     kind.UnmarshalText([]byte("jobdead")),
		"RUNNING":     flow.UnmarshalText([]byte("RUNING")),
		"standard":    presetErr,
		"attempt_max": policy.Set(Setting{"attempts_max", "3"}),
		"fifo":        policy.Set(Setting{"ranking", "fifi"}),
		"weight":      limits.Set(Setting{"wieght", "3"}),
		"PREMIUM":     limits.Set(Setting{"tier", "premum"}),
	} {
		if KindOf(err) != KindInvalid || !strings.Contains(err.Error(), `did you mean "`+meant+`"?`) {
			t.Errorf("%s: %v", meant, err)
		}
	}
	if err := state.UnmarshalText([]byte("SLEEPING")); err == nil || strings.Contains(err.Error(), "did you mean") ||
		!strings.Contains(err.Error(), "one of BLOCKED, ") {
		t.Errorf("nothing near: %v", err)
	}
}
