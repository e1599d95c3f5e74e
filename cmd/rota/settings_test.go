package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settled applies the settings of one command without running it.
func settled(t *testing.T, environ []string, path string, args ...string) (*cobra.Command, *cli.App, error) {
	t.Helper()
	a := &cli.App{Environ: environ, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	root := rootCommand(a)
	cmd, _, err := root.Find(strings.Fields(path))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	root.SetArgs(append(strings.Fields(path), args...))
	return cmd, a, root.ExecuteContext(context.Background())
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rota.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettings_precedence(t *testing.T) {
	t.Parallel()
	path := configFile(t,
		"node: from-file\ndata: /file\ncluster: file\njoin: [a:1, b:2]\nbootstrap-expect: 3\ninsecure: true\n")
	environ := []string{"ROTA_NODE=from-env", "ROTA_DATA=/env", "ROTA_LOG_FORMAT=json", "ROTA_API=",
		"ROTA_JOB_ID=x"}
	cmd, _, err := settled(t, environ, "server", "--config", path, "--node", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"node": "from-flag", "data": "/env", "cluster": "file", "log-format": "json", "api": serve.DefaultAPI,
		"bootstrap-expect": "3", "insecure": "true", "raft": serve.DefaultRaft,
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	if got := cmd.Flags().Lookup("join").Value.(pflag.SliceValue).GetSlice(); !slices.Equal(got, []string{"a:1",
		"b:2"}) {
		t.Errorf("--join is %v", got)
	}
}

func TestSettings_config_from_environment(t *testing.T) {
	t.Parallel()
	path := configFile(t, "addr: x:1\ntimeout: 3s\n")
	_, a, err := settled(t, []string{"ROTA_CONFIG=" + path, "ROTA_ADDR=y:2,z:3"}, "job list")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(a.Addrs, ",") != "y:2,z:3" || a.Timeout.String() != "3s" || !a.TimeoutSet {
		t.Errorf("addrs %v, timeout %s", a.Addrs, a.Timeout)
	}
}

func TestSettings_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, want string }{
		{"unknown keys", "nodee: x\nzz: 1\ndata: y\n", "nodee, zz"},
		{"a nested key", "gossip:\n  key: x\n", "gossip.key"},
		{"a list for one value", "data: [a, b]\n", "data"},
		{"no number", "bootstrap-expect: many\n", "bootstrap-expect"},
		{"not YAML", "a: [\n", "config file"},
	} {
		_, _, err := settled(t, nil, "server", "--config", configFile(t, c.file))
		if err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, _, err := settled(t, []string{"ROTA_SLOTS=many"}, "worker run")
	if err == nil || !strings.Contains(err.Error(), "ROTA_SLOTS") || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("environment: %v", err)
	}
	if _, _, err := settled(t, nil, "job list", "-o", "xml"); err == nil || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("format: %v", err)
	}
}

