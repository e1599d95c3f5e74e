package main

import (
	"context"
	"time"
)

// These are the versions in peers/gopeers/go.mod.
const asynqVersion, asynqRateVersion = "0.23.0", "v0.0.0-20220131170841-349f4c50fb1d"

var asynqSystem = system{
	name: "asynq", title: "Asynq", has: map[kind]bool{long: true}, server: "Redis", holds: 2 * time.Minute,
	settings: []string{
		redisSetting,
		"A semaphore of `x/rate` with 3 tokens for each key; a task without a token is tried again after 100 ms, not " +
			"as a failure.",
		"`Concurrency: 64`, `DelayedTaskCheckInterval: 100ms`, task timeout 2 minutes.",
		"Version 0.23.0 is the last that works with the `x/rate` of the Go module proxy.",
	},
	goDir: goPeersDir,
	start: func(ctx context.Context, b *bench) (servers, error) {
		if err := b.goPeers(ctx); err != nil {
			return nil, err
		}
		r, err := startRedis(ctx, b)
		return asynqServers{r}, err
	},
	client: func(b *bench, role string, skewed bool) []string {
		return []string{b.goProgram("asynq", b.goPeersProgram(), skewed), "asynq", role}
	},
}

type asynqServers struct{ *redisServer }

func (s asynqServers) version() string {
	return "asynq " + asynqVersion + ", x/rate " + asynqRateVersion + ", " + s.redisServer.version()
}
