package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/foresight"
)

// simulate runs rota simulate on a log with these lines.
func simulate(t *testing.T, log string, args ...string) (out, said string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.swf")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	code = run(append([]string{"simulate", path}, args...), nil, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// swfLines returns a log of jobs, each with submit time, run time, processors and user.
func swfLines(jobs ...[4]int) string {
	var b strings.Builder
	b.WriteString("; MaxProcs: 10\n")
	for i, j := range jobs {
		for f := range 18 {
			n := map[int]int{0: i + 1, 1: j[0], 3: j[1], 4: j[2], 7: j[2], 8: j[1], 11: j[3]}[f]
			if f != 0 && f != 1 && f != 3 && f != 4 && f != 7 && f != 8 && f != 11 {
				n = -1
			}
			b.WriteString(strconv.Itoa(n) + " ")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestSimulate_workflow runs a recorded workflow of 10 tasks, at most 8 of them in parallel: on 8 processors no task
// waits, and it takes as long as its longest chain; on one as long as all of its tasks.
func TestSimulate_workflow(t *testing.T) {
	t.Parallel()
	const path = "../../internal/flowfile/testdata/helloworld-forkjoin-10-chameleon.json"
	for _, test := range []struct {
		procs           string
		makespan, maxAt float64
	}{{"8", 307, 308}, {"1", 1028, 1029}} {
		var o, e bytes.Buffer
		code := run([]string{"simulate", path, "--procs", test.procs, "--policy", "p:ranking=fifo", "-o", "json"}, nil,
			strings.NewReader(""), &o, &e)
		var got struct{ Policies []foresight.Result }
		if err := json.Unmarshal(o.Bytes(), &got); err != nil || code != cli.ExitDone || len(got.Policies) != 1 {
			t.Fatalf("%v, exit code %d: %s%s", err, code, &o, &e)
		}
		r := got.Policies[0]
		if r.Jobs != 10 || r.MakespanS < test.makespan || r.MakespanS > test.maxAt || r.CriticalPathS < 307 ||
			r.CriticalPathS > 308 {
			t.Errorf("on %s processors: %+v", test.procs, r)
		}
	}
	for _, args := range [][]string{{"--procs", "8", "--jobs", "3"}, {"--procs", "8", "--starts", "1:2"}, nil} {
		var o, e bytes.Buffer
		if code := run(append([]string{"simulate", path}, args...), nil, strings.NewReader(""), &o,
			&e); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, &e)
		}
	}
}

// TestSimulate_limits runs jobs under a rule of a key and a budget, and refuses files that are none.
func TestSimulate_limits(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const log = `{"submit_ms":0,"run_ms":10000,"keys":["m:1"],"costs":{"usd":4},"spent":{"usd":2}}
{"submit_ms":0,"run_ms":10000,"keys":["m:1"],"costs":{"usd":4}}
{"submit_ms":0,"run_ms":10000,"costs":{"usd":5}}
`
	args := []string{"--procs", "8", "--policy", "p:ranking=fifo", "--limits", limits, "-o", "json"}
	write("keys: [{name: m, concurrency: 1}]\nbudgets: [{name: b, unit: usd, limit: 6}]\n")
	out, said, code := simulate(t, log, args...)
	var got struct{ Policies []foresight.Result }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitDone || len(got.Policies) != 1 {
		t.Fatalf("%v, exit code %d: %s%s", err, code, out, said)
	}
	if r := got.Policies[0]; r.Jobs != 3 || r.Refused != 1 || r.WaitMaxS < 10 || r.WaitMaxS > 11 || r.Unbounded == "" {
		t.Errorf("%+v", r)
	}
	write("keys: [{name: m, concurrency: 1, queue: q}]")
	if out, said, code := simulate(t, log, args...); code != cli.ExitFailed || out != "" ||
		!strings.Contains(said, "keys[0].queue: got q") {
		t.Errorf("a rule of a queue: exit code %d, %s%s", code, out, said)
	}
	args[5] = limits + ".gone"
	if _, said, code := simulate(t, log, args...); code != cli.ExitUsage || !strings.Contains(said, "read --limits") {
		t.Errorf("no such file: exit code %d, %s", code, said)
	}
}

// TestSimulate compares the figures of a log with those calculated by hand: the second job waits for 99 s, the third,
// of the other user, for 147.
func TestSimulate(t *testing.T) {
	t.Parallel()
	log := swfLines([4]int{0, 100, 10, 1}, [4]int{1, 50, 10, 1}, [4]int{3, 50, 5, 2}, [4]int{4, 0, 1, 2},
		[4]int{5, 9, 11, 2})
	out, said, code := simulate(t, log, "--policy", "p:ranking=fifo", "-o", "json")
	var got struct{ Policies []foresight.Result }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitDone || len(got.Policies) != 1 {
		t.Fatalf("%v, exit code %d: %s%s", err, code, out, said)
	}
	r := got.Policies[0]
	if r.Jobs != 3 || r.WaitMeanS != 82 || r.WaitMaxS != 147 || r.WaitMedianS != 99 || r.MakespanS != 200 ||
		r.Utilisation != (1000.0+500+250)/2000 || r.BoundedSlowdown != (1+149.0/50+197.0/50)/3 {
		t.Errorf("%+v", r)
	}
	if len(r.Tenants) != 2 || r.Tenants[0].Name != "u1" || r.Tenants[0].WaitMeanS != 49.5 ||
		r.Tenants[1].Name != "u2" || r.Tenants[1].WaitMeanS != 147 ||
		r.Tenants[1].CPUHours != 250.0/3600 {
		t.Errorf("tenants: %+v", r.Tenants)
	}
	if !strings.Contains(said, "1 jobs dropped: no run time") ||
		!strings.Contains(said, "1 jobs dropped: more than the 10 processors") {
		t.Errorf("got stderr %q", said)
	}
	out, _, code = simulate(t, log, "--policy", "p:ranking=fifo", "--by", "tenant")
	if code != cli.ExitDone || !strings.Contains(out, "u2") {
		t.Errorf("by tenant, exit code %d: %s", code, out)
	}
}

func TestSimulate_refuses(t *testing.T) {
	t.Parallel()
	one := swfLines([4]int{0, 100, 10, 1})
	packed, many := gzipped(t, one, 1), "no jobs"
	if !testing.Short() { // it takes seconds
		many = gzipped(t, one[strings.Index(one, "\n")+1:], 2_000_001)
	}
	for _, test := range []struct {
		name, log string
		args      []string
		want      string
		code      int
	}{
		{"nothing", "", nil, "it has no jobs: a job log in the Standard Workload Format or jobs one JSON object a line",
			cli.ExitFailed},
		{"a header", "; MaxProcs: 4\n", nil, "a WfCommons instance (.json) or a load to draw (.yaml)", cli.ExitFailed},
		{"a cut line", one + "2 5 -1 9", nil, "line 3: got 4 fields, want 18: is the line cut", cli.ExitFailed},
		{"backward times", one + one[strings.Index(one, "\n")+1:] + strings.Replace(one[strings.Index(one, "\n")+1:],
			"1 0", "3 -4", 1), nil, "line 4: field 2 (submit time) must be at least 0, got -4", cli.ExitFailed},
		{"jobs that are too large", one, []string{"--procs", "9"},
			"no worker can run any of the 1 jobs: give larger ones by --procs or --workers", cli.ExitFailed},
		{"no run times", swfLines([4]int{0, 0, 1, 1}), nil, "--clean swf leaves none of the jobs", cli.ExitFailed},
		{"a machine of no size", strings.Replace(one, "10", "10000000000", 1), nil,
			"too many processors in its header: got 10000000000", cli.ExitFailed},
		{"a key that is none", one, []string{"--policy", "x:presett=fifo"},
			`policy x: unknown key "presett": did you mean "preset"?`, cli.ExitUsage},
		{"a window beyond the log", one, []string{"--starts", "1:1"},
			"a window of 1 jobs from job 1 exceeds the 1 jobs", cli.ExitUsage},
		{"a cleaning", one, []string{"--clean", "all"}, "swf, rls, predictsim, got", cli.ExitUsage},
		{"two policies of one name", one, []string{"--policy", "a:", "--policy", "a:hold_after=1s"}, "two are named a",
			cli.ExitUsage},
		{"-1 everywhere", one + strings.Repeat("-1 ", 18) + "\n", nil,
			"line 3: field 2 (submit time) must be at least 0, got -1", cli.ExitFailed},
		{"a cut gzip file", packed[:len(packed)-9], nil, "the gzip file is cut off after line", cli.ExitFailed},
		{"weights that are not whole", one, []string{"--policy", "a:ranking=market,w_fee=0.9"}, "w_fee", cli.ExitUsage},
		{"a value that cannot be", one, []string{"--policy", "a:backfill=best"}, `backfill "best"`, cli.ExitUsage},
		{"settings that contradict each other", one, []string{"--policy", "a:ranking=adaptive,backfill=easy"},
			"backfill", cli.ExitUsage},
		{"an estimate", one, []string{"--estimate", "best"}, "user, exact, last2, ema, quantile, got", cli.ExitUsage},
		{"more jobs than are simulated", many, nil,
			"line 2000001: more than 2000000 jobs: use --jobs N for the first N, or split the log", cli.ExitFailed},
		{"a key that cannot be", one, []string{"--policy", "a:t_lease=1s"}, "every simulated queue has lease_ms=",
			cli.ExitUsage},
		{"no key", one, []string{"--policy", "a:rankin=fifo"}, `did you mean "ranking"`, cli.ExitUsage},
	} {
		if test.log == "no jobs" {
			continue
		}
		if out, said, code := simulate(t, test.log, test.args...); out != "" || code != test.code ||
			!strings.Contains(said, test.want) {
			t.Errorf("%s: exit code %d, want %d; stderr %q, want %q; %s", test.name, code, test.code, said, test.want,
				out)
		}
	}
}

// gzipped returns a text, repeated the given number of times.
func gzipped(t *testing.T, text string, times int) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range times {
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// TestSimulate_drops counts the jobs that a log leaves open, by the rule that drops them, under each cleaning.
func TestSimulate_drops(t *testing.T) {
	t.Parallel()
	line := func(fields map[int]int) string { // -1 everywhere else
		var b strings.Builder
		for f := range 18 {
			n, ok := fields[f]
			if !ok {
				n = -1
			}
			b.WriteString(strconv.Itoa(n) + " ")
		}
		return b.String() + "\n"
	}
	log := swfLines([4]int{0, 100, 10, 1}) + line(map[int]int{1: 1}) + line(map[int]int{1: 2, 3: 0, 4: 2,
		8: 5}) + line(map[int]int{1: 3, 3: 7, 4: 11, 8: 5}) +
		line(map[int]int{1: 4, 3: 7, 8: 5}) + line(map[int]int{1: 5, 3: 7, 7: 2})
	for _, c := range []struct {
		clean string
		jobs  int64
		said  []string
	}{
		{"swf", 3, []string{"2 jobs dropped: no run time",
			"1 jobs dropped: more than the 10 processors of the largest worker"}},
		{"rls", 2, []string{"2 jobs dropped: no processors", "1 jobs dropped: no run time",
			"1 jobs dropped: more than the 10 processors of the largest worker"}},
		{"predictsim", 2, []string{"2 jobs dropped: no estimate", "1 jobs dropped: no run time",
			"1 jobs dropped: more than the 10 processors of the largest worker"}},
	} {
		out, said, code := simulate(t, log, "--clean", c.clean, "--policy", "p:", "-o", "json")
		var got struct{ Policies []foresight.Result }
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitDone ||
			got.Policies[0].Jobs != c.jobs {
			t.Errorf("%s: %v, exit code %d: %s%s", c.clean, err, code, out, said)
		}
		if lines := strings.Split(strings.TrimSpace(said), "\n"); !slices.Equal(lines, c.said) {
			t.Errorf("%s: got stderr %q, want %q", c.clean, lines, c.said)
		}
	}
}

// TestSimulate_interrupted prints the finished part, and exits with a shell's code for the signal.
func TestSimulate_interrupted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.swf")
	if err := os.WriteFile(path, []byte(swfLines([4]int{0, 100, 10, 1})), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cli.SignalError{Signal: syscall.SIGINT})
	var out, said bytes.Buffer
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said}
	root := rootCommand(a)
	root.SetArgs([]string{"simulate", path, "-o", "json"})
	err := root.ExecuteContext(ctx)
	var silent *cli.SilentExit
	if !errors.As(err, &silent) || silent.Code != 130 || !strings.Contains(out.String(), `"partial": true`) ||
		!strings.Contains(said.String(), "interrupted: 0 of 2 policies were finished") {
		t.Errorf("%v: %s%s", err, out.String(), said.String())
	}
}

// TestSimulate_inputs runs each kind of load: two jobs that need all of a machine of 2 processors, or run in parallel
// on two workers.
func TestSimulate_inputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := file("jobs.jsonl", `{"submit_ms":0,"run_ms":60000,"cpu_milli":2000}`+"\n"+
		`{"submit_ms":500,"run_ms":1000,"cpu_milli":2000}`+"\n")
	load := file("load.yaml", "for: 1h\nprocessors: 1\nstreams:\n- {per_hour: 60, run: 1s}\n")
	workers := file("workers.json", `{"workers": [{"id": "w", "count": 2, "cpu_milli": 2000}]}`)
	for _, test := range []struct {
		args  []string
		code  int
		want  string
		waits float64
	}{
		{[]string{lines, "--procs", "2"}, cli.ExitDone, "", 59.5 / 2},
		{[]string{lines, "--workers", workers}, cli.ExitDone, "", 0},
		{[]string{lines, "--procs", "2", "--jobs", "1"}, cli.ExitDone, "", 0},
		{[]string{lines}, cli.ExitUsage, "does not describe the machine: set --procs or --workers", 0},
		{[]string{lines, "--procs", "2", "--workers", workers}, cli.ExitUsage, "procs workers", 0},
		{[]string{lines, "--procs", "1"}, cli.ExitFailed, "no worker can run any of the 2 jobs", 0},
		{[]string{lines, "--workers", lines}, cli.ExitFailed, "read workers", 0},
		{[]string{load, "--jobs", "1"}, cli.ExitDone, "", 0},
		{[]string{workers, "--procs", "2"}, cli.ExitFailed, "line 1: no submit_ms", 0},
	} {
		var out, said bytes.Buffer
		code := run(append([]string{"simulate", "-o", "json", "--policy", "p:"}, test.args...), nil,
			strings.NewReader(""), &out, &said)
		if code != test.code || !strings.Contains(said.String(), test.want) {
			t.Errorf("%v: exit code %d, want %d; stderr %q, want %q", test.args, code, test.code, said.String(),
				test.want)
			continue
		}
		var got struct{ Policies []foresight.Result }
		if code != cli.ExitDone {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Policies[0].WaitMeanS != test.waits {
			t.Errorf("%v: %v: jobs wait for %g s, want %g", test.args, err, got.Policies[0].WaitMeanS, test.waits)
		}
	}
}

// TestSimulate_report writes a page, but never over a file, and none if no job could be simulated.
func TestSimulate_report(t *testing.T) {
	t.Parallel()
	log, page := swfLines([4]int{0, 100, 10, 1}, [4]int{1, 50, 10, 1}), filepath.Join(t.TempDir(), "out.html")
	if _, said, code := simulate(t, log, "--report", page, "--starts", "5:1"); code != cli.ExitUsage {
		t.Fatalf("a window beyond the log: exit code %d, %s", code, said)
	}
	if _, err := os.Stat(page); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a page without content: %v", err)
	}
	if _, said, code := simulate(t, log, "--report", page, "--starts", "0,1:1", "--policy",
		"p:"); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, said)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "<h1>log.swf</h1>") ||
		!strings.Contains(string(text), "means over 2 windows") || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("%v: %.400s", err, text)
	}
	if _, said, code := simulate(t, log, "--report", page); code != cli.ExitUsage ||
		!strings.Contains(said, "is there already") {
		t.Errorf("over a page: exit code %d, %s", code, said)
	}
	if again, err := os.ReadFile(page); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the page was changed: %v", err)
	}
	if _, said, code := simulate(t, log, "--report", filepath.Join(page, "x")); code != cli.ExitUsage {
		t.Errorf("an invalid path: exit code %d, %s", code, said)
	}
}
