#!/usr/bin/env bash
# River: a unique job is also a duplicate of one that has completed.
#
# Guess: uniqueness without a period concerns jobs that wait or run; once a job has completed the next one is accepted.
# Seen: the default set of states has `completed`. The insert returns without an error, with the old, completed job and
#   UniqueSkippedAsDuplicate, for as long as the completed row is kept.
# Versions: github.com/riverqueue/river v0.43.0, riversqlite v0.43.0, modernc.org/sqlite v1.62.0. Date: 2026-11-29.
# Why it matters: a caller that ignores the flag believes that new work was queued. When unique keys are translated
#   between schedulers, "while it lives" and "while it is remembered" are different rules.
. "$(dirname "$0")/lib.sh"
river
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

type Report struct {
	Month int `json:"month"`
}

func (Report) Kind() string { return "report" }

type worker struct {
	river.WorkerDefaults[Report]
}

func (worker) Work(context.Context, *river.Job[Report]) error { return nil }

func main() {
	ctx := context.Background()
	c := open(&worker{})
	unique := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	first := must(c.Insert(ctx, Report{1}, unique))
	if err := c.Start(ctx); err != nil {
		panic(err)
	}
	for range 300 {
		if must(c.JobGet(ctx, first.Job.ID)).State == rivertype.JobStateCompleted {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	again, err := c.Insert(ctx, Report{1}, unique)
	if err != nil {
		panic(err)
	}
	fmt.Println("again", again.Job.ID == first.Job.ID, again.Job.State, again.UniqueSkippedAsDuplicate)
	if err := c.Stop(ctx); err != nil {
		panic(err)
	}
}
GO
out=$(go_run)
same "second insert after completion: same job, its state, skipped" "$out" "again true completed true"
