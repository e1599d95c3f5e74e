package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

var errNotYet = errors.New("not yet")

// jobFields are all fields of a job; those with ? are present only if they have a value.
var jobFields = []string{"id", "queue", "type", "tenant", "priority", "state", "attempt", "submitted*",
	"fee?", "size_bytes?", "payload?", "delay_ms?", "not_before_ms?", "not_before_at?", "ttl_ms?", "max_runtime_ms?",
	"cpu_milli?", "memory_bytes?", "io_bytes_per_s?",
	"requires?", "regions_allow?", "regions_deny?", "zone?", "domain?", "worker?", "expected_digest?", "simulate_ms?",
	"units?",
	"labels?", "enqueued*?", "first_lease*?", "finished*?", "due*?", "expires*?", "reason?", "error?", "lease?",
	"attempts?", "progress?", "progress_note?", "output?", "output_digest?", "limits?", "expected_ms?",
	"retry_on_invalid_proof?", "data_keys?", "tier?", "preempted?", "record_dropped?", "archived?"}

func cliSubmit(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "all-flags", "--set", "paused=true").want(t, 0)
	digest := strings.Repeat("ab", 32)
	r := c.rota(t, "job", "submit", "--queue", "all-flags", "--type", "t1", "--id", "all.flags:1", "--priority", "3",
		"--tenant", "acme",
		"--fee", "123", "--size", "456", "--payload", "text", "--delay", "1h", "--ttl", "2h", "--cpu", "250",
		"--memory", "1024", "--io", "2048",
		"--requires", "gpu", "--requires", "a100", "--region-allow", "eu", "--region-allow", "us", "--region-deny",
		"cn", "--zone", "z1",
		"--domain", "d1", "--worker", "cli-w1", "--expected-digest", digest, "--simulate-ms", "7", "--limit",
		"depth=20",
		"--limit", "width=3", "--expected-ms", "900", "--retry-on-invalid-proof", "--data-key", "k1", "--data-key",
		"k2", "--units", "5", "-o", "json")
	job := object(t, r)
	fields(t, "the job", job, jobFields...)
	for name, want := range map[string]any{"id": "all.flags:1", "queue": "all-flags", "type": "t1", "tenant": "acme",
		"priority": 3.0,
		"fee":      123.0, "size_bytes": 456.0, "payload": "text", "delay_ms": 3_600_000.0, "ttl_ms": 7_200_000.0,
		"cpu_milli":    250.0,
		"memory_bytes": 1024.0, "io_bytes_per_s": 2048.0, "zone": "z1", "domain": "d1", "worker": "cli-w1",
		"expected_digest": digest, "simulate_ms": 7.0,
		"state": "DELAYED", "attempt": 0.0, "expected_ms": 900.0, "retry_on_invalid_proof": true, "units": 5.0} {
		if job[name] != want {
			t.Errorf("field %s is %v, want %v", name, job[name], want)
		}
	}
	for name, want := range map[string]string{"requires": "[a100 gpu]", "regions_allow": "[eu us]",
		"regions_deny": "[cn]",
		"limits":       "map[depth:20 width:3]", "data_keys": "[k1 k2]"} {
		if got := fmt.Sprint(job[name]); got != want && got != "[gpu a100]" {
			t.Errorf("field %s is %s, want %s", name, got, want)
		}
	}
	again := c.rota(t, "job", "submit", "--queue", "all-flags", "--type", "other", "--id", "all.flags:1", "-o",
		"json").want(t, 4)
	contains(t, "the refusal of another job under its id", again.stderr, "all.flags:1", "type", `"t1"`, `"other"`)
	if name := c.rota(t, "job", "submit", "--type", "x", "-o", "name").want(t,
		0).stdout; len(strings.TrimSpace(name)) < 10 {
		t.Errorf("no id was generated: %q", name)
	}
}

