package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
	"github.com/rotasched/rota/test/jepsen-lite/workload"
	"github.com/rotasched/rota/test/rig"
)

func main() { os.Exit(program(os.Args[1:])) }

// program runs all roles of this program; it returns the exit code.
func program(args []string) int {
	role := os.Getenv(fault.RoleKey)
	_ = os.Unsetenv(fault.RoleKey) // not for our children, unless set again
	played, err := fault.Play(role, args)
	if role == fault.RoleWorker {
		played, err = true, workload.Work()
	}
	if !played {
		return command(args, role == fault.RoleRouter)
	}
	if err != nil {
		check.Say("%s: %v", role, err)
		return 1
	}
	return 0
}

// command is the program as users run it: 0 is success, 1 is a violation or a run that could not be made, 2 is a wrong
// call.
func command(args []string, router bool) int {
	o, err := fault.ParseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		check.Say("%v", err)
		return 2
	}
	if o.Recheck != "" {
		return recheck(o)
	}
	if !o.Prepared {
		code, err := prepare(o)
		if err != nil {
			check.Say("%v", err)
			return 1
		}
		return code
	}
	if o.Network == "namespaces" && !router {
		check.Say("--prepared is internal")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	verdict, err := run(ctx, o)
	if err != nil {
		check.Say("%v", err)
		return 1
	}
	return verdict.Print(os.Stdout, o.JSON)
}

// prepare makes everything that a run needs, then runs: in a separate network where available.
func prepare(o fault.Options) (int, error) {
	temporary := o.Keep == ""
	if temporary {
		dir, err := os.MkdirTemp("", "jepsen-lite-")
		if err != nil {
			return 1, err
		}
		o.Keep = dir
	}
	var err error
	if o.Keep, err = filepath.Abs(o.Keep); err != nil {
		return 1, err
	}
	if err := os.MkdirAll(o.Keep, 0o700); err != nil {
		return 1, err
	}
	if o.Rota == "" {
		if o.Rota, err = rig.Build(o.Keep, "-tags", fault.TestClockTag); err != nil {
			return 1, err
		}
	}
	if o.Rota, err = filepath.Abs(o.Rota); err != nil {
		return 1, err
	}
	if o.Via == fault.ViaDocker {
		if err := fault.PrepareContainers(o.Keep); err != nil {
			return 1, err
		}
	} else if o.Network != "loopback" {
		why := fault.CanMakeSpaces()
		switch {
		case why == nil:
			o.Network = "namespaces"
		case o.Network == "namespaces":
			return 1, fmt.Errorf("networks cannot be made here: %w", why)
		default:
			check.Say("no partitions in this run, networks cannot be made here: %v", why)
			o.Network = "loopback"
		}
	}
	code, err := again(o)
	if code == 0 && err == nil && temporary {
		removeData(o.Keep)
	}
	return code, err
}

// again runs this program with everything prepared.
func again(o fault.Options) (int, error) {
	if o.Network == "namespaces" {
		return fault.AsRouter(o.Args())
	}
	return command(o.Args(), false), nil
}

// removeData keeps only the report and the history of a successful run.
func removeData(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !slices.Contains([]string{"report.html", "history.json.gz"}, e.Name()) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// recheck judges a saved history again and writes a new report.
func recheck(o fault.Options) int {
	h, err := check.LoadHistory(o.Recheck)
	if err != nil {
		check.Say("%v", err)
		return 1
	}
	verdict := check.Judge(h)
	verdict.History, verdict.Data = o.Recheck, filepath.Dir(o.Recheck)
	verdict.Report = filepath.Join(filepath.Dir(o.Recheck), "report.html")
	if err := check.WriteReport(verdict.Report, h, verdict); err != nil {
		check.Say("%v", err)
		return 1
	}
	return verdict.Print(os.Stdout, o.JSON)
}

// run is one run from beginning to end.
func run(ctx context.Context, o fault.Options) (*check.Verdict, error) {
	limit := int(o.Duration.Seconds()+60) * fault.OpsPerSecond
	rec := check.NewRecorder(check.Monotonic(), limit)
	network, err := workload.OpenNetwork(o, rec)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	w, err := workload.NewTrial(o, rec, network)
	if err != nil {
		return nil, err
	}
	defer w.Cluster.UnmountAll()
	defer w.Cluster.End()
	defer w.Clients.End()
	if err := w.Settle(ctx); err != nil {
		return nil, err
	}
	check.Say("seed %d: %d nodes and %d workers in %s, %s of faults, all in %s", o.Seed, o.Nodes, o.Workers,
		network.Name(), o.Duration, o.Keep)
	w.Live(ctx)
	w.Rest()
	w.Outlive(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stopped before the end: %w", ctx.Err())
	}
	h := w.History()
	check.Say("judging %d operations and %d faults", len(h.Ops), len(h.Faults))
	verdict := check.Judge(h)
	verdict.History = filepath.Join(o.Keep, "history.json.gz")
	verdict.Report = filepath.Join(o.Keep, "report.html")
	if verdict.Violations > 0 {
		verdict.Data = o.Keep
	}
	if err := check.SaveHistory(verdict.History, h); err != nil {
		return nil, err
	}
	return verdict, check.WriteReport(verdict.Report, h, verdict)
}
