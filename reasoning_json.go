package rota

import (
	"encoding/json"
	"strconv"
)

// figures are the JSON names of a rule's own fields: the names of the source, if it has any. An affinity also has its
// reason.
var figures = [...]struct{ rule, reason, n, of string }{
	ReasoningNone: {rule: "NONE"}, ReasoningOnlyWorkerAvailable: {rule: "OnlyWorkerAvailable"},
	ReasoningByLeastLoaded: {rule: "LeastLoaded", n: "queue_depth"}, ReasoningByDataLocality: {rule: "Affinity", reason: "DataLocality", n: "data_keys"},
	ReasoningByPreviouslyExecuted: {rule: "Affinity", reason: "PreviouslyExecuted"}, ReasoningBySameZone: {rule: "Affinity", reason: "SameZone"},
	ReasoningByRoundRobin: {rule: "RoundRobin", n: "cursor"}, ReasoningBySeededRandom: {rule: "SeededRandom"},
	ReasoningByResourceFit:   {rule: "ResourceFit", n: "available_cpu", of: "required_cpu"},
	ReasoningBySeededShuffle: {rule: "SeededShuffle", n: "position", of: "of"}, ReasoningByTurnOfTheOldest: {rule: "TurnOfTheOldest"},
	ReasoningByPreemption: {rule: "Preemption", n: "revoked"}, ReasoningBackfilled: {rule: "Backfilled", n: "until_ms", of: "estimate_ms"},
}

// AppendJSON writes the reasoning for a worker as the JSON object that attempts, leases,
// decisions and events carry: the rule and its figures by name, such as
// {"rule":"ResourceFit","worker_id":"w","available_cpu":4000,"required_cpu":500}.
// Without a worker worker_id is left out.
func (r Reasoning) AppendJSON(b []byte, worker WorkerID) []byte {
	if int(r.Rule) >= len(figures) {
		r = Reasoning{}
	}
	f := &figures[r.Rule]
	b = append(append(append(b, `{"rule":"`...), f.rule...), '"')
	if worker != "" {
		b = append(append(append(b, `,"worker_id":"`...), worker...), '"') // an id needs no escapes
	}
	if f.reason != "" {
		b = append(append(append(b, `,"reason":"`...), f.reason...), '"')
	}
	for _, x := range []struct {
		name  string
		value int64
	}{{f.n, r.N}, {f.of, r.Of}} {
		if x.name != "" && (x.value != 0 || r.Rule != ReasoningBackfilled) { // entries of rules version 1 have no estimate
			b = append(append(append(b, ',', '"'), x.name...), '"', ':')
			b = strconv.AppendInt(b, x.value, 10)
		}
	}
	return append(b, '}')
}

// MarshalJSON implements json.Marshaler.
func (r Reasoning) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil, r.worker), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reasoning) UnmarshalJSON(text []byte) error {
	var given map[string]any
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	for rule, f := range figures {
		if given["rule"] != f.rule || f.reason != "" && given["reason"] != f.reason {
			continue
		}
		n, _ := given[f.n].(float64)
		of, _ := given[f.of].(float64)
		*r = Reasoning{Rule: ReasoningRule(rule), N: int64(n), Of: int64(of)}
		return nil
	}
	return Refusef(KindInvalid, "reasoning", "reasoning: unknown rule in %.80q", text)
}