func cliShow(t *testing.T, c *nodes) {
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "s", "--id", "shown", "--payload", "p", "--wait").want(t, 0)
	job := object(t, c.rota(t, "job", "show", "shown", "-o", "json"))
	fields(t, "the job", job, jobFields...)
	attempts := list(t, job, "attempts")
	if len(attempts) != 1 || job["state"] != "COMPLETED" || job["reason"] != "DONE" {
		t.Fatalf("the job is %v", job)
	}
	fields(t, "the attempt", attempts[0], "attempt", "worker", "lease_id", "token", "started*", "acked*", "ended*",
		"renewals?", "end", "error?",
		"decision")
	sum := sha256.Sum256([]byte("p"))
	if job["output_digest"] != hex.EncodeToString(sum[:]) {
		t.Errorf("the built-in handler's digest is %v, that of the payload is %x", job["output_digest"], sum)
	}
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "s", "--id", "shown-running", "--simulate-ms",
		"60000").want(t, 0)
	c.awaitState(t, c.dial(t), "shown-running", 20*time.Second, rota.JobRunning)
	running := object(t, c.rota(t, "job", "show", "shown-running", "-o", "json"))
	lease, ok := running["lease"].(map[string]any)
	if !ok {
		t.Fatalf("a running job has no lease: %v", running)
	}
	fields(t, "the lease", lease, "id", "token", "job", "worker", "session", "attempt", "state", "started*", "ack_by*",
		"acked*", "renew_by*", "deadline*", "renewals", "revoked?", "decision")
	fields(t, "the decision", lease["decision"].(map[string]any), "epoch", "height", "score", "rank", "reasoning",
		"seed")
	c.rota(t, "job", "cancel", "shown-running").want(t, 0)
	// Any node answers the same, whether the record has moved to the archive by now or not.
	delete(job, "archived")
	for _, n := range c.all {
		r := command(t, nil, "", "job", "show", "shown", "--addr", n.API, "-o", "json")
		got := object(t, r)
		delete(got, "archived")
		if fmt.Sprint(got) != fmt.Sprint(job) {
			t.Errorf("%s returns the job as %v, another node as %v", n.ID, got, job)
		}
	}
}

func cliList(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "listed", "--set", "paused=true").want(t, 0)
	for i := range 5 {
		c.rota(t, "job", "submit", "--queue", "listed", "--type", fmt.Sprintf("t%d", i%2), "--tenant",
			fmt.Sprintf("ten%d", i%2), "--id", fmt.Sprintf("listed-%d", i)).want(t, 0)
	}
	c.rota(t, "job", "cancel", "listed-4").want(t, 0)
	names := func(args ...string) string {
		return strings.Join(strings.Fields(c.rota(t, append([]string{"job", "list", "--queue", "listed", "-o", "name"},
			args...)...).want(t, 0).stdout), " ")
	}
	for args, want := range map[string]string{
		"": "listed-3 listed-2 listed-1 listed-0 listed-4", "--type t1": "listed-3 listed-1",
		"--tenant ten0":     "listed-2 listed-0 listed-4",
		"--state cancelled": "listed-4", "--state QUEUED --type t0": "listed-2 listed-0",
		"--limit 2": "listed-3 listed-2",
	} {
		if got := names(strings.Fields(args)...); got != want {
			t.Errorf("job list %s: got %s, want %s", args, got, want)
		}
	}
	cursor, seen := "", []string{}
	for range 10 {
		args := []string{"job", "list", "--queue", "listed", "--limit", "2", "-o", "json"}
		if cursor != "" {
			args = append(args, "--cursor", cursor)
		}
		page := object(t, c.rota(t, args...))
		fields(t, "the list", page, "jobs", "next_cursor?")
		for _, j := range list(t, page, "jobs") {
			seen = append(seen, j["id"].(string))
		}
		if cursor, _ = page["next_cursor"].(string); cursor == "" {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "listed-3 listed-2 listed-1 listed-0 listed-4" {
		t.Errorf("the pages hold %s", got)
	}
	unknown := c.rota(t, "job", "list", "--queue", "empty-one", "-o", "jsonl").want(t, 3)
	contains(t, "the refusal", unknown.stderr, "empty-one")
	c.rota(t, "queue", "set", "empty-one").want(t, 0)
	if none := c.rota(t, "job", "list", "--queue", "empty-one", "-o", "jsonl").want(t, 0).stdout; none != "" {
		t.Errorf("an empty list is %q", none)
	}
	if len(list(t, object(t, c.rota(t, "job", "list", "--queue", "empty-one", "-o", "json")), "jobs")) != 0 {
		t.Error("an empty list has jobs")
	}
}

func cliWait(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "waited", "--set", "paused=true").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "waited", "--type", "x", "--id", "waited-1").want(t, 0)
	late := c.rota(t, "job", "wait", "waited-1", "--timeout", "1s").want(t, 5)
	contains(t, "the wait that was too short", late.stderr, "1 of 1 jobs had not ended after 1s", "--timeout")
	if late.took > 5*time.Second {
		t.Errorf("a wait of 1 s took %s", late.took)
	}
	c.rota(t, "job", "submit", "--queue", "waited", "--type", "x", "--id", "waited-2", "--wait", "--timeout",
		"5s").want(t, 5)
	c.rota(t, "job", "cancel", "waited-1").want(t, 0)
	other := c.rota(t, "job", "wait", "waited-1", "-o", "json").want(t, 6)
	if jobs := list(t, parse[map[string]any](t, other), "jobs"); len(jobs) != 1 || jobs[0]["state"] != "CANCELLED" {
		t.Errorf("job wait printed %v", jobs)
	}
	contains(t, "stderr", other.stderr, "waited-1", "CANCELLED")
	c.rota(t, "queue", "set", "waited", "--set", "paused=false").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "x", "--id", "waited-3", "--simulate-ms", "300").want(t, 0)
	c.rota(t, "job", "wait", "waited-3", "waited-3", "--timeout", "20s").want(t, 0)
	c.rota(t, "job", "wait", "waited-3", "waited-1", "--timeout", "20s").want(t, 6)
}

