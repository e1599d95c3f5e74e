package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
)

// TestPresets_goByRules sets presets under each rules version: those of version 1 stay as released, and a queue that
// has one keeps it when newer rules come.
func TestPresets_goByRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(presetOp("stayed", "dfps"))
	b.ok(presetOp("forged", "fluxforge"))
	of := func(q rota.QueueName) rota.QueuePolicy { return b.QueueTable.Get(q).Policy }
	if p := of("stayed"); p.OldestEvery != 20 || p.DispatchIntervalMs != 250 {
		t.Errorf("dfps under rules version 1: %+v", p)
	}
	if p := of("forged"); p.OldestEvery != 20 || p.DispatchIntervalMs != 250 || p.HealthSteps || p.MinHealth != 0 ||
		p.HealthProviderFail != 0 {
		t.Errorf("fluxforge under rules version 1: %+v", p)
	}
	b.refuses(rota.KindConflict, "rules_version", queueOp("stayed", "health_provider_fail", "1"))
	b.ok(switchOp(entry.RulesVersion))
	b.ok(presetOp("new", "dfps"))
	b.ok(presetOp("forged", "fluxforge"))
	if p := of("stayed"); p.OldestEvery != 20 {
		t.Errorf("the rules changed a queue: %+v", p)
	}
	if p := of("new"); p.OldestEvery != 0 || p.DispatchIntervalMs != 100 {
		t.Errorf("dfps under rules version 2: %+v", p)
	}
	if p := of("forged"); p.OldestEvery != 0 || p.DispatchIntervalMs != 200 || !p.HealthSteps || p.MinHealth != 300 ||
		p.HealthProviderFail != 100 {
		t.Errorf("fluxforge under rules version 2: %+v", p)
	}
	b.ok(presetOp("ties", "dag"))
	if p := of("ties"); !p.Unseeded {
		t.Errorf("dag under rules version 2: %+v", p)
	}
	b.sound()
}

// TestRound_large has one round assign everything that batch_size allows, beyond the usual limit of an entry.
func TestRound_large(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindConflict, "rules_version", queueOp("default", "batch_size", "1001"))
	b.ok(switchOp(entry.RulesVersion))
	b.refuses(rota.KindInvalid, "batch_size", queueOp("default", "batch_size", "5001"))
	b.ok(queueOp("default", "batch_size", "1500", "oldest_every", "0"))
	b.worker("w", 2_000)
	for i := range 1_600 {
		b.submit(fmt.Sprint("j", i))
	}
	if n := len(b.match()); n != 1_500 {
		t.Fatalf("a round assigns %d jobs", n)
	}
	b.sound()
}

// TestHealth_failedAttempts lets only failures move a worker below min_health: it gets no further jobs until it has
// recovered.
func TestHealth_failedAttempts(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	b.ok(presetOp("default", "fluxforge", "backoff_base", "0", "attempt_max", "100", "rate_limit_rps", "0",
		"domain_failure_threshold", "1"))
	b.worker("w", 1)
	b.submit("j")
	fails := 0
	for ; ; fails++ {
		l, ok := b.match()["j"]
		if !ok {
			break
		}
		b.ok(verb(rota.VerbAck, l))
		b.ok(verb(rota.VerbFail, l))
	}
	if _, why := b.whyOf("j"); fails != 8 || why != "HEALTH_TOO_LOW:1" { // 1000 - 8*100 < 300
		t.Fatalf("after %d failures job j waits for %s", fails, why)
	}
	b.pass(100_000) // 1 a second
	if _, ok := b.match()["j"]; !ok {
		t.Fatal("the worker has recovered and gets no job")
	}
	b.sound()
}
