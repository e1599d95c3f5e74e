package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func cliQueue(t *testing.T, c *nodes) {
	shown := object(t, c.rota(t, "queue", "set", "q1", "--preset", "aicf-quantum", "--set", "queue_cap=99", "-o",
		"json"))
	fields(t, "the queue", shown, "name", "policy", "etag", "pending", "blocked", "delayed", "queued", "assigned",
		"running", "submitted_total",
		"assigned_total", "completed_total", "dead_total", "expired_total", "cancelled_total", "staged", "lanes",
		"workers", "oldest_wait_ms",
		"usage_permille", "lease_usage_permille", "backlog_usage_permille", "backpressure", "bytes", "throttled_lanes",
		"tiers", "domains?", "types?")
	q := decode[rota.Queue](t, c.rota(t, "queue", "show", "q1", "-o", "json"))
	if q.Policy.Preset != "aicf-quantum" || q.Policy.QueueCap != 99 || q.Policy.LeaseMs != 180_000 {
		t.Errorf("the policy is %+v", q.Policy)
	}
	for _, preset := range rota.Presets {
		c.rota(t, "queue", "set", "preset-"+preset, "--preset", preset).want(t, 0)
	}
	// One key changes; the others stay.
	q = decode[rota.Queue](t, c.rota(t, "queue", "set", "q1", "--set", "queue_cap=100", "-o", "json"))
	if q.Policy.Preset != "aicf-quantum" || q.Policy.QueueCap != 100 || q.Policy.LeaseMs != 180_000 {
		t.Errorf("after the change of one key the policy is %+v", q.Policy)
	}
	c.rota(t, "queue", "set", "pausing").want(t, 0)
	c.worker(t, "--queues", "pausing")
	if q := decode[rota.Queue](t, c.rota(t, "queue", "pause", "pausing", "-o", "json")); !q.Policy.Paused {
		t.Error("a paused queue is not paused")
	}
	c.rota(t, "job", "submit", "--queue", "pausing", "--type", "x", "--id", "held-back").want(t, 0)
	c.rota(t, "job", "wait", "held-back", "--timeout", "1500ms").want(t, 5)
	if q := decode[rota.Queue](t, c.rota(t, "queue", "resume", "pausing", "-o", "json")); q.Policy.Paused {
		t.Error("a resumed queue is paused")
	}
	c.rota(t, "job", "wait", "held-back", "--timeout", "20s").want(t, 0)
	names := strings.Fields(c.rota(t, "queue", "list", "-o", "name").want(t, 0).stdout)
	if got := strings.Join(names, " "); !strings.Contains(got, "default") || !strings.Contains(got, "q1") {
		t.Errorf("the queues are %s", got)
	}
	list(t, object(t, c.rota(t, "queue", "list", "-o", "json")), "queues")
}

func cliWorker(t *testing.T, c *nodes) {
	shown := object(t, c.rota(t, "worker", "show", "cli-w1", "-o", "json"))
	fields(t, "the worker", shown, "id", "queues", "slots", "prefetch", "region", "zone", "capabilities", "cpu_milli",
		"memory_bytes", "stake?", "attested_stake?",
		"status", "session", "status_since*", "silent_since*?", "open_leases", "cpu_milli_taken?",
		"memory_bytes_taken?", "io_bytes_per_s?", "io_bytes_per_s_taken?", "health",
		"assigned_total", "completed_total", "failed_total", "leases?", "load", "limits?", "slashed?",
		"invalid_proofs?",
		"jailed_until*?", "attested_until_ms?", "attested_until_at?", "cooling?", "denied?", "units?")
	if shown["status"] != "ACTIVE" || shown["region"] != "eu" || shown["slots"] != 4.0 ||
		shown["memory_bytes"] != 1_000_000.0 {
		t.Errorf("the worker is %v", shown)
	}
	list(t, object(t, c.rota(t, "worker", "list", "-o", "json")), "workers")
	// A queue that does not exist yet is served once it does.
	w := c.worker(t, "--queues", "not-yet", "--id", "drained-by-command")
	c.rota(t, "queue", "set", "not-yet").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "not-yet", "--type", "x", "--wait", "--timeout", "20s").want(t, 0)
	if drained := object(t, c.rota(t, "worker", "drain", "drained-by-command", "-o",
		"json")); drained["status"] != "DRAINING" {
		t.Errorf("a drained worker is %v", drained)
	}
	c.rota(t, "job", "submit", "--queue", "not-yet", "--type", "x", "--id", "after-drain").want(t, 0)
	c.rota(t, "job", "wait", "after-drain", "--timeout", "1500ms").want(t, 5)
	w.stop(t, 15*time.Second)
}

