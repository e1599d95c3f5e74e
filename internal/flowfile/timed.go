package flowfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
)

// Trace is a job log of either format; one of both is there.
type Trace struct {
	SWF   *SWFLog
	Timed []TimedJob
	// More is the number of the first line with a job beyond those that were asked for, 0 where there is none.
	More int
}

// ReadTrace reads a job log, gzip'd or not, up to `most` jobs: in the Standard Workload Format, or one JSON object a
// line, which begins with '{'.
func ReadTrace(r io.Reader, most int) (t Trace, err error) {
	text, err := unpacked(r)
	if err != nil {
		return t, err
	}
	for n := 1; ; n++ {
		first, err := text.Peek(n)
		if err != nil || n == text.Size() || !bytes.ContainsAny(first[n-1:], " \t\r\n") {
			if err == nil && first[n-1] == '{' {
				t.Timed, t.More, err = ReadTimed(text, most)
				return t, err
			}
			break
		}
	}
	t.SWF, err = readSWF(text, most)
	if err == nil {
		t.More = t.SWF.More
	}
	return t, err
}

// TimedJob is a job with when it came and how long it ran.
type TimedJob struct {
	Line     int
	Spec     rota.JobSpec
	SubmitMs int64
	// RunMs is -1 for a job that had not ended.
	RunMs int64
	// Spent is what the job used of its costs, nil if that is unknown.
	Spent rota.Costs
}

// ReadTimed reads jobs one JSON object a line, with the API's field names and submit_ms and run_ms, up to `most`. A job
// with the state of a live job needs no run_ms. more is the number of the first line beyond those, 0 where there is
// none.
func ReadTimed(r *bufio.Reader, most int) (jobs []TimedJob, more int, err error) {
	in := &Jobs{in: r}
	for {
		tooLong, err := in.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, unpacking(in.number-1, err)
		}
		text := bytes.TrimSpace(in.line)
		switch {
		case tooLong:
			return nil, 0, fmt.Errorf("line %d: longer than %d bytes", in.number, maxLine)
		case len(text) == 0:
			continue
		case len(jobs) == most:
			return jobs, in.number, nil
		}
		j, err := parseTimed(text)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", in.number, err)
		}
		if n := len(jobs); n > 0 && j.SubmitMs < jobs[n-1].SubmitMs {
			return nil, 0, fmt.Errorf(
				"line %d: submit_ms is %d, before the %d of the line above it: sort the file by submit_ms",
				in.number, j.SubmitMs, jobs[n-1].SubmitMs)
		}
		j.Line = in.number
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil, 0, fmt.Errorf("%w in %d lines: write one JSON object per line", ErrNoJobs, in.number-1)
	}
	return jobs, 0, nil
}

// longestAgo is the latest moment that a line may have, in ms.
const longestAgo = 1 << 46

// parseTimed reads one line.
func parseTimed(text []byte) (j TimedJob, err error) {
	var fields map[string]json.RawMessage
	if err := jsonparts.Read(text, &fields, true); err != nil {
		return j, fmt.Errorf("not a job's object: %w: is the line cut?", readable(err))
	}
	ended := true
	if raw, there := fields["state"]; there {
		var state rota.JobState
		if err := json.Unmarshal(raw, &state); err != nil || state == rota.JobNone {
			return j, fmt.Errorf("state must be one of %s, got %s", strings.Join(rota.JobStateNames(), ", "), raw)
		}
		ended = state.Terminal()
		delete(fields, "state")
	}
	started := int64(0)
	for _, f := range []struct {
		name   string
		into   *int64
		most   int64
		absent bool // may be
	}{{"submit_ms", &j.SubmitMs, longestAgo, false}, {"start_ms", &started, longestAgo, true}, {"run_ms", &j.RunMs,
		int64(rota.MaxDuration / 1e6), !ended}} {
		raw, there := fields[f.name]
		if !there {
			if f.absent {
				*f.into = -1
				continue
			}
			return j, fmt.Errorf("no %s: a job has submit_ms and run_ms, in milliseconds", f.name)
		}
		if err := json.Unmarshal(raw, f.into); err != nil || *f.into < 0 || *f.into > f.most {
			return j, fmt.Errorf("%s must be a whole number between 0 and %d, got %s", f.name, f.most, raw)
		}
		delete(fields, f.name)
	}
	if started >= 0 && started < j.SubmitMs {
		return j, fmt.Errorf("start_ms must be at least submit_ms (%d), got %d", j.SubmitMs, started)
	}
	if raw, there := fields["spent"]; there {
		if err := json.Unmarshal(raw, &j.Spent); err != nil {
			return j, fmt.Errorf("spent: %w", err)
		}
		if err := j.Spent.Check("spent"); err != nil {
			return j, err
		}
		delete(fields, "spent")
	}
	if fields["type"] == nil {
		fields["type"] = json.RawMessage(`"batch"`)
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return j, err
	}
	spec, refusal := parseJobLine(rest)
	if refusal != nil {
		return j, refusal
	}
	spec.ID, spec.Queue = "j", rota.DefaultQueue
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return j, err
	}
	j.Spec = spec
	return j, nil
}
