package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// The command line is a contract: scripts depend on names of fields, formats and exit codes.
func TestCLI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.worker(t, "--queues", "default,cli", "--id", "cli-w1", "--slots", "4", "--region", "eu", "--zone", "z1",
		"--cap", "gpu", "--cap", "a100", "--cpu", "4000", "--memory", "1000000")
	c.rota(t, "queue", "set", "cli").want(t, 0)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"formats", cliFormats}, {"data_on_stdout_talk_on_stderr", cliStreams},
		{"job_submit_takes_every_flag", cliSubmit}, {"job_show_fields", cliShow}, {"job_list", cliList},
		{"job_wait", cliWait}, {"job_cancel_and_retry", cliChange}, {"payload", cliPayload},
		{"delay_and_ttl", cliDelay}, {"requirements", cliRequires}, {"expected_digest", cliDigest},
		{"usage_is_2", cliUsage}, {"unknown_is_3", cliUnknown}, {"refused_is_4", cliRefused},
		{"queue", cliQueue}, {"delete", cliDelete}, {"worker", cliWorker}, {"cluster_status", cliStatus},
		{"operator", cliOperator}, {"file", cliFile}, {"file_in_bulk", cliFileBulk},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
}

// fields checks that a JSON object has exactly these fields, in any order; one with a ? is optional. One with a * is a
// moment, which is three fields.
func fields(t *testing.T, what string, object map[string]any, names ...string) {
	t.Helper()
	known := make(map[string]bool)
	for _, name := range names {
		bare, optional := strings.CutSuffix(name, "?")
		parts := []string{bare}
		if moment, is := strings.CutSuffix(bare, "*"); is {
			parts = []string{moment + "_ms", moment + "_at", moment + "_clock_ms"}
		}
		for _, part := range parts {
			known[part] = true
			if _, there := object[part]; !there && !optional {
				t.Errorf("%s has no field %q", what, part)
			}
		}
	}
	for name := range object {
		if !known[name] {
			t.Errorf("%s has a field %q outside the promised ones", what, name)
		}
	}
}

// object reads a command's JSON object.
func object(t *testing.T, r *result) map[string]any {
	t.Helper()
	return decode[map[string]any](t, r)
}

// list returns the objects of a list's field.
func list(t *testing.T, from map[string]any, field string) []map[string]any {
	t.Helper()
	items, ok := from[field].([]any)
	if !ok {
		t.Fatalf("field %q is not a list: %v", field, from[field])
	}
	var objects []map[string]any
	for _, item := range items {
		objects = append(objects, item.(map[string]any))
	}
	return objects
}

// Every command that prints data prints it in all formats, the same data.
func cliFormats(t *testing.T, c *nodes) {
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "f", "--id", "formats", "--payload", "yes: no",
		"--wait").want(t, 0)
	c.rota(t, "tenant", "set", "cli-t1", "--weight", "2").want(t, 0)
	for _, args := range [][]string{
		{"job", "show", "formats"}, {"job", "list", "--type", "f"}, {"job", "wait", "formats"},
		{"queue", "show", "cli"}, {"queue", "list"}, {"worker", "show", "cli-w1"}, {"worker", "list"},
		{"tenant", "show", "cli-t1"}, {"tenant", "list"}, {"mode", "get"},
		{"cluster", "status"}, {"operator", "raft", "list-peers"}, {"operator", "verify"}, {"version"},
	} {
		what := strings.Join(args, " ")
		for _, format := range []string{"table", "wide", "json", "jsonl", "yaml", "name"} {
			r := c.rota(t, append(args, "-o", format)...).want(t, 0)
			if r.stdout == "" || r.stderr != "" {
				t.Errorf("%s -o %s: stdout %q, stderr %q", what, format, r.stdout, r.stderr)
			}
			lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
			switch format {
			case "json":
				object(t, r)
			case "jsonl":
				for _, line := range lines {
					if !json.Valid([]byte(line)) {
						t.Errorf("%s -o jsonl printed the line %q", what, line)
					}
				}
			case "name":
				if slices.ContainsFunc(lines, func(l string) bool {
					return l == "" || strings.ContainsAny(l, " \t{")
				}) {
					t.Errorf("%s -o name printed %q", what, r.stdout)
				}
			}
		}
	}
	name := c.rota(t, "job", "show", "formats", "-o", "name").stdout
	if name != "formats\n" {
		t.Errorf("job show -o name printed %q", name)
	}
	yaml := c.rota(t, "job", "show", "formats", "-o", "yaml").stdout
	contains(t, "yaml", yaml, "id: formats\n", "state: COMPLETED\n", "payload: 'yes: no'\n", "attempt: 0\n")
	c.rota(t, "job", "list", "-o", "xml").want(t, 2)
}

