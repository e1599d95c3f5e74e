package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rotasched/rota"
)

// maxJobLine bounds one line of a jobs file. A longer one is refused and
// skipped, never held.
const maxJobLine = 1 << 20

// fileLine is one line of a jobs file: a job, or why it is none.
type fileLine struct {
	number int
	bytes  int
	spec   rota.JobSpec
	err    *rota.Error
}

// jobsFile reads a file of jobs, one JSON object a line. Blank lines count but
// say nothing.
type jobsFile struct {
	in     *bufio.Reader
	number int
	line   []byte
}

func newJobsFile(r io.Reader) *jobsFile {
	return &jobsFile{in: bufio.NewReaderSize(r, 64<<10)}
}

// next gives the next line that is not blank; io.EOF after the last. Any other
// error means that the file cannot be read further.
func (f *jobsFile) next() (fileLine, error) {
	for {
		tooLong, err := f.readLine()
		if err != nil {
			return fileLine{}, err
		}
		if tooLong {
			return fileLine{number: f.number, err: rota.Refusef(rota.Invalid, "line",
				"line is longer than %d bytes", maxJobLine)}, nil
		}
		text := bytes.TrimSpace(f.line)
		if len(text) == 0 {
			continue
		}
		line := fileLine{number: f.number, bytes: len(text)}
		line.spec, line.err = parseJobLine(text)
		return line, nil
	}
}

// readLine reads one line into f.line, or skips it where it is too long.
func (f *jobsFile) readLine() (tooLong bool, err error) {
	f.line = f.line[:0]
	f.number++
	for {
		part, err := f.in.ReadSlice('\n')
		if len(f.line)+len(part) > maxJobLine+1 {
			tooLong = true
			f.line = f.line[:0]
		}
		if !tooLong {
			f.line = append(f.line, part...)
		}
		switch {
		case err == nil:
			return tooLong, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(f.line) > 0 || tooLong):
			return tooLong, nil // a last line without its newline
		case errors.Is(err, io.EOF):
			return false, io.EOF
		default:
			return false, fmt.Errorf("read line %d: %w", f.number, err)
		}
	}
}

// parseJobLine reads one job with the API's field names; unknown ones are
// refused, an absent priority, queue or tenant takes its default.
func parseJobLine(text []byte) (rota.JobSpec, *rota.Error) {
	spec := rota.NewJobSpec("", nil)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	malformed := func(format string, args ...any) (rota.JobSpec, *rota.Error) {
		return spec, rota.Refusef(rota.Invalid, "line", format, args...)
	}
	if text[0] != '{' {
		return malformed("a job is a JSON object {…}")
	}
	if err := d.Decode(&spec); err != nil {
		var refusal *rota.Error
		if errors.As(err, &refusal) {
			return spec, refusal
		}
		return malformed("not a job: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed("something follows the job's object: one object a line is wanted")
	}
	if spec.Queue == "" {
		spec.Queue = rota.DefaultQueue
	}
	if spec.Tenant == "" {
		spec.Tenant = rota.DefaultTenant
	}
	return spec, nil
}
