#!/usr/bin/env bash
# NATS JetStream: a second schedule on a subject replaces the first, and runs missed while the server was down are gone.
#
# Guess: scheduled messages queue up like other messages of a subject, a five-field cron line is accepted, and `@every`
#   catches up after a restart, as a stream keeps everything else.
# Seen: each subject holds one schedule; the second publish is acknowledged and silently replaces the first, also a
#   one-shot `@at`. Cron lines need six fields. After 21 s of downtime `@every 2s` continues without the missed runs.
# Versions: github.com/nats-io/nats-server/v2 v2.15.3, nats.go v1.55.0. Date: 2026-11-29.
# Why it matters: delayed jobs that share a schedule subject overwrite each other without an error. Give each its own
#   subject, and do not use recurring schedules where each date must run once.
. "$(dirname "$0")/lib.sh"
go_modules github.com/nats-io/nats-server/v2@v2.15.3 github.com/nats-io/nats.go@v1.55.0
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func start() (*server.Server, *nats.Conn, jetstream.JetStream) {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: "store", NoLog: true, NoSigs: true}))
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		panic("not ready")
	}
	nc := must(nats.Connect(s.ClientURL()))
	return s, nc, must(jetstream.New(nc))
}

func main() {
	ctx := context.Background()
	s, nc, js := start()
	must(nc.Request("$JS.API.STREAM.CREATE.S", []byte(`{"name":"S","subjects":["sched.>","jobs.>"],"storage":"file",
		"allow_msg_schedules":true,"allow_msg_ttl":true,"allow_rollup_hdrs":true}`), 10*time.Second))
	publish := func(subject, when, target, data string) error {
		m := nats.NewMsg(subject)
		m.Header.Set("Nats-Schedule", when)
		m.Header.Set("Nats-Schedule-Target", target)
		m.Data = []byte(data)
		_, err := js.PublishMsg(ctx, m)
		return err
	}
	count := func(subject string) uint64 {
		return must(must(js.Stream(ctx, "S")).Info(ctx, jetstream.WithSubjectFilter(subject))).State.Subjects[subject]
	}
	at := func(d time.Duration) string { return "@at " + time.Now().Add(d).UTC().Format(time.RFC3339) }
	fmt.Println("publish", publish("sched.one", at(3*time.Second), "jobs.one", "first"), publish("sched.one", at(4*time.Second), "jobs.one", "second"))
	fmt.Println("kept", count("sched.one"))
	fmt.Println("cron", publish("sched.five", "* * * * *", "jobs.five", "") != nil, publish("sched.six", "0 * * * * *", "jobs.six", ""))
	for range 300 {
		if count("jobs.one") > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	last := must(must(js.Stream(ctx, "S")).GetLastMsgForSubject(ctx, "jobs.one"))
	fmt.Println("delivered", count("jobs.one"), string(last.Data))
	if err := publish("sched.every", "@every 2s", "jobs.every", ""); err != nil {
		panic(err)
	}
	for count("jobs.every") < 1 {
		time.Sleep(100 * time.Millisecond)
	}
	before := count("jobs.every")
	nc.Close()
	s.Shutdown()
	s.WaitForShutdown()
	time.Sleep(21 * time.Second) // ten runs
	s, nc, js = start()
	for range 300 {
		if count("jobs.every") > before {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("missed", count("jobs.every")-before < 5)
	nc.Close()
	s.Shutdown()
}
GO
out=$(go_run)
echo "github.com/nats-io/nats-server/v2 v2.15.3"
same "two one-shot schedules on one subject: errors" "$(grep ^publish <<<"$out")" "publish <nil> <nil>"
same "schedules kept" "$(grep ^kept <<<"$out")" "kept 1"
same "five fields refused, six accepted" "$(grep ^cron <<<"$out")" "cron true <nil>"
same "messages delivered, the last" "$(grep ^delivered <<<"$out")" "delivered 1 second"
same "of ten runs due during downtime fewer than five are caught up" "$(grep ^missed <<<"$out")" "missed true"
