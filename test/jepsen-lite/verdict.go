package main

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
)

// SafetyVerdict sums up what must never happen.
type SafetyVerdict struct {
	Violations int `json:"violations"`
	// Undecided is how much had to be left open.
	Undecided int `json:"undecided"`
}

// LivenessVerdict sums up what must come in time. Times are milliseconds from the
// last heal, −1 for never, each with its limit.
type LivenessVerdict struct {
	Violations int   `json:"violations"`
	LeaderMs   int64 `json:"leader_ms"`
	WriteMs    int64 `json:"write_ms"`
	NodesMs    int64 `json:"nodes_ms"`
	DrainMs    int64 `json:"drain_ms"`
	// Limits are those of the times, by their names.
	Limits map[string]int64 `json:"limits"`
	// Growth is what each node held before the run and after it.
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
			i, at[w.Node] = len(l.Growth), len(l.Growth)
			l.Growth = append(l.Growth, Growth{Node: w.Node, Files: [2]int64{w.Files, -1}, Goroutines: [2]int64{w.Goroutines, -1}})
			continue
		}
		l.Growth[i].Files[1], l.Growth[i].Goroutines[1] = w.Files, w.Goroutines
	}
	return l
}

// times words the figures with their limits.
func (l *LivenessVerdict) times() string {
	text := func(ms int64) string {
		if ms < 0 {
			return "never"
		}
		return fmt.Sprintf("%.1f s", float64(ms)/1e3)
	}
	return fmt.Sprintf("leader after %s (of 10 s), write after %s (of 10 s), all nodes after %s, drained after %s (of 60 s)",
		text(l.LeaderMs), text(l.WriteMs), text(l.NodesMs), text(l.DrainMs))
}

// picture is a file that goes beside the report.
type picture struct {
	name  string
	write func(to io.Writer) error
}

// versions are those of the binary, of this program's compiler and of the host.
func versions(binary string) map[string]string {
	all := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go"), "host": runtime.GOOS + "/" + runtime.GOARCH}
	if out, err := exec.Command(binary, "version").Output(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		all["rota"] = strings.TrimSpace(strings.TrimPrefix(first, "rota "))
	}
	return all
}