func cliStatus(t *testing.T, c *nodes) {
	for _, n := range c.all {
		s := object(t, command(t, nil, "", "cluster", "status", "--addr", n.API, "-o", "json"))
		fields(t, "the status", s, "cluster_id", "etag", "leader", "term", "applied_index", "clock_ms", "date_ms",
			"date_at", "mode", "mode_reason?",
			"drained?", "jobs", "workers", "nodes", "rules_version", "state_bytes", "state_bytes_max",
			"autopilot", "backup?", "tzdata")
		if c.byID(s["leader"].(string)) == nil || s["mode"] != "NORMAL" {
			t.Errorf("leader %v, mode %v", s["leader"], s["mode"])
		}
		all := list(t, s, "nodes")
		if len(all) != 3 {
			t.Errorf("%d nodes in the status", len(all))
		}
		for _, one := range all {
			fields(t, "the node", one, "id", "api", "raft", "state", "voter", "version", "applied_index", "digest",
				"healthy", "problems",
				"rules_version", "non_voter", "disk_free_bytes", "disk_bytes", "wall_skew_ms?", "certificate_ends_ms?",
				"certificate_ends_at?", "snapshot?", "archive", "healthy_since_ms?", "healthy_since_at?",
				"last_contact_ms?", "last_contact_at?")
			list(t, one, "problems")
			if one["voter"] != true || one["healthy"] != true || one["rules_version"] != s["rules_version"] ||
				len(one["digest"].(string)) != 32 {
				t.Errorf("the node is %v", one)
			}
		}
	}
}

func cliOperator(t *testing.T, c *nodes) {
	peers := list(t, object(t, c.rota(t, "operator", "raft", "list-peers", "-o", "json")), "peers")
	leaders := 0
	for _, p := range peers {
		fields(t, "the peer", p, "id", "address", "voter", "leader", "healthy_since_ms?", "healthy_since_at?",
			"last_contact_ms?",
			"last_contact_at?")
		if p["leader"] == true {
			leaders++
		}
	}
	if len(peers) != 3 || leaders != 1 {
		t.Errorf("the peers are %v", peers)
	}
	v := object(t, c.rota(t, "operator", "verify", "-o", "json"))
	fields(t, "the verdict", v, "index", "nodes", "equal")
	for _, n := range list(t, v, "nodes") {
		fields(t, "the node's verdict", n, "id", "index", "digest", "violations", "error?")
		list(t, n, "violations")
	}
	if v["equal"] != true {
		t.Errorf("the verdict is %v", v)
	}
	file := filepath.Join(t.TempDir(), "backup")
	names := []string{"cluster_id", "incarnation", "index", "term", "clock_ms", "date_ms", "date_at", "digest",
		"rules_version", "format", "records", "bytes"}
	fields(t, "save", object(t, c.rota(t, "operator", "snapshot", "save", file, "-o", "json")), names...)
	fields(t, "inspect", object(t, command(t, nil, "", "operator", "snapshot", "inspect", file, "-o", "json")),
		names...)
	if r := command(t, nil, "", "operator", "snapshot", "inspect", file+"-none"); r.code == 0 {
		t.Error("a file that is not there was inspected")
	}
}

