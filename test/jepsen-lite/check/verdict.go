package check

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// SafetyVerdict sums up the checks that nothing bad happened.
type SafetyVerdict struct {
	Violations int `json:"violations"`
	// Undecided is the number of checks that had to be left open.
	Undecided int `json:"undecided"`
}

// LivenessVerdict sums up the events that must happen in time. Times are milliseconds from the last heal, −1 for never,
// each with its limit.
type LivenessVerdict struct {
	Violations int   `json:"violations"`
	LeaderMs   int64 `json:"leader_ms"`
	WriteMs    int64 `json:"write_ms"`
	NodesMs    int64 `json:"nodes_ms"`
	DrainMs    int64 `json:"drain_ms"`
	// Limits are those of the times, by their names.
	Limits map[string]int64 `json:"limits"`
	// Growth is the resource use of each node before the run and after it.
	Growth []Growth `json:"growth"`
}

// Growth is one node's files and goroutines, before and after.
type Growth struct {
	Node       string   `json:"node"`
	Files      [2]int64 `json:"files"`
	Goroutines [2]int64 `json:"goroutines"`
}

// The limits of the last phase, in milliseconds.
const (
	leaderLimitMs = 10_000
	writeLimitMs  = 10_000
	drainLimitMs  = 60_000
)

func livenessOf(h *History) LivenessVerdict {
	l := LivenessVerdict{LeaderMs: h.Liveness.LeaderMs, WriteMs: h.Liveness.WriteMs, NodesMs: h.Liveness.NodesMs,
		DrainMs: h.Liveness.DrainMs, Growth: []Growth{},
		Limits: map[string]int64{"leader_ms": leaderLimitMs, "write_ms": writeLimitMs, "drain_ms": drainLimitMs}}
	at := make(map[string]int)
	for _, w := range h.Weights {
		i, known := at[w.Node]
		if !known {
			at[w.Node] = len(l.Growth)
			l.Growth = append(l.Growth, Growth{Node: w.Node, Files: [2]int64{w.Files, -1},
				Goroutines: [2]int64{w.Goroutines, -1}})
			continue
		}
		l.Growth[i].Files[1], l.Growth[i].Goroutines[1] = w.Files, w.Goroutines
	}
	return l
}

// times formats the figures with their limits.
func (l *LivenessVerdict) times() string {
	text := func(ms int64) string {
		if ms < 0 {
			return "never"
		}
		return fmt.Sprintf("%.1f s", float64(ms)/1e3)
	}
	return fmt.Sprintf(
		"leader after %s (of 10 s), write after %s (of 10 s), all nodes after %s, drained after %s (of 60 s)",
		text(l.LeaderMs), text(l.WriteMs), text(l.NodesMs), text(l.DrainMs))
}

// picture is a file that is stored next to the report.
type picture struct {
	name  string
	write func(to io.Writer) error
}

// Verdict is the result of a run.
type Verdict struct {
	Seed       uint64 `json:"seed"`
	Operations int    `json:"operations"`
	Faults     int    `json:"faults"`
	Violations int    `json:"violations"`
	// Safety reports whether nothing bad happened, Liveness whether good things happened in time.
	Safety    SafetyVerdict   `json:"safety"`
	Liveness  LivenessVerdict `json:"liveness"`
	Anomalies []Anomaly       `json:"anomalies"`
	Report    string          `json:"report"`
	// In addition to the contract: the parts that were not judged, figures, the location of the rest.
	History string         `json:"history"`
	Data    string         `json:"data,omitempty"`
	Network string         `json:"network"`
	Figures map[string]any `json:"figures"`
	// Undecided are checks that had to be left open, with the reason.
	Undecided []string `json:"undecided"`
	// pictures are stored next to the report.
	pictures []picture
}

// Print prints the verdict and returns the exit code.
func (v *Verdict) Print(out io.Writer, asJSON bool) int {
	if asJSON {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			Say("%v", err)
			return 1
		}
		fmt.Fprintf(out, "%s\n", text)
	} else {
		fmt.Fprintf(out, "seed %d: %d operations, %d faults, %d violations (%s)\n", v.Seed, v.Operations, v.Faults,
			v.Violations, time.Now().Format(time.RFC3339))
		fmt.Fprintf(out, "safety: %d violations; liveness: %d violations, %s\n", v.Safety.Violations,
			v.Liveness.Violations,
			v.Liveness.times())
		for _, a := range v.Anomalies {
			fmt.Fprintf(out, "  %s: %s\n", a.Checker, a.Text)
		}
		fmt.Fprintf(out, "report %s\n", v.Report)
	}
	if v.Violations > 0 {
		Say("violations: data and logs are kept in %s", v.Data)
		return 1
	}
	return 0
}