func cliStreams(t *testing.T, c *nodes) {
	r := c.rota(t, "job", "show", "no-such-job").want(t, 3)
	if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("a refusal: stdout %q, stderr %q, want one line on stderr", r.stdout, r.stderr)
	}
	contains(t, "stderr", r.stderr, "rota: ", "no-such-job")
	usage := c.rota(t, "job", "show").want(t, 2)
	if usage.stdout != "" {
		t.Errorf("wrong usage printed on stdout: %q", usage.stdout)
	}
	help := c.rota(t, "job", "submit", "--help").want(t, 0)
	contains(t, "help", help.stdout, "--queue", "--expected-digest", "--simulate-ms")
	for shell, mark := range map[string]string{"bash": "complete", "zsh": "compdef", "fish": "complete"} {
		contains(t, shell+" completion", c.rota(t, "completion", shell).want(t, 0).stdout, mark, "rota")
	}
	fields(t, "version", object(t, c.rota(t, "version", "-o", "json")), "version", "revision", "dirty", "go",
		"platform", "formats")
}

func cliUsage(t *testing.T, c *nodes) {
	for _, args := range []string{
		"", "nonsense", "job", "job nonsense", "job submit --nonsense", "job submit",
		"job submit --type x --priority 11",
		"job submit --type x --priority -1", "job submit --type x --priority five", "job submit --type x --id a/b",
		"job submit --type x --fee -1",
		"job submit --type x --expected-digest zz", "job submit --type x --expected-digest abcd",
		"job submit --type x --delay -1s",
		"job submit --type x --payload @/no/such/file", "job submit --file /no/such/file",
		"job submit --file x --type y",
		"job list --state NONSENSE", "job list --limit 0", "job show", "job show a b", "job wait", "job wait /etc",
		"job cancel",
		"queue set q --preset nonsense", "queue set q --set nonsense=1", "queue set q --set queue_cap",
		"queue set q --set queue_cap=many",
		"queue set q --set queue_cap=-1", "queue set bad/name", "worker run", "worker run --queues q --slots -1",
		"worker show", "worker nonsense",
		"cluster", "operator raft", "operator snapshot save", "operator snapshot restore f", "bench jobs --jobs 0",
		"bench trace /no/such.swf",
		"cluster status --timeout 0s", "cluster status --timeout soon", "server", "server --node n",
		"server --node n --data d --api nonsense", "dev --nodes 0", "cluster status --addr nonsense",
	} {
		r := c.rota(t, strings.Fields(args)...)
		if r.code != 2 || r.stdout != "" || r.stderr == "" {
			t.Errorf("rota %s: exit code %d, stdout %q, stderr %q; want 2, nothing and a reason", args, r.code,
				r.stdout, r.stderr)
		}
	}
	for args, names := range map[string][]string{
		"queue set q --preset nonsense": {"nonsense", "standard", "aicf-ai"},
		"job list --state NONSENSE":     {"NONSENSE", "COMPLETED"},
		"queue set q --set nonsense=1":  {"nonsense"}, "job submit --type x --priority 11": {"priority", "11", "10"},
	} {
		contains(t, "rota "+args, c.rota(t, strings.Fields(args)...).stderr, names...)
	}
}

func cliUnknown(t *testing.T, c *nodes) {
	for _, args := range []string{
		"job submit --type x --queue nowhere", "job show nothing", "job cancel nothing", "job retry nothing",
		"job delete nothing", "job wait nothing --timeout 5s",
		"queue show nowhere", "queue pause nowhere", "queue resume nowhere", "worker show nobody",
		"worker drain nobody", "operator raft remove-peer nobody", "operator raft transfer-leadership --to nobody",
	} {
		if r := c.rota(t, strings.Fields(args)...); r.code != 3 {
			t.Errorf("rota %s: exit code %d, want 3: %s", args, r.code, r.stderr)
		}
	}
	c.rota(t, "queue", "show", "nowhere").want(t, 3) // a pause created none
	contains(t, "the refusal", c.rota(t, "job", "submit", "--type", "x", "--queue", "nowhere").stderr, "nowhere",
		"rota queue set")
}

