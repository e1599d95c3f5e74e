package flowfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
)

// maxLine bounds one line of a jobs file. A longer one is refused and
// skipped, never held.
const maxLine = 1 << 20

// JobLine is one line of a jobs file: a job, or why it is none.
type JobLine struct {
	Number int
	// Bytes is the length of its text.
	Bytes int
	Spec  rota.JobSpec
	Err   *rota.Error
}

// Jobs reads a file of jobs, one JSON object a line. Blank lines count but
// say nothing.
type Jobs struct {
	in     *bufio.Reader
	number int
	line   []byte
}

// NewJobs returns a reader of the jobs in r.
func NewJobs(r io.Reader) *Jobs {
	return &Jobs{in: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next line that is not blank; io.EOF after the last. Any other
// error means that the file cannot be read further.
func (f *Jobs) Next() (JobLine, error) {
	for {
		tooLong, err := f.readLine()
		if err != nil {
			return JobLine{}, err
		}
		if tooLong {
			return JobLine{Number: f.number, Err: rota.Refusef(rota.KindInvalid, "line",
				"line is longer than %d bytes", maxLine)}, nil
		}
		text := bytes.TrimSpace(f.line)
		if len(text) == 0 {
			continue
		}
		line := JobLine{Number: f.number, Bytes: len(text)}
		line.Spec, line.Err = parseJobLine(text)
		return line, nil
	}
}

// readLine reads one line into f.line, or skips it where it is too long.
func (f *Jobs) readLine() (tooLong bool, err error) {
	f.line = f.line[:0]
	f.number++
	for {
		part, err := f.in.ReadSlice('\n')
		if len(f.line)+len(part) > maxLine+1 {
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
	malformed := func(format string, args ...any) (rota.JobSpec, *rota.Error) {
		return spec, rota.Refusef(rota.KindInvalid, "line", format, args...)
	}
	if text[0] != '{' {
		return malformed("a job is a JSON object {…}")
	}
	if err := jsonparts.Read(text, &spec, true); errors.Is(err, jsonparts.ErrMore) {
		return malformed("got data after the job's object: write one object per line")
	} else if err != nil {
		if refusal, ours := errors.AsType[*rota.Error](err); ours {
			return spec, refusal
		}
		return malformed("not a job: %v", readable(err))
	}
	if spec.Queue == "" {
		spec.Queue = rota.DefaultQueue
	}
	if spec.Tenant == "" {
		spec.Tenant = rota.DefaultTenant
	}
	return spec, nil
}
