#!/usr/bin/env bash
# asynq: a task that failed for good still holds its uniqueness lock and its id.
#
# Guess: the lock of a unique task is released when the task ends, so that after its last failure (ARCHIVED) the same
#   work can be enqueued again.
# Seen: only success and deletion release it. Enqueueing the same type and payload is refused until the lock's TTL is
#   over, and the same TaskID until the archived task is deleted.
# Versions: github.com/hibiken/asynq v0.26.0, Redis from Debian. Date: 2026-11-29.
# Why it matters: one dead job silently blocks its successors. An operator who wants to run the work again must use the
#   archived task, and a migration must treat archived ids as taken.
. "$(dirname "$0")/lib.sh"
redis
go_modules github.com/hibiken/asynq@v0.26.0
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	opt := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Getenv("REDIS_PORT")}
	c, in := asynq.NewClient(opt), asynq.NewInspector(opt)
	add := func(options ...asynq.Option) error {
		_, err := c.Enqueue(asynq.NewTask("work", []byte("1")), append(options, asynq.MaxRetry(0))...)
		return err
	}
	if err := errors.Join(add(asynq.Unique(time.Hour)), add(asynq.TaskID("id"))); err != nil {
		panic(err)
	}
	s := asynq.NewServer(opt, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("no") })); err != nil {
		panic(err)
	}
	archived := 0
	for range 300 {
		if q, err := in.GetQueueInfo("default"); err == nil && q.Archived == 2 {
			archived = q.Archived
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("archived", archived)
	fmt.Println("unique", errors.Is(add(asynq.Unique(time.Hour)), asynq.ErrDuplicateTask))
	fmt.Println("id", errors.Is(add(asynq.TaskID("id")), asynq.ErrTaskIDConflict))
	n, err := in.DeleteAllArchivedTasks("default")
	fmt.Println("deleted", n, err, add(asynq.TaskID("id")))
	s.Shutdown()
}
GO
out=$(go_run)
echo "github.com/hibiken/asynq v0.26.0"
same "tasks that failed for good" "$(grep ^archived <<<"$out")" "archived 2"
same "the same unique work is refused" "$(grep ^unique <<<"$out")" "unique true"
same "the same id is refused" "$(grep ^id <<<"$out")" "id true"
same "after deletion the id is free" "$(grep ^deleted <<<"$out")" "deleted 2 <nil> <nil>"