// A file of jobs is sent to its end; errors are reported by line.
func cliFile(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "filed", "--set", "paused=true").want(t, 0)
	labels := make([]string, 1_000_000)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	lines := []string{
		`{"id":"filed-1","queue":"filed","type":"x","payload":"text"}`, // 1
		``, // 2
		`{"id":"filed-3","queue":"filed","type":"x","payload":{"base64":"/wA="},"priority":0}`, // 3
		`{"id":"filed-4","queue":"filed","type":"x","colour":"red"}`,                           // 4
		`{"id":"filed-5","queue":"filed","type":"x","fee":NaN}`,                                // 5
		`{"id":"filed-6","queue":"filed","type":"x","priority":11}`,                            // 6
		`not JSON`, // 7
		`{"id":"filed-8","queue":"filed","type":"x","payload":"` + strings.Repeat("y", 1<<20) + `"}`, // 8
		`{"id":"filed-9","queue":"filed","type":"x","labels":{` + strings.Join(labels, ",") + `}}`,   // 9
		`{"id":"filed-10","queue":"nowhere","type":"x"}`,                                             // 10
		`{"id":"filed-11","queue":"filed","type":"x"} {}`,                                            // 11
		`{"id":"filed-1","queue":"filed","type":"x","payload":"text"}`,                               // 12
		`{"id":"../13","queue":"filed","type":"x"}`,                                                  // 13
		`{"id":"filed-14","queue":"filed","type":"x","fee":1e400}`,                                   // 14
		`{"id":"filed-15","queue":"filed","type":"x","delay_ms":-1}`,                                 // 15
		`["filed-16"]`, // 16
		`{"id":"filed-17","queue":"filed","type":""}`,                                                    // 17
		`{"id":"filed-18","queue":"filed","type":"x","labels":{` + strings.Join(labels[:33], ",") + `}}`, // 18
		`{"queue":"filed","type":"x"}`,                                                                   // 19, without a newline
	}
	text := strings.Join(lines, "\n")
	r := command(t, []string{c.env()}, text, "job", "submit", "--file", "-", "-o", "json").want(t, 2)
	report := parse[map[string]any](t, r)
	fields(t, "the report", report, "accepted", "existed", "refused", "refusals", "refusals_unlisted?")
	if report["accepted"] != 4.0 || report["existed"] != 1.0 || report["refused"] != 14.0 {
		t.Errorf("accepted %v, existed %v, refused %v: want 4, 1 and 14", report["accepted"], report["existed"],
			report["refused"])
	}
	told := make(map[float64]map[string]any)
	for _, refusal := range list(t, report, "refusals") {
		fields(t, "the refusal", refusal, "line", "id?", "kind", "error")
		told[refusal["line"].(float64)] = refusal
	}
	for line, word := range map[float64]string{4: "colour", 5: "", 6: "priority", 7: "", 8: "1048576", 9: "1048576",
		10: "nowhere", 11: "", 13: "id", 14: "fee",
		15: "delay_ms", 16: "", 17: "type", 18: "labels"} {
		if told[line] == nil {
			t.Errorf("line %.0f was not refused", line)
		} else {
			contains(t, fmt.Sprintf("the refusal of line %.0f", line), told[line]["error"].(string), word)
		}
	}
	if job := c.job(t, "filed-3"); string(job.Payload) != "\xff\x00" || job.Priority != 0 {
		t.Errorf("line 3 became %+v", job)
	}
	good := writeFile(t, filepath.Join(t.TempDir(), "good.jsonl"), lines[0]+"\n")
	table := c.rota(t, "job", "submit", "--file", good).want(t, 0).stdout
	contains(t, "the table", table, "accepted 1", "refused 0")
}

func cliFileBulk(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "bulk", "--set", "paused=true").want(t, 0)
	const count = 5000
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, `{"id":"bulk-%05d","queue":"bulk","type":"x","labels":{"n":"%d"}}`+"\n", i, i)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "bulk.jsonl"), text.String())
	for range 2 { // again changes nothing
		report := object(t, c.rota(t, "job", "submit", "--file", file, "-o", "json"))
		if report["accepted"] != float64(count) {
			t.Errorf("the report is %v", report)
		}
	}
	if q := decode[rota.Queue](t, c.rota(t, "queue", "show", "bulk", "-o", "json")); q.Pending != count ||
		q.SubmittedTotal != count {
		t.Errorf("%d pending of %d submitted, want %d", q.Pending, q.SubmittedTotal, count)
	}
	names := strings.Fields(c.rota(t, "job", "list", "--queue", "bulk", "--limit", "10000", "-o", "name").want(t,
		0).stdout)
	slices.Sort(names)
	if len(names) != count || names[0] != "bulk-00000" || names[count-1] != "bulk-04999" {
		t.Errorf("%d jobs are listed", len(names))
	}
}
