package rota

import (
	"encoding/json"
	"strconv"
	"time"
)

// WhyQuery selects the state on which a job is explained: the current one, or the one at an index or at a moment.
type WhyQuery struct {
	At     Index
	AtDate Date
	// Others requests the other workers considered when the job was placed, which requires a replay of the log.
	Others bool
}

// Past is what reading a past state costs the node that answers.
type Past struct {
	Index Index `json:"index"`
	// From is the index of the state to start from, Entries the number of log entries to replay.
	From    Index `json:"from"`
	Entries int64 `json:"entries"`
}

// ParsePast reads an index of the past, or a moment in RFC 3339.
func ParsePast(text string) (WhyQuery, error) {
	if index, err := strconv.ParseUint(text, 10, 64); err == nil {
		return WhyQuery{At: Index(index)}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.UnixMilli() <= 0 {
		return WhyQuery{}, Refusef(KindInvalid, "at",
			"invalid moment %q: use an index such as 48112, or a date such as 2026-11-25T15:04:05Z", shorten(text))
	}
	return WhyQuery{AtDate: DateOf(at)}, nil
}

// figures are the JSON names of a rule's own fields: the names of the source, if it has any. An affinity also has its
// reason.
var figures = [...]struct{ rule, reason, n, of string }{
	ReasoningNone: {rule: "NONE"}, ReasoningOnlyWorkerAvailable: {rule: "OnlyWorkerAvailable"},
	ReasoningByLeastLoaded:        {rule: "LeastLoaded", n: "queue_depth"},
	ReasoningByDataLocality:       {rule: "Affinity", reason: "DataLocality", n: "data_keys"},
	ReasoningByPreviouslyExecuted: {rule: "Affinity", reason: "PreviouslyExecuted"},
	ReasoningBySameZone:           {rule: "Affinity", reason: "SameZone"},
	ReasoningByRoundRobin:         {rule: "RoundRobin", n: "cursor"}, ReasoningBySeededRandom: {rule: "SeededRandom"},
	ReasoningByResourceFit:     {rule: "ResourceFit", n: "available_cpu", of: "required_cpu"},
	ReasoningBySeededShuffle:   {rule: "SeededShuffle", n: "position", of: "of"},
	ReasoningByTurnOfTheOldest: {rule: "TurnOfTheOldest"},
	ReasoningByPreemption:      {rule: "Preemption", n: "revoked"},
	ReasoningBackfilled:        {rule: "Backfilled", n: "until_ms", of: "estimate_ms"},
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
		if x.name != "" && (x.value != 0 ||
			r.Rule != ReasoningBackfilled) { // entries of rules version 1 have no estimate
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

// ETA is the answer of `job eta`: when a job should start (SPEC §29).
type ETA struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Index, Clock and Date are those of the state that the forecast started from.
	Index Index `json:"index"`
	Clock Clock `json:"clock_ms"`
	Date  Date  `json:"date_ms"`
	// Started is when the newest attempt of a running or ended job began; 0 if there was none.
	Started Date `json:"started_ms,omitempty"`
	// Expected is when a pending job should start; at least 9 of 10 such jobs start between Earliest and Latest. All
	// are 0 if no date is known: see Reasons and WouldRun.
	Expected Date `json:"expected_start_ms,omitempty"`
	Earliest Date `json:"earliest_start_ms,omitempty"`
	Latest   Date `json:"latest_start_ms,omitempty"`
	// HangsOn lists what the job waits for and the caller may read.
	HangsOn []HangsOn `json:"hangs_on,omitempty"`
	// Basis describes the data from which the dates were calculated.
	Basis    []string `json:"basis,omitempty"`
	Reasons  []Why    `json:"reasons,omitempty"`
	WouldRun []string `json:"would_run_if,omitempty"`
}

// HangsOn counts the jobs of a tenant that run before another job and that the caller may read.
type HangsOn struct {
	Tenant TenantID `json:"tenant,omitempty"`
	// Jobs is their number. With Running they run on Worker and end before the job starts there; otherwise they are
	// pending and start before it, on workers of its queue.
	Jobs    int64    `json:"jobs"`
	Running bool     `json:"running,omitempty"`
	Worker  WorkerID `json:"worker,omitempty"`
}

// Attention lists the problems that need an operator, worst first, as one node sees them. Callers see those that their
// rights cover.
type Attention struct {
	Node NodeID `json:"node"`
	// Date is when it was computed, by the node's clock.
	Date     Date      `json:"date_ms"`
	Concerns []Concern `json:"concerns"`
	// Checked describes what was examined, such as "3 nodes".
	Checked []string `json:"checked"`
}

// Concern is one problem that needs an operator.
type Concern struct {
	// Kind is a word such as QUEUE_NO_WORKER (SPEC §13.19). Critical reports that work stops or data is at risk.
	Kind     string `json:"kind"`
	Critical bool   `json:"critical"`
	// Node or Queue names its subject; both are empty for one of the whole cluster.
	Node  NodeID    `json:"node,omitempty"`
	Queue QueueName `json:"queue,omitempty"`
	// Text is one sentence with the relevant number; Count is that number.
	Text  string `json:"text"`
	Count int64  `json:"count"`
	// Since is when it began; 0, and left out of JSON, if unknown.
	Since Date `json:"since_ms"`
	// Runbook is the page that describes what to do.
	Runbook string `json:"runbook"`
}
