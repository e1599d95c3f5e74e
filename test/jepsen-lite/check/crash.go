package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A node whose disk fails is right to end by itself, if it reports that: fail-stop. maxFailStop is how soon after the
// fault that may be seen: a write that hung ends with it.
const maxFailStop = 15 * time.Second

// failStops are the messages with which a node may end for a fault of its disk.
var failStops = map[string][]string{
	"slow-fsync": {"the disk hangs"},
	"hung-fsync": {"the disk hangs"},
	"eio-fsync":  {"input/output error"},
	"eio-writes": {"input/output error"},
	"disk-full":  {"no space left on device", "is full"},
	"bit-rot":    {"damage", "checksum"},
}

// checkCrash finds nodes that ended although no one asked them to, without a disk fault that they reported.
func checkCrash(v *view) (found []Anomaly) {
	stops := 0
	for _, c := range v.Crashes {
		if v.failStop(c) {
			stops++
			continue
		}
		found = append(found, Anomaly{IDs: []string{c.Node}, At: c.At, Text: fmt.Sprintf(
			"node %s ended by itself at %s (%s): %s", c.Node, seconds(c.At), c.Exit, c.Log)})
	}
	for _, c := range v.Stuck {
		if v.heldBack(c) {
			continue
		}
		found = append(found, Anomaly{IDs: []string{c.Node}, At: c.At, Text: fmt.Sprintf(
			"node %s had not ended %s after SIGTERM at %s: %s", c.Node, c.Exit, seconds(c.At), c.Log)})
	}
	v.figures["fail_stops"] = stops
	if v.NoDisks != "" {
		v.undecided = append(v.undecided, "crash: no disk could be made to fail, or to lose power: "+v.NoDisks)
	}
	return found
}

// failStop reports whether a node ended with status 1, during a fault of its disk, and named a consequence of that
// fault. A panic is not a fail-stop, whatever its text.
func (v *view) failStop(c Crash) bool {
	if c.Exit != "exit status 1" || strings.Contains(c.Log, "panic: ") {
		return false
	}
	return slices.ContainsFunc(v.Faults, func(f Fault) bool {
		return slices.Contains(f.Targets, c.Node) && f.From <= c.At && c.At <= f.To+int64(maxFailStop) &&
			slices.ContainsFunc(failStops[f.Nemesis], func(words string) bool { return strings.Contains(c.Log, words) })
	})
}

// heldBack reports whether a node could not end because its disk hung during that time.
func (v *view) heldBack(c Crash) bool {
	return slices.ContainsFunc(v.Faults, func(f Fault) bool {
		return (f.Nemesis == "hung-fsync" || f.Nemesis == "slow-fsync") && slices.Contains(f.Targets, c.Node) &&
			f.From <= c.At+int64(MaxGoodbye) && c.At <= f.To
	})
}
