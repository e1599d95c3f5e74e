package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// system is a job system under test.
type system struct {
	name, title string
	// has are the limits that it offers for each key: starts, concurrency, units.
	has map[kind]bool
	// noJobs means that it is a proxy for calls: there are no jobs that it could lose or repeat.
	noJobs bool
	// perMinute means that its limits are per minute: only windows of a minute are judged.
	perMinute bool
	// server names the process that a server fault kills.
	server string
	// holds is how long the work of a silent worker may keep other jobs waiting, if that is more than maxQuiet.
	holds time.Duration
	// load is the load, for systems that cannot do all of it; nil is all.
	load *load
	// settings are what the page reports about the setup, one sentence each.
	settings []string
	// goDir returns the directory with the source of its client, for a Go program; libfaketime moves the clock of others.
	goDir func(b *bench) string
	// start installs and starts its servers.
	start func(ctx context.Context, b *bench) (servers, error)
	// client returns the command line of a client process: a worker, or the submitter. skewed asks for the Go program
	// with a wrong clock.
	client func(b *bench, role string, skewed bool) []string
}

// servers are the processes of a system that decide which job starts.
type servers interface {
	version() string
	// addresses are those that clients connect to.
	addresses() []string
	// crash kills the deciding server with SIGKILL. The returned function starts it again and returns once it serves.
	crash(ctx context.Context) (restart func(context.Context) error, err error)
	stop()
}

// systems are all systems in the order of the page.
var systems = []system{rotaSystem, bullmqSystem, dbosSystem, asynqSystem, temporalSystem, litellmSystem}

// bench holds what all runs share: directories, the binary of rota and options.
type bench struct {
	options
	// dir is a temporary directory, peers the directory of the peers' programs, cache that of installed packages.
	dir, peers, cache, self string
}

func newBench(o options) (*bench, error) {
	b := &bench{options: o}
	var err error
	if b.rota, err = filepath.Abs(o.rota); err != nil {
		return nil, err
	}
	if b.peers, err = filepath.Abs("test/limits/peers"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.peers); err != nil {
		return nil, err // the program must run in the root of the repository
	}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	b.cache = filepath.Join(base, "rota-limits")
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, err
	}
	b.dir, err = os.MkdirTemp("", "rota-limits-")
	return b, err
}

// find returns the systems of a list of names; all for an empty list.
func find(names string) (some []system, unknown string) {
	if names == "" {
		return systems, ""
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, s := range systems {
			if s.name == name {
				some, found = append(some, s), true
			}
		}
		if !found {
			return nil, name
		}
	}
	return some, ""
}

// goProgram returns the path of a Go client: the program, or the one with a wrong clock.
func (b *bench) goProgram(name, program string, skewed bool) string {
	if skewed {
		return filepath.Join(b.dir, name+"-skewed")
	}
	return program
}

// missing returns the first of some programs that is not installed.
func missing(programs ...string) string {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p
		}
	}
	return ""
}
