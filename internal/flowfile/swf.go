package flowfile

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// swfFields is the number of fields of a line in the Standard Workload Format,
// version 2.
const swfFields = 18

// swfLineMax bounds a line; real ones have about a hundred bytes.
const swfLineMax = 64 << 10

// SWFJob is what a replay needs of one line of a job log; −1 where nothing is
// known.
type SWFJob struct {
	Number               int64
	Submit, Run          int64 // seconds
	Allocated, Requested int64 // processors
	User, Queue          int64
	Estimate             int64 // seconds that its user asked for
}

// Processors returns what the job took, else what it asked for, else one.
func (j *SWFJob) Processors() int64 {
	if j.Allocated > 0 {
		return j.Allocated
	}
	return max(j.Requested, 1)
}

// SWFLog is a parsed job log. Zero in the header's numbers means unknown.
type SWFLog struct {
	MaxProcs, MaxNodes int64
	Jobs               []SWFJob
	// More is the number of the first line with a job beyond those that were asked for, 0 where there is none.
	More int
}

// Machine returns the processors of the machine that wrote the log: MaxProcs,
// else MaxNodes, else the largest job's.
func (l *SWFLog) Machine() int64 {
	return max(cmp.Or(l.MaxProcs, l.MaxNodes, l.Largest()), 1)
}

// Largest returns the processors of the largest job.
func (l *SWFLog) Largest() int64 {
	most := int64(0)
	for i := range l.Jobs {
		most = max(most, l.Jobs[i].Processors())
	}
	return most
}

// ErrNoJobs is why a log without a job is refused.
var ErrNoJobs = errors.New("no jobs")

// ReadSWF reads a log, gzip'd or not, up to most jobs (0: all). Header lines begin
// with ';', every other line that is not blank is a job. A line that is neither is
// refused by its number.
func ReadSWF(r io.Reader, most int) (*SWFLog, error) {
	text, err := unpacked(r)
	if err != nil {
		return nil, err
	}
	return readSWF(text, most)
}

// unpacked reads what a file has, gzip'd or not.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, unpacking(0, err)
	}
	return bufio.NewReader(z), nil
}

// readSWF reads a log that is plain text.
func readSWF(r io.Reader, most int) (*SWFLog, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), swfLineMax)
	log := &SWFLog{}
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		if line[0] == ';' {
			if err := log.header(line[1:]); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			continue
		}
		if most > 0 && len(log.Jobs) == most {
			log.More = number
			return log, nil
		}
		job, err := parseSWFJob(line)
		if cut := lines.Err(); err != nil && cut != nil { // nothing comes after the rest of the line
			return nil, unpacking(number-1, cut)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if n := len(log.Jobs); n > 0 && job.Submit < log.Jobs[n-1].Submit {
			return nil, fmt.Errorf("line %d: job %d was submitted before the job above it: sort the log by field 2",
				number, job.Number)
		}
		log.Jobs = append(log.Jobs, job)
	}
	if err := lines.Err(); err != nil {
		return nil, unpacking(number, err)
	}
	if len(log.Jobs) == 0 {
		return nil, fmt.Errorf("%w in %d lines: use a log in Standard Workload Format, plain or gzip", ErrNoJobs,
			number)
	}
	return log, nil
}

// unpacking returns the error for a file that could be read to a line.
func unpacking(line int, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf(
			"the gzip file is cut off after line %d: copy it again, or unpack the intact part with zcat", line)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("the gzip file is damaged (%w) after line %d: copy it again", err, line)
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d too long: maximum %d bytes; this is not a job log", line+1, swfLineMax)
	}
	return fmt.Errorf("line %d: %w", line+1, err)
}

// header takes the machine's size from a header line. Text may follow the
// number: "MaxNodes: 338 (batch partition; 512 total)".
func (l *SWFLog) header(line string) error {
	name, value, _ := strings.Cut(line, ":")
	into := &l.MaxProcs
	switch name = strings.TrimSpace(name); name {
	case "MaxProcs":
	case "MaxNodes":
		into = &l.MaxNodes
	default:
		return nil
	}
	words := strings.Fields(value)
	if len(words) == 0 {
		return nil
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s: got %s; use a machine's size", name, head(words[0]))
	case err == nil && n >= 0:
		*into = n
	}
	return nil
}

func parseSWFJob(line string) (SWFJob, error) {
	var j SWFJob
	words := strings.Fields(line)
	if len(words) != swfFields {
		return j, fmt.Errorf("got %d fields, want %d: is the line cut, or from another format?", len(words), swfFields)
	}
	into := [swfFields]*int64{0: &j.Number, 1: &j.Submit, 3: &j.Run, 4: &j.Allocated, 7: &j.Requested,
		8: &j.Estimate, 11: &j.User, 14: &j.Queue}
	for i, word := range words {
		if into[i] == nil {
			if _, err := strconv.ParseFloat(word, 64); err != nil {
				return j, fmt.Errorf("field %d: got %q; use a number", i+1, word)
			}
			continue
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if x, inexact := strconv.ParseFloat(word, 64); err != nil && i == 8 && inexact == nil && x > -1e9 && x < 1e9 {
			n, err = int64(x), nil
		}
		if err != nil {
			return j, fmt.Errorf("field %d: got %q; use a whole number", i+1, word)
		}
		*into[i] = n
	}
	if j.Submit < 0 {
		return j, fmt.Errorf("field 2 (submit time) must be at least 0, got %d", j.Submit)
	}
	const mostSeconds, mostProcessors = 10 * 365 * 86_400, 1_000_000
	if j.Submit > 10*mostSeconds {
		return j, fmt.Errorf("field 2 (submit time) must be at most %d s, got %d", 10*mostSeconds, j.Submit)
	}
	if j.Run > mostSeconds {
		return j, fmt.Errorf("field 4 (run time) must be at most %d s, got %d", mostSeconds, j.Run)
	}
	if p := j.Processors(); p > mostProcessors {
		return j, fmt.Errorf("too many processors: got %d, maximum %d", p, mostProcessors)
	}
	return j, nil
}