// TestFlags checks that the commands and flags on which scripts depend exist.
func TestFlags(t *testing.T) {
	t.Parallel()
	contract := map[string]string{
		"server": "node data api raft admin gossip join bootstrap-expect cluster gossip-key-file tls-cert tls-key tls-ca " +
			"insecure config log-format log-level",
		"dev": "nodes data",
		"job submit": "queue type id priority tenant fee size payload delay ttl cpu memory requires region-allow region-deny " +
			"zone domain worker key batch expected-digest simulate-ms wait file",
		"job show": "", "job logs": "attempt follow",
		"cost":     "by since filter",
		"job list": "queue state tenant type filter count group limit cursor", "job wait": "timeout", "job cancel": "",
		"job retry":   "",
		"worker run":  "queues slots prefetch id takeover region zone cap cpu memory stake exec guard attestation",
		"worker list": "", "worker show": "", "worker drain": "",
		"queue list": "", "queue show": "", "queue set": "preset set", "queue pause": "", "queue delete": "",
		"tenant delete": "", "worker delete": "", "queue resume": "",
		"status": "check", "cluster status": "", "operator raft list-peers": "",
		"operator raft transfer-leadership": "to",
		"operator raft remove-peer":         "", "operator raft leave": "", "operator snapshot save": "",
		"operator snapshot inspect": "", "operator snapshot restore": "data node", "operator verify": "",
		"bench jobs": "jobs rate producers batch workers slots payload queue", "bench trace": "speedup jobs workers",
		"auth whoami": "token-file", "console": "open", "auth token create": "role tenant queue worker-prefix expires",
		"auth token list": "", "auth token revoke": "",
		"auth role set": "grant", "auth role list": "", "auth role delete": "", "auth block": "", "auth unblock": "",
		"auth blocks":    "",
		"auth anonymous": "", "auth login": "jwt-file out", "auth issuer set": "audience map ca-file",
		"auth issuer list": "", "auth issuer delete": "",
		"budget list": "", "budget show": "of limit by jobs", "budget set": "tenant queue key each unit limit default-cost every tz warn then",
		"budget grant": "of reason id", "budget reset": "of reason id", "budget delete": "",
		"key list": "", "key show": "tenant", "key top": "held name queue tenant limit",
		"key set": "queue scope concurrency rate per burst unit default-cost sequence trip of open probes trip-on on-full", "key skip": "job queue tenant scope",
		"key pause": "for until reason queue tenant scope", "key resume": "queue tenant scope",
		"key delete": "queue",
		"batch open": "size job queue type tenant payload", "batch seal": "", "batch list": "", "batch show": "",
		"batch wait":    "",
		"schedule set":  "cron tz every date start end limit jitter overlap catch-up catch-up-max pause-on-failure job queue type payload",
		"schedule list": "", "schedule show": "", "schedule next": "after count", "schedule pause": "reason",
		"schedule resume":  "catch-up",
		"tzdata install":   "release released older",
		"schedule trigger": "id", "schedule backfill": "overlap", "schedule delete": "",
		"webhook set": "url kinds filter generation", "webhook list": "", "webhook show": "", "webhook pause": "reason",
		"webhook resume": "", "webhook skip": "",
		"webhook delete": "", "webhook secret": "key-file",
		"relay webhooks": "key-file id slots allow-private allow-http",
		"relay postgres": "dsn-file print-migration notify",
		"plan start":     "filter to priority max id dry-run wait", "plan list": "", "plan show": "",
		"plan wait": "timeout", "plan cancel": "reason", "demo": "", "version": "", "completion bash": "",
	}
	a := &cli.App{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	root := rootCommand(a)
	for path, flags := range contract {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Errorf("command %q is missing: %v", path, err)
			continue
		}
		for _, name := range append(strings.Fields(flags), "addr", "output", "timeout") {
			if cmd.Flag(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", path, name)
			}
		}
	}
}

