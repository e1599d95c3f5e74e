package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// swfFields is the number of fields of a line in the Standard Workload Format,
// version 2.
const swfFields = 18

// swfLineMax bounds a line; real ones have about a hundred bytes.
const swfLineMax = 64 << 10

// swfJob is what a replay needs of one line of a job log; −1 where nothing is
// known.
type swfJob struct {
	number               int64
	submit, run          int64 // seconds
	allocated, requested int64 // processors
	user, queue          int64
}

// processors gives what the job took, else what it asked for, else one.
func (j *swfJob) processors() int64 {
	if j.allocated > 0 {
		return j.allocated
	}
	return max(j.requested, 1)
}

// swfLog is a parsed job log. Zero in the header's numbers means not told.
type swfLog struct {
	maxProcs, maxNodes int64
	jobs               []swfJob
}

// machine gives the processors of the machine that wrote the log: MaxProcs,
// else MaxNodes, else the largest job's.
func (l *swfLog) machine() int64 {
	return max(or(or(l.maxProcs, l.maxNodes), l.largest()), 1)
}

// largest gives the processors of the largest job.
func (l *swfLog) largest() int64 {
	most := int64(0)
	for i := range l.jobs {
		most = max(most, l.jobs[i].processors())
	}
	return most
}

// readSWFFile reads a log, gzip'd or not, up to most jobs (0: all).
func readSWFFile(path string, most int) (*swfLog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("read trace: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	var text io.Reader = in
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, failf("read trace %s: %w", path, err)
		}
		defer z.Close()
		text = z
	}
	log, err := readSWF(text, most)
	if err != nil {
		return nil, failf("read trace %s: %w", path, err)
	}
	return log, nil
}

// readSWF reads a log: header lines begin with ';', every other line that is
// not blank is a job. A line that is neither is refused by its number.
func readSWF(r io.Reader, most int) (*swfLog, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), swfLineMax)
	log := &swfLog{}
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		if line[0] == ';' {
			log.header(line[1:])
			continue
		}
		if most > 0 && len(log.jobs) == most {
			return log, nil
		}
		job, err := parseSWFJob(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if n := len(log.jobs); n > 0 && job.submit < log.jobs[n-1].submit {
			return nil, fmt.Errorf("line %d: job %d was submitted before the one above it: ascending times are wanted",
				number, job.number)
		}
		log.jobs = append(log.jobs, job)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(log.jobs) == 0 {
		return nil, errors.New("no jobs: a Standard Workload Format log is wanted")
	}
	return log, nil
}

// header takes the machine's size from a header line. Text may follow the
// number: "MaxNodes: 338 (batch partition; 512 total)".
func (l *swfLog) header(line string) {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return
	}
	words := strings.Fields(value)
	if len(words) == 0 {
		return
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || n < 0 {
		return
	}
	switch strings.TrimSpace(name) {
	case "MaxProcs":
		l.maxProcs = n
	case "MaxNodes":
		l.maxNodes = n
	}
}

func parseSWFJob(line string) (swfJob, error) {
	var j swfJob
	words := strings.Fields(line)
	if len(words) != swfFields {
		return j, fmt.Errorf("%d fields, %d are wanted", len(words), swfFields)
	}
	into := [swfFields]*int64{0: &j.number, 1: &j.submit, 3: &j.run, 4: &j.allocated, 7: &j.requested,
		11: &j.user, 14: &j.queue}
	for i, word := range words {
		if into[i] == nil {
			if _, err := strconv.ParseFloat(word, 64); err != nil {
				return j, fmt.Errorf("field %d is %q: a number is wanted", i+1, word)
			}
			continue
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return j, fmt.Errorf("field %d is %q: a whole number is wanted", i+1, word)
		}
		*into[i] = n
	}
	if j.submit < 0 {
		return j, fmt.Errorf("field 2 (submit time) is %d: 0 or more is wanted", j.submit)
	}
	const mostSeconds, mostProcessors = 10 * 365 * 86_400, 1_000_000
	if j.run > mostSeconds {
		return j, fmt.Errorf("field 4 (run time) is %d s: at most %d is taken", j.run, mostSeconds)
	}
	if p := j.processors(); p > mostProcessors {
		return j, fmt.Errorf("the job has %d processors: at most %d are taken", p, mostProcessors)
	}
	return j, nil
}