func cliChange(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "changed", "--set", "paused=true").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "changed", "--type", "x", "--id", "changed-1", "--payload", "kept").want(t, 0)
	out := object(t, c.rota(t, "job", "cancel", "changed-1", "-o", "json"))
	jobs := list(t, out, "jobs")
	fields(t, "the outcome", jobs[0], "id", "state", "kind?", "error?")
	if jobs[0]["state"] != "CANCELLED" {
		t.Errorf("a cancelled job is %v", jobs[0])
	}
	c.rota(t, "job", "cancel", "changed-1").want(t, 0) // the same again is the same
	if out := object(t, c.rota(t, "job", "retry", "changed-1", "-o", "json")); list(t, out,
		"jobs")[0]["state"] != "QUEUED" {
		t.Errorf("a retried job is %v", out)
	}
	if job := c.job(t, "changed-1"); string(job.Payload) != "kept" || job.State != rota.JobQueued {
		t.Errorf("the retried job is %s with payload %q", job.State, job.Payload)
	}
	mixed := c.rota(t, "job", "cancel", "changed-1", "changed-none", "-o", "json").want(t, 3)
	if jobs := list(t, parse[map[string]any](t, mixed), "jobs"); len(jobs) != 2 || jobs[0]["state"] != "CANCELLED" ||
		jobs[1]["kind"] == nil {
		t.Errorf("cancel of one known and one unknown job printed %v", jobs)
	}
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "x", "--id", "changed-done", "--wait").want(t, 0)
	c.rota(t, "job", "retry", "changed-done").want(t, 1)
	c.rota(t, "job", "cancel", "changed-done").want(t, 1)
}

func cliPayload(t *testing.T, c *nodes) {
	file := writeFile(t, filepath.Join(t.TempDir(), "payload"), "from a file\n")
	submit := func(stdin string, args ...string) *result {
		return command(t, []string{c.env()}, stdin, append([]string{"job", "submit", "--queue", "cli", "--type", "p",
			"-o", "json"}, args...)...)
	}
	for want, r := range map[string]*result{
		"from a file\n": submit("", "--payload", "@"+file), "from stdin": submit("from stdin", "--payload", "-"),
		"as it is": submit("", "--payload", "as it is"), "": submit(""),
	} {
		if job := decode[rota.Job](t, r); string(job.Payload) != want {
			t.Errorf("got payload %q, want %q", job.Payload, want)
		}
	}
	raw := decode[rota.Job](t, submit("\xff\x00\xfe", "--payload", "-"))
	if string(raw.Payload) != "\xff\x00\xfe" {
		t.Errorf("a payload of raw bytes came back as %q", raw.Payload)
	}
	submit(strings.Repeat("x", rota.MaxPayloadBytes), "--payload", "-").want(t, 0)
	over := submit(strings.Repeat("x", rota.MaxPayloadBytes+1), "--payload", "-").want(t, 2)
	contains(t, "stderr", over.stderr, fmt.Sprint(rota.MaxPayloadBytes))
}

