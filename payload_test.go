package rota

import (
	"encoding/json"
	"testing"
)

// TestPayloadTakesJSON checks the payloads that people write: text, bytes, or JSON that stays as written except for the
// spaces in between.
func TestPayloadTakesJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"text"`:                       "text",
		`{"base64":"AAE="}`:            "\x00\x01",
		`{"base64":""}`:                "",
		`{ "b": 1.50,"a":[1, "< >"] }`: `{"b":1.50,"a":[1,"< >"]}`,
		`[1,2]`:                        "[1,2]",
		`12345678901234567890.0`:       "12345678901234567890.0",
		`true`:                         "true",
		`{"base64":"AAE=","x":1}`:      `{"base64":"AAE=","x":1}`,
		`{}`:                           "{}",
		`"{\"base64\":1}"`:             `{"base64":1}`,
	} {
		var s JobSpec
		if err := json.Unmarshal([]byte(`{"payload":`+text+`}`), &s); err != nil || string(s.Payload) != want {
			t.Errorf("%s: got %q, %v; want %q", text, s.Payload, err, want)
		}
	}
	for _, text := range []string{`{"base64":1}`, `{"base64":"?"}`, `{"base64":null}`} {
		var b Blob
		if err := json.Unmarshal([]byte(text), &b); KindOf(err) != KindInvalid {
			t.Errorf("%s is %q, %v", text, b, err)
		}
	}
}

// TestReasoningByName compares the figures of every rule with the names of the source.
func TestReasoningByName(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Reasoning{
		`{"rule":"OnlyWorkerAvailable","worker_id":"w"}`:         {Rule: ReasoningOnlyWorkerAvailable},
		`{"rule":"LeastLoaded","worker_id":"w","queue_depth":3}`: {Rule: ReasoningByLeastLoaded, N: 3},
		`{"rule":"ResourceFit","worker_id":"w","available_cpu":4000,"required_cpu":500}`: {Rule: ReasoningByResourceFit,
			N: 4000, Of: 500},
		`{"rule":"Affinity","worker_id":"w","reason":"DataLocality","data_keys":2}`: {Rule: ReasoningByDataLocality,
			N: 2},
		`{"rule":"Affinity","worker_id":"w","reason":"PreviouslyExecuted"}`: {Rule: ReasoningByPreviouslyExecuted},
		`{"rule":"Affinity","worker_id":"w","reason":"SameZone"}`:           {Rule: ReasoningBySameZone},
		`{"rule":"RoundRobin","worker_id":"w","cursor":7}`:                  {Rule: ReasoningByRoundRobin, N: 7},
		`{"rule":"SeededShuffle","worker_id":"w","position":0,"of":5}`:      {Rule: ReasoningBySeededShuffle, Of: 5},
		`{"rule":"TurnOfTheOldest","worker_id":"w"}`:                        {Rule: ReasoningByTurnOfTheOldest},
		`{"rule":"Preemption","worker_id":"w","revoked":1}`:                 {Rule: ReasoningByPreemption, N: 1},
	} {
		for _, of := range []any{Attempt{Worker: "w", Decision: Decision{Reasoning: r}},
			Lease{Worker: "w", Decision: Decision{Reasoning: r}}} {
			var shown struct {
				Decision struct{ Reasoning json.RawMessage }
			}
			text, err := json.Marshal(of)
			if err != nil || json.Unmarshal(text, &shown) != nil || string(shown.Decision.Reasoning) != want {
				t.Errorf("%T shows %s, %v; want %s", of, shown.Decision.Reasoning, err, want)
			}
		}
		var placed struct{ Reasoning json.RawMessage }
		text, err := json.Marshal(PlacedDecision{Worker: "w", Decision: Decision{Reasoning: r}})
		if err != nil || json.Unmarshal(text, &placed) != nil || string(placed.Reasoning) != want {
			t.Errorf("a decision shows %s, %v; want %s", placed.Reasoning, err, want)
		}
		var back Reasoning
		if err := json.Unmarshal([]byte(want), &back); err != nil || back != r {
			t.Errorf("%s came back as %+v, %v", want, back, err)
		}
	}
	if len(figures) != len(reasoningNames) {
		t.Errorf("%d rules have figures, there are %d", len(figures), len(reasoningNames))
	}
}