func cliRefused(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "narrow", "--set", "queue_cap=2").want(t, 0)
	for _, id := range []string{"narrow-1", "narrow-2"} {
		c.rota(t, "job", "submit", "--queue", "narrow", "--type", "x", "--id", id).want(t, 0)
	}
	r := c.rota(t, "job", "submit", "--queue", "narrow", "--type", "x").want(t, 4)
	contains(t, "the refusal", r.stderr, "narrow", "2", "again")
	// A known id is answered before any admission check.
	c.rota(t, "job", "submit", "--queue", "narrow", "--type", "x", "--id", "narrow-1").want(t, 0)
	contains(t, "the refusal", c.rota(t, "job", "delete", "narrow-1").want(t, 1).stderr, "narrow-1", "cancel it first")
	c.rota(t, "job", "cancel", "narrow-1").want(t, 0)
	c.rota(t, "job", "delete", "narrow-1").want(t, 0)
	c.rota(t, "job", "delete", "narrow-1").want(t, 0)
	c.rota(t, "job", "show", "narrow-1").want(t, 3)
	c.rota(t, "job", "submit", "--queue", "narrow", "--type", "x", "--id", "narrow-3").want(t, 0)
}

// With no cluster every call ends at its deadline with 7.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	for _, args := range []string{"cluster status", "job list", "job submit --type x", "queue list", "worker list",
		"operator verify",
		"operator raft list-peers"} {
		r := command(t, nil, "", append(strings.Fields(args), "--addr", addr, "--timeout", "1s")...)
		if r.code != 7 || r.took > 5*time.Second {
			t.Errorf("rota %s without a cluster: exit code %d after %s, want 7 after 1 s: %s", args, r.code, r.took,
				r.stderr)
		}
		contains(t, "stderr", r.stderr, addr, "ROTA_ADDR")
	}
}

// A flag overrides the environment, the environment overrides the file, the file overrides the default; an error names
// the source of its value.
func TestSettingsPrecedence(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	addr, dead := c.all[0].API, freeAddress(t)
	file := writeFile(t, t.TempDir()+"/rota.yaml", "addr: "+addr+"\noutput: name\nqueue: default\ntype: from-file\n")
	run := func(env []string, args ...string) *result {
		return command(t, env, "", append(args, "--timeout", "20s")...)
	}
	if out := run(nil, "cluster", "status", "--config", file).want(t, 0).stdout; out != "n1\n" {
		t.Errorf("the file's output format gave %q", out)
	}
	run([]string{"ROTA_CONFIG=" + file}, "cluster", "status").want(t, 0)
	command(t, []string{"ROTA_ADDR=" + dead}, "", "cluster", "status", "--config", file, "--timeout", "2s").want(t, 7)
	run([]string{"ROTA_ADDR=" + dead}, "cluster", "status", "--config", file, "--addr", addr).want(t, 0)
	object(t, run([]string{"ROTA_OUTPUT=json"}, "cluster", "status", "--config", file))
	object(t, run([]string{"ROTA_OUTPUT=yaml"}, "cluster", "status", "--config", file, "-o", "json"))
	run([]string{"ROTA_ADDR=" + addr, "ROTA_TIMEOUT=nonsense"}, "job", "list").want(t, 0) // the flag is given
	bad := command(t, []string{"ROTA_TIMEOUT=nonsense"}, "", "job", "list").want(t, 2)
	contains(t, "stderr", bad.stderr, "ROTA_TIMEOUT", "nonsense")
	job := decode[rota.Job](t, run([]string{"ROTA_PRIORITY=2", "ROTA_ZONE=z"}, "job", "submit", "--config", file, "-o",
		"json", "--zone", "y"))
	if job.Type != "from-file" || job.Priority != 2 || job.Zone != "y" {
		t.Errorf("type %s from the file, priority %d from the environment, zone %s from the flag", job.Type,
			job.Priority, job.Zone)
	}
	unknown := writeFile(t, t.TempDir()+"/bad.yaml", "adr: "+addr+"\n")
	contains(t, "stderr", run(nil, "cluster", "status", "--config", unknown).want(t, 2).stderr, "adr", unknown)
	run(nil, "cluster", "status", "--config", "/no/such/file").want(t, 2)
}

// `rota dev` is a whole cluster by one command: one line shows its address, SIGTERM ends it with 0, and with --data it
// comes back at the same place.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := ""
	api := []string{"--api", freeAddress(t)} // the default may be in use meanwhile
	for range 2 {
		p := launch(t, "dev", nil, append([]string{"dev", "--nodes", "3", "--data", dir}, api...)...)
		api = nil
		all := devReady(t, p)
		if len(all) != 3 {
			t.Fatalf("dev serves at %v, want three addresses", all)
		}
		addrs := strings.Join(all, ",")
		env := []string{"ROTA_ADDR=" + addrs}
		command(t, env, "", "job", "submit", "--type", "x", "--id", "stays").want(t, 0)
		command(t, env, "", "operator", "verify").want(t, 0)
		if first == "" {
			first = addrs
		} else if first != addrs {
			t.Errorf("dev came back at %s, it was at %s", addrs, first)
		}
		p.stop(t, 20*time.Second)
	}
}
