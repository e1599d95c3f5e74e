package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/limits"
)

// A file goes out in batches, one after the other: its lines are submitted in their
// order, which a fifo queue keeps (SPEC §16.4). A batch is one entry of the log.
const (
	FileBatchJobs  = limits.MaxBatchJobs
	fileBatchBytes = 512 << 10
	// fileRefusalsKept bounds the refusals told one by one.
	fileRefusalsKept = 10_000
)

// fileRefusal tells why one line's job was not accepted.
type fileRefusal struct {
	Line  int        `json:"line"`
	ID    rota.JobID `json:"id,omitempty"`
	Kind  string     `json:"kind"`
	Error string     `json:"error"`
}

// fileReport is what `job submit --file` prints. Accepted counts every job that
// the cluster answered for, those included that it knew before (Existed).
type fileReport struct {
	Accepted int           `json:"accepted"`
	Existed  int           `json:"existed"`
	Refused  int           `json:"refused"`
	Refusals []fileRefusal `json:"refusals"`
	// Unlisted counts refusals beyond those listed.
	Unlisted int `json:"refusals_unlisted,omitempty"`
}

// submitter is what sending a file needs of the client.
type submitter interface {
	Submit(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error)
}

// FileSender sends a jobs file and counts what became of it.
type FileSender struct {
	to    submitter
	newID func() rota.JobID
	// Hint is called once, when the cluster asks to slow down.
	Hint func()

	Report fileReport
	kinds  map[rota.Kind]bool
	// throttled says that the hint was told.
	throttled bool
	// broken is the first batch's error without an outcome: sending stops.
	broken error
}

func (a Commands) submitFile(ctx context.Context, c *client.Client, path string) error {
	in := a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return cli.Usagef("read jobs: %w", err)
		}
		defer file.Close()
		in = file
	}
	s := NewFileSender(c, client.NewJobID)
	s.Hint = func() { a.Talk("%s; continuing the file more slowly", throttleHint) }
	err := s.Send(ctx, flowfile.NewJobs(in))
	if printErr := a.printFileReport(&s.Report); printErr != nil {
		return printErr
	}
	if err != nil {
		return err
	}
	return s.Verdict()
}

// NewFileSender returns a sender that gives jobs without id a new one by mint.
func NewFileSender(to submitter, newID func() rota.JobID) *FileSender {
	return &FileSender{to: to, newID: newID, kinds: make(map[rota.Kind]bool),
		Report: fileReport{Refusals: []fileRefusal{}}}
}

// Send sends the whole file. Its error is one of reading; refusals and batches
// without outcome are in the report and the verdict.
func (s *FileSender) Send(ctx context.Context, f *flowfile.Jobs) error {
	var batch []flowfile.JobLine
	size := 0
	flush := func() {
		if len(batch) == 0 {
			return
		}
		s.submit(ctx, batch)
		batch, size = batch[:0], 0
	}
	var readErr error
	for s.broken == nil {
		line, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			readErr = err
			break
		}
		if line.Err != nil {
			s.refuse(line, line.Err)
			continue
		}
		if line.Spec.ID == "" {
			line.Spec.ID, line.Spec.Minted = s.newID(), true
		}
		if err := line.Spec.CheckShape(rota.MaxPayloadBytes); err != nil {
			s.refuse(line, err)
			continue
		}
		if len(batch) == FileBatchJobs || size+line.Bytes > fileBatchBytes {
			flush()
		}
		batch, size = append(batch, line), size+line.Bytes
	}
	flush()
	slices.SortStableFunc(s.Report.Refusals, func(a, b fileRefusal) int { return cmp.Compare(a.Line, b.Line) })
	return readErr
}

