#!/usr/bin/env bash
# River: snoozed runs leave no trace in `attempt`; their count is in the job's metadata.
#
# Guess: `attempt` is the number of times that the worker ran, and a job may snooze until max_attempts is reached.
# Seen: a job with max_attempts 2 that snoozes three times runs four times and ends with attempt 1 and no errors. The
#   metadata member `snoozes` has 3.
# Versions: github.com/riverqueue/river v0.43.0, riversqlite v0.43.0, modernc.org/sqlite v1.62.0. Date: 2026-11-29.
# Why it matters: max_attempts does not end a handler that snoozes by mistake, and a migration that takes
#   `attempt` for the number of executions is wrong.
. "$(dirname "$0")/lib.sh"
river
cat >main.go <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

type Poll struct{}

func (Poll) Kind() string { return "poll" }

type worker struct {
	river.WorkerDefaults[Poll]
}

var runs int

func (worker) Work(context.Context, *river.Job[Poll]) error {
	if runs++; runs < 4 {
		return river.JobSnooze(time.Second)
	}
	return nil
}

func main() {
	ctx := context.Background()
	c := open(&worker{})
	job := must(c.Insert(ctx, Poll{}, &river.InsertOpts{MaxAttempts: 2})).Job
	if err := c.Start(ctx); err != nil {
		panic(err)
	}
	for range 900 {
		if job = must(c.JobGet(ctx, job.ID)); job.State == rivertype.JobStateCompleted {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := c.Stop(ctx); err != nil {
		panic(err)
	}
	var meta struct{ Snoozes int }
	if err := json.Unmarshal(job.Metadata, &meta); err != nil {
		panic(err)
	}
	fmt.Println("runs", runs, "attempt", job.Attempt, "errors", len(job.Errors), "snoozes", meta.Snoozes, job.State)
}
GO
out=$(go_run)
same "a job with max_attempts 2 that snoozed three times" "$out" "runs 4 attempt 1 errors 0 snoozes 3 completed"
