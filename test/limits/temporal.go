package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rotasched/rota/test/rig"
)

// temporalVersion is that of Temporal's command, which contains a server; temporalServer is that server's version.
const temporalVersion, temporalServer = "v1.5.1", "1.29.1"

// temporalRate is how many starts per second a key has.
const temporalRate = 5

var temporalSystem = system{
	name: "temporal", title: "Temporal", has: map[kind]bool{short: true}, server: "the development server",
	load: &load{keys: 50, trickle: 1, shortKeys: 1, ahead: 40, limits: limits{Concurrency: 3, Rate: temporalRate, Burst: temporalRate,
		Units: 6000, UnitsBurst: 2000}},
	settings: []string{
		"5 starts per second for each of 50 keys, one of them with short calls and a backlog, and 1 job per second for the " +
			"others: the server did some 10 jobs per second here.",
		"The development server with a SQLite file and one partition for each task queue.",
		"An activity task queue for each key, with a worker in each worker process and `TaskQueueActivitiesPerSecond: 5`, " +
			"which the server keeps for all workers of the queue together.",
		"A job is a workflow with one activity, the call, which sends heartbeats; `HeartbeatTimeout` is 30 s. " +
			"Fairness keys with `--fairness-key-rps-limit-default` reached only a fifth of a limit of 5 per second.",
		"A key has no limit of concurrency: a worker's limits are for one process.",
		"Version 1.5.1 is the last that the Go module proxy has all parts of.",
	},
	goDir: goPeersDir,
	start: startTemporal,
	client: func(b *bench, role string, skewed bool) []string {
		return []string{b.goProgram("temporal", b.goPeersProgram(), skewed), "temporal", role}
	},
}

type temporalServers struct {
	program, dir, address string
	process               *rig.Process
}

func startTemporal(ctx context.Context, b *bench) (servers, error) {
	name := "temporal-" + temporalVersion
	err := b.goInstall(ctx, name, "github.com/temporalio/cli/cmd/temporal", temporalVersion)
	if err == nil {
		err = b.goPeers(ctx)
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "temporal-")
	if err != nil {
		return nil, err
	}
	s := &temporalServers{program: filepath.Join(b.cache, name, "program"), dir: dir}
	if s.address, err = rig.FreeAddr(); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *temporalServers) start(ctx context.Context) error {
	host, port, _ := net.SplitHostPort(s.address)
	line := []string{"server", "start-dev", "--headless", "--ip", host, "--port", port, "--log-level", "error",
		"--db-filename", filepath.Join(s.dir, "temporal.db")}
	for _, setting := range []string{"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"} {
		line = append(line, "--dynamic-config-value", setting)
	}
	var err error
	if s.process, err = rig.Start("temporal", exec.Command(s.program, line...), filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	return rig.Until(ctx, func() error {
		if !s.process.Running() {
			return rig.Final(fmt.Errorf("the server ended: %s", s.process.LastWords(6)))
		}
		return exec.CommandContext(ctx, s.program, "operator", "cluster", "health", "--address", s.address).Run()
	})
}

func (s *temporalServers) version() string {
	return "temporal " + temporalVersion + ", server " + temporalServer
}

func (s *temporalServers) addresses() []string { return []string{s.address} }

func (s *temporalServers) crash(context.Context) (func(context.Context) error, error) {
	s.process.Kill()
	return s.start, nil
}

func (s *temporalServers) stop() { s.process.Kill() }
