package check

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/rotasched/rota"
)

// logKept is the minimum that is kept of a log that is longer, less a line at either cut (SPEC §22.1).
const logKept = 63 << 10

// LogText returns the text that a handler logs under a lease, in the given number of lines.
func LogText(lease string, lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%s line %d of %d, none of which may be missing\n", leaseKeptOf(lease), i+1, lines)
	}
	return b.String()
}

// LogRead is an attempt's log as one node returned it after the attempt had ended: of each part the offset, the
// length and a checksum.
type LogRead struct {
	Node  string       `json:"node"`
	Job   string       `json:"job"`
	Lease string       `json:"lease"`
	Lines int          `json:"lines"`
	Open  bool         `json:"open,omitempty"`
	Parts []LogStretch `json:"parts"`
	Error string       `json:"error,omitempty"`
}

// LogStretch is a part of a log.
type LogStretch struct {
	At  int    `json:"at"`
	Len int    `json:"len"`
	Sum uint64 `json:"sum"`
}

// Read records a log that was read.
func (r *LogRead) Read(l *rota.AttemptLog, err error) {
	if r.Open = l.Open; err != nil {
		r.Error = err.Error()
	}
	for _, p := range l.Parts {
		r.Parts = append(r.Parts, LogStretch{int(p.At), len(p.Text), logSum(string(p.Text))})
	}
}

func logSum(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

// LoggedLease is an attempt whose log is kept, as its worker saw it.
type LoggedLease struct {
	Job, Lease string
	Lines      int
}

// Logged returns the attempts whose handler logged something and whose outcome was acknowledged.
func (h *History) Logged() (all []LoggedLease) {
	ends, leases := make(map[leaseKey]*Op), make(map[string]int)
	for i := range h.Ops {
		op := &h.Ops[i]
		k := leaseKey{op.Process, op.Lease}
		switch end := ends[k]; op.Func {
		case OpStart, OpGrant:
			leases[op.Job]++
		case OpEnd:
			ends[k] = op
		case OpLost:
			delete(ends, k)
		case OpReport:
			if end != nil && end.Logged > 0 && op.Outcome == OK && op.Did == end.Did && op.Did != DidLose {
				all = append(all, LoggedLease{op.Job, op.Lease, end.Logged})
			}
		}
	}
	kept := all[:0]
	for _, l := range all {
		if leases[l.Job] <= attemptsKnown {
			kept = append(kept, l)
		}
	}
	return kept
}

// attemptsKnown is the number of leases up to which all leases of a job are still known: twelve, some of which may be
// of workers that never began.
const attemptsKnown = 6

// checkJobLogs requires every log that was requested from a node to exist, complete.
func checkJobLogs(v *view) (found []Anomaly) {
	for i := range v.JobLogs {
		r := &v.JobLogs[i]
		if text := r.fault(); text != "" {
			found = append(found, Anomaly{IDs: []string{r.Job, r.Lease},
				Text: fmt.Sprintf("the log of job %s, lease %.16s, of %d lines, read from %s: %s",
					r.Job, r.Lease, r.Lines, r.Node, text)})
		}
	}
	if len(v.JobLogs) > 0 {
		v.figures["job_logs_read"] = len(v.JobLogs)
	}
	return found
}

func (r *LogRead) fault() string {
	want := LogText(r.Lease, r.Lines)
	kept, end := 0, 0
	switch {
	case r.Error != "":
		return r.Error
	case r.Open:
		return "it is reported as open, though the attempt has ended"
	}
	for _, p := range r.Parts {
		switch {
		case p.At < end || p.At+p.Len > len(want):
			return fmt.Sprintf("a part has bytes %d to %d, after byte %d, of %d", p.At, p.At+p.Len, end, len(want))
		case p.Sum != logSum(want[p.At:p.At+p.Len]):
			return fmt.Sprintf("bytes %d to %d differ from the logged bytes", p.At, p.At+p.Len)
		}
		kept, end = kept+p.Len, p.At+p.Len
	}
	if kept < min(len(want), logKept) || end != len(want) {
		return fmt.Sprintf("%d bytes are there, up to byte %d: %d were logged", kept, end, len(want))
	}
	return ""
}