func (s *FileSender) submit(ctx context.Context, lines []flowfile.JobLine) {
	specs := make([]rota.JobSpec, len(lines))
	for i := range lines {
		specs[i] = lines[i].Spec
	}
	outcomes, err := client.EachOutcome(s.to.Submit(ctx, specs...))
	if err != nil || len(outcomes) != len(lines) {
		s.broken = cli.Or(err, fmt.Errorf("%d outcomes for %d jobs", len(outcomes), len(lines)))
		err = s.broken
	}
	s.SlowDown(ctx, outcomes)
	for i := range lines {
		switch {
		case len(outcomes) != len(lines):
			s.refuse(lines[i], err)
		case outcomes[i].Err != nil:
			s.refuse(lines[i], outcomes[i].Err)
		case outcomes[i].Merge.Dropped():
			s.refuse(lines[i], droppedPayload(cmp.Or(outcomes[i].Holder, outcomes[i].ID), outcomes[i].Merge))
		default:
			s.accept(outcomes[i].Existed)
		}
	}
}

// FilePause is the pause after a batch for which the cluster asked to slow down:
// 1,000 jobs each still make nearly 10,000 jobs a second. maxFilePause bounds what a refusal can ask for.
const (
	FilePause    = 100 * time.Millisecond
	maxFilePause = 5 * time.Second
)

// SlowDown heeds the throttle hint (SPEC §4.6), and the delay of a refusal: the client
// library would refuse the lines that follow by itself until then.
func (s *FileSender) SlowDown(ctx context.Context, outcomes []rota.Submitted) {
	delay := time.Duration(0)
	for _, o := range outcomes {
		if o.Err != nil && rota.KindOf(o.Err) == rota.KindExhausted {
			delay = max(delay, min(rota.ErrorOf(o.Err).RetryAfter, maxFilePause))
		}
	}
	if !slices.ContainsFunc(outcomes, func(o rota.Submitted) bool { return o.Throttle }) {
		_ = cli.Pause(ctx, delay)
		return
	}
	if !s.throttled && s.Hint != nil {
		s.Hint()
	}
	s.throttled = true
	_ = cli.Pause(ctx, max(delay, FilePause)) // the end of ctx shows in the next batch
}

func (s *FileSender) accept(existed bool) {
	s.Report.Accepted++
	if existed {
		s.Report.Existed++
	}
}

func (s *FileSender) refuse(line flowfile.JobLine, err error) {
	kind := rota.KindOf(err)
	s.Report.Refused++
	s.kinds[kind] = true
	if len(s.Report.Refusals) >= fileRefusalsKept {
		s.Report.Unlisted++
		return
	}
	s.Report.Refusals = append(s.Report.Refusals,
		fileRefusal{Line: line.Number, ID: line.Spec.ID, Kind: kind.String(), Error: err.Error()})
}

// Verdict is nil when every line's job was accepted. The exit code tells what
// to do first: correct the file (2), wait for the cluster (7) or for room (4).
func (s *FileSender) Verdict() error {
	if s.Report.Refused == 0 {
		return nil
	}
	kinds := make([]rota.Kind, 0, len(s.kinds))
	for k := range s.kinds {
		kinds = append(kinds, k)
	}
	code := cli.WorstCode(cli.SubmitCode, kinds)
	if s.broken != nil && !s.kinds[rota.KindInvalid] {
		return &cli.CodedError{Code: code, Err: fmt.Errorf("the file was not sent to its end: %w", s.broken)}
	}
	return &cli.CodedError{Code: code, Err: fmt.Errorf("%d jobs were rejected", s.Report.Refused)}
}

// text is the report for people.
func (r *fileReport) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "accepted %d", r.Accepted)
	if r.Existed > 0 {
		fmt.Fprintf(&text, " (%d existed)", r.Existed)
	}
	fmt.Fprintf(&text, ", refused %d\n", r.Refused)
	for _, refusal := range r.Refusals {
		fmt.Fprintf(&text, "line %d: %s: %s\n", refusal.Line, refusal.Kind, cli.Clean(refusal.Error))
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&text, "and %d more refusals\n", r.Unlisted)
	}
	return text.String()
}

// printFileReport prints it; -o name has no ids to print, and the report goes to stderr.
func (a Commands) printFileReport(r *fileReport) error {
	if a.Output == "name" {
		a.Talk("%s", strings.TrimSuffix(r.text(), "\n"))
	}
	return a.PrintOne(r, nil, func(bool) string { return r.text() })
}
