package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/flowfile"
)

// submitterFake answers depending on the job's type.
type submitterFake struct {
	mu    sync.Mutex
	calls int
	ids   []rota.JobID
}

func (s *submitterFake) Submit(_ context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
	s.mu.Lock()
	s.calls++
	for i := range jobs {
		s.ids = append(s.ids, jobs[i].ID)
		if i%100 == 99 { // others could come between
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
	}
	s.mu.Unlock()
	var err error
	outcomes := make([]rota.Submitted, len(jobs))
	for i, j := range jobs {
		outcomes[i] = rota.Submitted{ID: j.ID, State: rota.JobQueued}
		switch j.Type {
		case "known":
			outcomes[i].Existed = true
		case "full":
			outcomes[i].Err = rota.Refusef(rota.KindExhausted, "queue", "full")
		case "gone":
			e := rota.Refusef(rota.KindUnavailable, "", "no leader")
			outcomes[i].Err, err = e, e
		}
	}
	return outcomes, err
}

func sendTypes(t *testing.T, types ...string) (*job.FileSender, *submitterFake) {
	t.Helper()
	var text strings.Builder
	for i, typ := range types {
		if typ == "" {
			text.WriteString("nonsense\n")
			continue
		}
		fmt.Fprintf(&text, "{\"id\":\"j%d\",\"type\":%q}\n", i, typ)
	}
	fake := &submitterFake{}
	s := job.NewFileSender(fake, func() rota.JobID { return "minted" })
	if err := s.Send(t.Context(), flowfile.NewJobs(strings.NewReader(text.String()))); err != nil {
		t.Fatal(err)
	}
	return s, fake
}

func TestFileSender(t *testing.T) {
	t.Parallel()
	t.Run("counts_and_names_lines", func(t *testing.T) {
		t.Parallel()
		s, _ := sendTypes(t, "a", "known", "full", "", "a")
		r := s.Report
		if r.Accepted != 3 || r.Existed != 1 || r.Refused != 2 || len(r.Refusals) != 2 {
			t.Fatalf("report %+v", r)
		}
		if r.Refusals[0].Line != 3 || r.Refusals[0].Kind != "EXHAUSTED" || r.Refusals[1].Line != 4 {
			t.Errorf("refusals %+v", r.Refusals)
		}
		if code := cli.ExitCode(s.Verdict()); code != cli.ExitUsage {
			t.Errorf("exit %d, want %d: a malformed line comes first", code, cli.ExitUsage)
		}
	})
	t.Run("admission_is_4", func(t *testing.T) {
		t.Parallel()
		s, _ := sendTypes(t, "a", "full")
		if code := cli.ExitCode(s.Verdict()); code != cli.ExitRefused {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("no_outcome_is_7", func(t *testing.T) {
		t.Parallel()
		s, _ := sendTypes(t, "a", "gone")
		if code := cli.ExitCode(s.Verdict()); code != cli.ExitUnavailable || s.Report.Accepted != 1 {
			t.Errorf("exit %d, report %+v", code, s.Report)
		}
	})
	t.Run("lines_go_out_in_order", func(t *testing.T) {
		t.Parallel()
		_, fake := sendTypes(t, slices.Repeat([]string{"a"}, 20*job.FileBatchJobs)...)
		for i, id := range fake.ids {
			if id != rota.JobID(fmt.Sprint("j", i)) {
				t.Fatalf("job %s goes out as number %d", id, i)
			}
		}
	})
	t.Run("batches_are_bounded", func(t *testing.T) {
		t.Parallel()
		types := make([]string, 2*job.FileBatchJobs+1)
		for i := range types {
			types[i] = "a"
		}
		s, fake := sendTypes(t, types...)
		if s.Report.Accepted != len(types) || fake.calls != 3 || s.Verdict() != nil {
			t.Errorf("report %+v in %d calls", s.Report, fake.calls)
		}
	})
}