func cliDelay(t *testing.T, c *nodes) {
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "d", "--id", "delayed", "--delay", "1500ms", "--wait",
		"--timeout", "30s").want(t, 0)
	job := c.job(t, "delayed")
	if waited := job.FirstLease.Clock - job.Submitted.Clock; waited < 1500 || waited > 10_000 {
		t.Errorf("a job delayed by 1500 ms began after %d ms", waited)
	}
	c.rota(t, "queue", "set", "short-lived", "--set", "paused=true").want(t, 0)
	r := c.rota(t, "job", "submit", "--queue", "short-lived", "--type", "d", "--id", "expired", "--ttl", "1s", "--wait",
		"-o", "json", "--timeout", "20s").want(t, 6)
	if job := parse[rota.Job](t, r); job.State != rota.JobExpired || job.Reason != rota.ReasonTTLAbsolute ||
		job.Finished.Clock-job.Submitted.Clock < 1000 {
		t.Errorf("a job with a TTL of 1 s is %s (%s) after %d ms", job.State, job.Reason,
			job.Finished.Clock-job.Submitted.Clock)
	}
}

// A job's demands on a worker are met: region, label, room, and the exact worker.
func cliRequires(t *testing.T, c *nodes) {
	fits := [][]string{{"--requires", "gpu"}, {"--requires", "gpu", "--requires", "a100"}, {"--region-allow", "eu"},
		{"--region-deny", "us"},
		{"--worker", "cli-w1"}, {"--cpu", "4000"}, {"--memory", "1000000"}, {"--zone", "elsewhere"}}
	for _, args := range fits {
		c.rota(t, append([]string{"job", "submit", "--queue", "cli", "--type", "r", "--wait", "--timeout", "20s"},
			args...)...).want(t, 0)
	}
	never := [][]string{{"--requires", "tpu"}, {"--requires", "gpu", "--requires", "h100"}, {"--region-allow", "us"},
		{"--region-deny", "eu"}, {"--worker", "somebody"}, {"--cpu", "4001"}, {"--memory", "1000001"}}
	var ids []string
	for _, args := range never {
		r := c.rota(t, append([]string{"job", "submit", "--queue", "cli", "--type", "r", "-o", "name"},
			args...)...).want(t, 0)
		ids = append(ids, strings.TrimSpace(r.stdout))
	}
	// A job behind them in line is not held up.
	c.rota(t, "job", "submit", "--queue", "cli", "--type", "r", "--priority", "10", "--wait", "--timeout",
		"20s").want(t, 0)
	for i, id := range ids {
		if job := c.job(t, id); job.State != rota.JobQueued {
			t.Errorf("a job that requires %v is %s, but no worker has it", never[i], job.State)
		}
	}
	c.rota(t, append([]string{"job", "cancel"}, ids...)...).want(t, 0)
}

func cliDigest(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "proved", "--set", "attempt_max=1").want(t, 0)
	c.worker(t, "--queues", "proved", "--exec", "cat")
	sum := sha256.Sum256([]byte("proof"))
	submit := func(digest string) *result {
		return c.rota(t, "job", "submit", "--queue", "proved", "--type", "x", "--payload", "proof", "--expected-digest",
			digest, "--wait", "-o", "json", "--timeout", "30s")
	}
	if job := decode[rota.Job](t, submit(hex.EncodeToString(sum[:]))); string(job.Output) != "proof" {
		t.Errorf("output %q", job.Output)
	}
	sum[0]++
	wrong := parse[rota.Job](t, submit(hex.EncodeToString(sum[:])).want(t, 6))
	if wrong.State != rota.JobDead || len(wrong.Attempts) != 1 || wrong.Attempts[0].End != rota.ReasonProofInvalid {
		t.Errorf("a job with another digest than expected is %s, %+v", wrong.State, wrong.Attempts)
	}
}
