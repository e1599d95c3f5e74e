package main

import (
	"context"
	"path/filepath"
)

const dbosVersion = "3.4.0"

var dbosSystem = system{
	name: "dbos", title: "DBOS Transact (Python)", has: map[kind]bool{short: true, long: true}, server: "PostgreSQL",
	load: &load{keys: 100, trickle: 4, shortKeys: 2, ahead: 60, limits: limits{Concurrency: 3, Rate: 10, Burst: 10,
		Units: 100_000, UnitsBurst: 20_000}},
	settings: []string{
		"100 keys with 10 starts per second each, two of them with short calls and a backlog, and 4 jobs per second for " +
			"those without. A worker visits one partition with waiting jobs after the other: with the whole load two workers " +
			"reached only 15 to 20 starts per second and key.",
		postgresSetting,
		"One queue with a partition for each key: `partition_concurrency=3`, " +
			"`partition_limiter={limit: 10, period: 1}`, `polling_interval_sec=0.05` (the default of 1 s would start at " +
			"most three jobs per second and key).",
		"A job is a workflow with one step, the call. A worker process that replaces a killed one has its `executor_id`, " +
			"so it recovers its workflows.",
		"DBOS Conductor, a service that detects dead workers, is not used.",
	},
	start: func(ctx context.Context, b *bench) (servers, error) {
		if err := b.pip(ctx, "dbos-"+dbosVersion, "dbos=="+dbosVersion); err != nil {
			return nil, err
		}
		p, err := startPostgres(ctx, b)
		return dbosServers{p}, err
	},
	client: func(b *bench, role string, _ bool) []string {
		return []string{filepath.Join(b.cache, "dbos-"+dbosVersion, "venv", "bin", "python"),
			filepath.Join(b.peers, "dbos_client.py"), role}
	},
}

type dbosServers struct{ *postgresServer }

func (s dbosServers) version() string {
	return "dbos " + dbosVersion + ", " + s.postgresServer.version()
}