func runArgs(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, nil, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestRun_usage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"nonsense"}, {"job"}, {"job", "nonsense"}, {"job", "show"}, {"job", "show", "a", "b"}, {"job", "list",
			"--nonsense"},
		{"job", "list", "--limit", "x"}, {"job", "list", "--state", "SLEEPING"}, {"job", "list", "--limit", "0"},
		{"job", "submit"}, {"job", "submit", "--type", "t", "--priority", "11"}, {"job", "submit", "--type",
			"no type"},
		{"job", "submit", "--type", "t", "--expected-digest", "abc"}, {"job", "submit", "--type", "t", "--delay",
			"soon"},
		{"job", "submit", "--file", "x", "--type", "t"}, {"job", "submit", "--file", "/does/not/exist"},
		{"job", "submit", "--type", "t", "--payload", "@/does/not/exist"}, {"job", "show", "not an id"},
		{"queue", "set", "q", "--preset", "nonsense"}, {"queue", "set", "q", "--set", "nonsense=1"},
		{"queue", "set", "q", "--set", "lease_ms"}, {"queue", "set", "q", "--set", "ranking=best"},
		{"worker", "run"}, {"worker", "run", "--queues", "q", "--slots", "0"}, {"operator", "raft"},
		{"bench", "jobs", "--jobs", "0"}, {"bench", "jobs", "--batch", "5000"}, {"bench", "trace"},
		{"bench", "trace", "/does/not/exist"}, {"bench", "trace", "x", "--speedup", "0"}, {"version", "x"},
		{"operator", "snapshot", "restore", "f"}, {"server", "--node", "a", "--data", "d", "--api", "nonsense"},
		{"server", "--log-level", "loud", "--node", "a"}, {"dev", "--nodes", "0"}, {"job", "list", "--timeout",
			"0s"},
		{"budget", "show", "b", "--asking", "--by", "day"}, {"budget", "show", "b", "--by", "month"},
	} {
		code, stdout, stderr := runArgs(args...)
		if code != cli.ExitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr,
			"rota: ") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestRun_without_a_cluster(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runArgs("--addr", "127.0.0.1:1", "--timeout", "300ms", "cluster", "status")
	if code != cli.ExitUnavailable || stdout != "" || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	// Without --timeout, too, a status ends, and prints the cause for each node.
	code, stdout, stderr = runArgs("--addr", "127.0.0.1:1,127.0.0.1:2", "cluster", "status")
	if code != cli.ExitUnavailable || stdout != "" || strings.Count(stderr, "\n") != 1 ||
		strings.Count(stderr, "connection refused") != 2 ||
		!strings.Contains(stderr, "node 127.0.0.1:1: ") || !strings.Contains(stderr, "node 127.0.0.1:2: ") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRun_offline(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runArgs("version", "-o", "json")
	if code != 0 || !strings.Contains(stdout, `"version": "`+serve.Version+`"`) {
		t.Errorf("version: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := runArgs("--version"); code != 0 || !strings.Contains(stdout, serve.Version) {
		t.Errorf("--version: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := runArgs("--help"); code != 0 || !strings.Contains(stdout, "Exit codes") {
		t.Errorf("help: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := runArgs("completion", "bash"); code != 0 || !strings.Contains(stdout, "__complete") {
		t.Errorf("completion: exit %d, %d bytes", code, len(stdout))
	}
	code, _, stderr := runArgs("operator", "snapshot", "inspect", "/does/not/exist")
	if code != cli.ExitNotFound && code != cli.ExitFailed {
		t.Errorf("inspect: exit %d, %s", code, stderr)
	}
}

// A mistyped word is answered by the most likely one.
func TestRun_did_you_mean(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"jb":                               "job",
		"job lst":                          "list",
		"job list --quue x":                "--queue",
		"job list --state complete":        "COMPLETED",
		"workflow list --state fail":       "FAILED",
		"mode set NORMA --reason x":        "NORMAL",
		"queue set q --set attempts_max=3": "attempt_max",
		"queue set q --preset standart":    "standard",
		"tenant set t --tier premum":       "PREMIUM",
		"events tail --kind jobded":        "jobDead",
		"job list -o jsn":                  "json",
		"server --log-level inf":           "info",
	} {
		code, stdout, stderr := runArgs(strings.Fields(args)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "did you mean") ||
			!strings.Contains(stderr, want) {
			t.Errorf("rota %s: exit %d, %s; want the suggestion %s", args, code, stderr, want)
		}
	}
}

// TestRun_bareDurations: a number without a unit is refused with both readings.
func TestRun_bareDurations(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"queue set q --set backoff_base=5": "write backoff_base=5ms or backoff_base=5s",
		"queue set q --set expected.t=5":   "write expected.t=5ms or expected.t=5s",
		"tenant set t --penalty 5":         "write penalty=5ms or penalty=5s",
		"job submit --type x --delay 5":    "write 5ms or 5s",
	} {
		code, stdout, stderr := runArgs(strings.Fields(args)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("rota %s: exit %d, %s; want %s", args, code, stderr, want)
		}
	}
}

// TestEnvironment: the cases that the command line and all client libraries share.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../testdata/environment/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, File, Token, Refused string
		Env                        map[string]string
		Mode                       os.FileMode
		Addresses                  []string
		TimeoutMs                  int64 `json:"timeout_ms"`
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 10 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var environ []string
			for name, value := range c.Env {
				environ = append(environ, name+"="+strings.ReplaceAll(value, "$DIR", dir))
			}
			if c.File != "" {
				token := filepath.Join(dir, "token")
				if err := errors.Join(os.WriteFile(token, []byte(c.File), c.Mode),
					os.Chmod(token, c.Mode)); err != nil {
					t.Fatal(err)
				}
			}
			_, a, err := settled(t, environ, "job list")
			if err == nil {
				_, err = a.Dial() // nothing is sent before a call
			}
			if c.Refused != "" {
				if err == nil {
					t.Errorf("%s is accepted", c.Refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			token := ""
			if show, err := a.Token(); err != nil {
				t.Error(err)
			} else if show != nil {
				token, _ = show()
			}
			if !slices.Equal(a.Addrs, c.Addresses) || token != c.Token || a.Timeout.Milliseconds() != c.TimeoutMs {
				t.Errorf("nodes %v, token %q, timeout %v", a.Addrs, token, a.Timeout)
			}
		})
	}
}
