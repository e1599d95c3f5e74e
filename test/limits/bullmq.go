package main

import (
	"context"
	"fmt"
	"path/filepath"
)

const bullmqVersion, ioredisVersion = "6.7.0", "5.9.0"

var bullmqSystem = system{
	name: "bullmq", title: "BullMQ", has: map[kind]bool{short: true, long: true}, server: "Redis",
	settings: []string{
		redisSetting,
		"One queue for each key, as a limit of a group needs the paid edition, with a Worker object in each worker process.",
		"`setGlobalConcurrency(3)` and `setGlobalRateLimit(50, 1000)` on each queue; each Worker has `concurrency: 3`.",
		"`lockDuration` 10 s and `stalledInterval` 5 s; the defaults are 30 s. With the defaults, a run with a killed worker " +
			"on 2026-11-30 left 67 % of concurrency unused. Other options have their defaults.",
		"On `lockRenewalFailed` the worker calls `cancelJob`, which ends the job's call. ioredis sets no time limit for a " +
			"command without an answer.",
	},
	start: func(ctx context.Context, b *bench) (servers, error) {
		if p := missing("node", "npm"); p != "" {
			return nil, fmt.Errorf("%s is not installed: install Node 20 or later", p)
		}
		if err := b.npm(ctx, "bullmq-"+bullmqVersion, "bullmq@"+bullmqVersion, "ioredis@"+ioredisVersion); err != nil {
			return nil, err
		}
		r, err := startRedis(ctx, b)
		return bullmqServers{r}, err
	},
	client: func(b *bench, role string, _ bool) []string {
		return []string{"node", filepath.Join(b.peers, "bullmq.mjs"), role,
			filepath.Join(b.cache, "bullmq-"+bullmqVersion)}
	},
}

type bullmqServers struct{ *redisServer }

func (s bullmqServers) version() string {
	return "BullMQ " + bullmqVersion + ", " + s.redisServer.version()
}
