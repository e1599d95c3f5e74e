package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
)

// TestPrintOutcomes: the ids on stdout, which scripts read, are those of changed jobs. A refused id is on stderr, with
// the refusal and its exit code.
func TestPrintOutcomes(t *testing.T) {
	t.Parallel()
	runs := rota.Refusef(rota.KindConflict, "job", "job runs is RUNNING")
	known := rota.Refusef(rota.KindNotFound, "job", "job lost is not known")
	all := []rota.JobOutcome{{ID: "runs", State: rota.JobRunning, Err: runs}, {ID: "done", State: rota.JobQueued},
		{ID: "lost", Err: known}}
	for _, c := range []struct {
		name, format   string
		outcomes       []rota.JobOutcome
		code           int
		stdout, stderr string
	}{
		{"names_of_some", "name", all, cli.ExitNotFound, "done\n",
			"rota: retry of runs was rejected: job runs is RUNNING\nrota: retry of lost was rejected: job lost is not known\n"},
		{"name_of_one", "name", all[:1], cli.ExitFailed, "", ""},
		{"names_of_all", "name", all[1:2], cli.ExitDone, "done\n", ""},
		{"lines_tell_all", "jsonl", all[:1], cli.ExitFailed,
			`{"id":"runs","state":"RUNNING","kind":"CONFLICT","error":"job runs is RUNNING"}` + "\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			a := &cli.App{Output: c.format, Stdout: &out, Stderr: &talk}
			err := job.Commands{App: a}.PrintOutcomes("retry", c.outcomes)
			if cli.ExitCode(err) != c.code || out.String() != c.stdout || talk.String() != c.stderr {
				t.Errorf("exit %d, stdout %q, stderr %q", cli.ExitCode(err), out.String(), talk.String())
			}
			if c.code != cli.ExitDone && !strings.Contains(err.Error(), c.outcomes[0].Err.Error()) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
