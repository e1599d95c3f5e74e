package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

func main() { os.Exit(program(os.Args[1:])) }

// program is all roles of this program; it gives the exit code.
func program(args []string) int {
	role := os.Getenv(roleKey)
	_ = os.Unsetenv(roleKey) // it is not our children's, if not given anew
	var err error
	switch role {
	case roleHolder:
		hold()
	case roleEnter:
		err = enterNetwork(args[0], args[1:], os.Environ())
	case roleWorker:
		err = workAs()
	case roleProbe:
		err = probe()
	case roleRemover:
		err = removeAll(args[0])
	case roleDisk:
		err = serveDisk(args[0], args[1])
	default:
		return command(args, role == roleRouter)
	}
	if err != nil {
		say("%s: %v", role, err)
		return 1
	}
	return 0
}

// command is the program as people call it: 0 is well, 1 is a violation or a
// run that could not be made, 2 is a wrong call.
func command(args []string, router bool) int {
	o, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		say("%v", err)
		return 2
	}
	if o.Recheck != "" {
		return recheck(o)
	}
	if !o.prepared {
		code, err := prepare(o)
		if err != nil {
			say("%v", err)
			return 1
		}
		return code
	}
	if o.Network == "namespaces" && !router {
		say("--prepared is internal")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	verdict, err := run(ctx, o)
	if err != nil {
		say("%v", err)
		return 1
	}
	return verdict.print(os.Stdout, o.JSON)
}

// prepare makes what a run needs, then runs: in a network of its own where that
// can be had.
func prepare(o Options) (int, error) {
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
		if o.Rota, err = rig.Build(o.Keep, "-tags", testClockTag); err != nil {
			return 1, err
		}
	}
	if o.Rota, err = filepath.Abs(o.Rota); err != nil {
		return 1, err
	}
	if o.Via == viaDocker {
		if err := prepareContainers(o.Keep); err != nil {
			return 1, err
		}
	} else if o.Network != "loopback" {
		why := canMakeSpaces()
		switch {
		case why == nil:
			o.Network = "namespaces"
		case o.Network == "namespaces":
			return 1, fmt.Errorf("networks cannot be made here: %w", why)
		default:
			say("no partitions in this run, networks cannot be made here: %v", why)
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
func again(o Options) (int, error) {
	if o.Network == "namespaces" {
		return asRouter(o.args())
	}
	return command(o.args(), false), nil
}

// moduleRoot is where this module's sources are.
func moduleRoot() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// removeData leaves of a run that went well only the report and the history.
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

// recheck judges a saved history again and writes its report anew.
func recheck(o Options) int {
	h, err := loadHistory(o.Recheck)
	if err != nil {
		say("%v", err)
		return 1
	}
	verdict := judge(h)
	verdict.History, verdict.Data = o.Recheck, filepath.Dir(o.Recheck)
	verdict.Report = filepath.Join(filepath.Dir(o.Recheck), "report.html")
	if err := writeReport(verdict.Report, h, verdict); err != nil {
		say("%v", err)
		return 1
	}
	return verdict.print(os.Stdout, o.JSON)
}

// Verdict is what a run ends with.
type Verdict struct {
	Seed       uint64 `json:"seed"`
	Operations int    `json:"operations"`
	Faults     int    `json:"faults"`
	Violations int    `json:"violations"`
	// Safety says that nothing bad happened, Liveness that what is good came in time.
	Safety    SafetyVerdict   `json:"safety"`
	Liveness  LivenessVerdict `json:"liveness"`
	Anomalies []Anomaly       `json:"anomalies"`
	Report    string          `json:"report"`
	// Beyond the contract: what was not judged, figures, where the rest is.
	History string         `json:"history"`
	Data    string         `json:"data,omitempty"`
	Network string         `json:"network"`
	Figures map[string]any `json:"figures"`
	// Undecided are checks that had to be left open, with the reason.
	Undecided []string `json:"undecided"`
	// pictures go beside the report.
	pictures []picture
}

// print says the verdict and gives the exit code.
func (v *Verdict) print(out io.Writer, asJSON bool) int {
	if asJSON {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			say("%v", err)
			return 1
		}
		fmt.Fprintf(out, "%s\n", text)
	} else {
		fmt.Fprintf(out, "seed %d: %d operations, %d faults, %d violations (%s)\n", v.Seed, v.Operations, v.Faults,
			v.Violations, time.Now().Format(time.RFC3339))
		fmt.Fprintf(out, "safety: %d violations; liveness: %d violations, %s\n", v.Safety.Violations, v.Liveness.Violations,
			v.Liveness.times())
		for _, a := range v.Anomalies {
			fmt.Fprintf(out, "  %s: %s\n", a.Checker, a.Text)
		}
		fmt.Fprintf(out, "report %s\n", v.Report)
	}
	if v.Violations > 0 {
		say("violations: data and logs are kept in %s", v.Data)
		return 1
	}
	return 0
}
