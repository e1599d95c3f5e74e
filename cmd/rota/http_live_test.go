package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestHTTP_isWhatIsPrinted: a command's -o json and HTTP return the same JSON for an object, and the guide's curl
// examples work: from a queue over a job to its output.
func TestHTTP_isWhatIsPrinted(t *testing.T) {
	t.Parallel()
	cluster := running(t, "dev", "--nodes", "1", "--data", t.TempDir())
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	addr := strings.TrimPrefix(cluster.Text(), "ready addr=")
	rotaTo := func(args ...string) string {
		t.Helper()
		var out, talk bytes.Buffer
		if code := run(args, []string{"ROTA_ADDR=" + addr}, strings.NewReader(""), &out, &talk); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, talk.String())
		}
		return out.String()
	}
	call := func(want int, method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != want {
			t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
		}
		return string(text)
	}
	call(200, "PUT", "/v1/queues/images", `{"set":{"attempt_max":3}}`)
	call(200, "PUT", "/v1/tenants/acme", `{"set":{"weight":2}}`)
	spec := `{"queue":"images","type":"resize","tenant":"acme","payload":{"width":640},"labels":{"team":"film"}}`
	call(201, "PUT", "/v1/jobs/photo-1", spec)
	call(200, "PUT", "/v1/jobs/photo-1", spec)
	call(409, "PUT", "/v1/jobs/photo-1", `{"type":"other"}`)
	running(t, "worker", "run", "--addr", addr, "--queues", "images", "--id", "w", "--slots", "1")
	if ended := call(200, "GET", "/v1/jobs/photo-1?wait=60s", ""); !strings.Contains(ended, `"state":"COMPLETED"`) {
		t.Fatalf("after a wait the job is %s", ended)
	}
	if payload := call(200, "GET", "/v1/jobs/photo-1/payload", ""); payload != `{"width":640}` {
		t.Errorf("the payload is %q", payload)
	}
	call(201, "PUT", "/v1/jobs/later", `{"queue":"images","type":"resize","delay_ms":3600000}`)
	call(200, "PUT", "/v1/batches/night", `{"callback":{"queue":"images","type":"resize"}}`)
	call(200, "PUT", "/v1/cluster/mode", `{"mode":"NORMAL","reason":"a test"}`)
	call(200, "POST", "/v1/cluster/verify", "")
	call(200, "PUT", "/v1/schedules/nightly",
		`{"cron":"0 3 * * *","tz":"Europe/Berlin","job":{"queue":"images","type":"resize"}}`)
	call(200, "POST", "/v1/schedules/nightly/trigger", `{"id":"now"}`)
	call(200, "POST", "/v1/schedules/nightly/pause", `{"reason":"a test"}`)
	call(200, "POST", "/v1/schedules/nightly/resume", "")
	call(200, "GET", "/v1/jobs?q=schedule=nightly", "")
	call(200, "PUT", "/v1/webhooks/hook", `{"url":"https://hooks.example.org/rota"}`)
	flow := `{"queue":"images","nodes":[{"id":"a","type":"resize","delay_ms":3600000},{"id":"g","gate":{},"parents":["a"]}]}`
	call(201, "PUT", "/v1/workflows/flow", flow)
	call(200, "PUT", "/v1/workflows/flow", flow)
	if node := call(200, "GET", "/v1/workflows/flow/nodes/a", ""); !strings.Contains(node, `"id":"flow/a"`) ||
		!strings.Contains(node, `"priority":5`) {
		t.Errorf("the job of a node is %s", node)
	}
	for range 2 { // the second is the same signal
		call(200, "POST", "/v1/workflows/flow/nodes/g/signal", `{"id":"sent","payload":"go"}`)
	}
	call(200, "PUT", "/v1/plans/p?dry_run=1", `{"verb":"cancel","filter":"type=none"}`)
	call(404, "GET", "/v1/plans/p", "")
	call(200, "PUT", "/v1/plans/p", `{"verb":"cancel","filter":"type=none"}`)
	call(200, "PUT", "/v1/key-rules/album?queue=images", `{"concurrency":2}`)
	call(200, "PUT", "/v1/roles/helper", `{"grants":[{"right":"read","tenant":"*","queue":"*"}]}`)
	call(200, "PUT", "/v1/tokens/abcdefgh2345", `{"hash":"`+strings.Repeat("ab", 32)+
		`","roles":["reader"],"expires_at":"`+
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	call(200, "PUT", "/v1/blocks/client/mallory", "")
	for _, path := range []string{"/v1/jobs", "/v1/workflows"} {
		if refused := call(400, "GET", path+"?cursor=made%2Fup", ""); !strings.Contains(refused, `"field":"cursor"`) {
			t.Errorf("%s with an invented cursor returns %s", path, refused)
		}
	}
	if ended := call(200, "POST", "/v1/jobs:wait?wait=1s", `{"ids":["photo-1","later"]}`); strings.Count(ended,
		"\n") != 2 ||
		!strings.HasPrefix(ended, `{"job":{"id":"photo-1"`) ||
		!strings.Contains(ended, `{"error":{"type":"urn:rota:error:TIMEOUT"`) {
		t.Errorf("a wait for one ended job and one open job returns %s", ended)
	}
	if done := call(200, "POST", "/v1/jobs:cancel", `{"ids":["none","flow/a"]}`); !strings.Contains(done,
		`"refused":1`) ||
		!strings.Contains(done, `{"id":"flow/a","state":"CANCELLED"`) {
		t.Errorf("cancelling two jobs, one of them unknown, returns %s", done)
	}
	saved := filepath.Join(t.TempDir(), "saved.rota")
	if err := os.WriteFile(saved, []byte(call(200, "GET", "/v1/cluster/snapshot", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	rotaTo("operator", "snapshot", "inspect", saved)
	if told := rotaTo("events", "tail", "--kind", "snapshotRead", "-o", "jsonl"); !strings.Contains(told, `/http"`) ||
		!strings.Contains(told, `"actor":"anonymous"`) ||
		told != rotaTo("events", "tail", "--kind", "snapshotRead", "--actor", "anonymous", "-o", "jsonl") {
		t.Errorf("the events about the state's reader are %s", told)
	}
	for list, row := range map[string]string{"/v1/schedules": `"nightly"`, "/v1/batches": `"night"`, "/v1/plans": `"p"`,
		"/v1/webhooks": `"hook"`} {
		if all, theirs := call(200, "GET", list+"?by=anonymous", ""), call(200, "GET", list+"?by=local",
			""); !strings.Contains(all, row) || strings.Contains(theirs, row) {
			t.Errorf("%s by its creator: %s; by another: %s", list, all, theirs)
		}
		if refused := call(400, "GET", list+"?by=unknown", ""); !strings.Contains(refused, `"field":"by"`) {
			t.Errorf("%s by an unknown order returns %s", list, refused)
		}
	}
	call(400, "GET", "/v1/events?actor=unknown", "")
	for path, args := range map[string][]string{
		"/v1/schedules?by=local":     {"schedule", "list", "--by", "local"},
		"/v1/batches?by=anonymous":   {"batch", "list", "--by", "anonymous"},
		"/v1/plans?by=local":         {"plan", "list", "--by", "local"},
		"/v1/webhooks?by=local":      {"webhook", "list", "--by", "local"},
		"/v1/jobs/photo-1":           {"job", "show", "photo-1"},
		"/v1/jobs?q=state=DELAYED":   {"job", "list", "--filter", "state=DELAYED"},
		"/v1/jobs/later/why":         {"job", "why", "later"},
		"/v1/jobs/later/eta":         {"job", "eta", "later"},
		"/v1/queues/images":          {"queue", "show", "images"},
		"/v1/queues":                 {"queue", "list"},
		"/v1/tenants/acme":           {"tenant", "show", "acme"},
		"/v1/tenants":                {"tenant", "list"},
		"/v1/workers/w":              {"worker", "show", "w"},
		"/v1/workers":                {"worker", "list"},
		"/v1/cluster":                {"cluster", "status"},
		"/v1/batches/night":          {"batch", "show", "night"},
		"/v1/batches":                {"batch", "list"},
		"/v1/cluster/mode":           {"mode", "get"},
		"/v1/cluster/peers":          {"operator", "raft", "list-peers"},
		"/v1/schedules/nightly":      {"schedule", "show", "nightly"},
		"/v1/schedules":              {"schedule", "list"},
		"/v1/schedules/nightly/next": {"schedule", "next", "nightly"},
		"/v1/whoami":                 {"auth", "whoami"},
		"/v1/workflows/flow":         {"workflow", "show", "flow"},
		"/v1/workflows":              {"workflow", "list"},
		"/v1/workflows/flow/nodes/a": {"job", "show", "flow/a"},
		"/v1/jobs/flow%2Fa":          {"job", "show", "flow/a"},
		"/v1/plans":                  {"plan", "list"},
		"/v1/plans/p":                {"plan", "show", "p"},
		"/v1/key-rules":              {"key", "list"},
		"/v1/tokens":                 {"auth", "token", "list"},
		"/v1/roles":                  {"auth", "role", "list"},
		"/v1/blocks":                 {"auth", "blocks"},
	} {
		var differ string
		for range 5 { // fields that count time may differ between the two
			var printed, served any
			if err := json.Unmarshal([]byte(rotaTo(append(args, "-o", "json")...)), &printed); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(call(200, "GET", path, "")), &served); err != nil {
				t.Fatal(err)
			}
			if differ = difference("", still(printed), still(served)); differ == "" {
				break
			}
		}
		if differ != "" {
			t.Errorf("%s and %v differ: %s", path, args, differ)
		}
	}
}

// still removes the parts of a value that change by themselves: clocks, indexes, and a list's full view.
func still(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			switch name {
			case "clock_ms", "date_ms", "date_at", "applied_index", "index", "digest", "last_contact_ms",
				"last_contact_at", "oldest_wait_ms",
				"healthy_since_ms", "healthy_since_at", "detail", "payload", "output", "attempts",
				"expected_start_ms", "expected_start_at", "earliest_start_ms", "earliest_start_at", "latest_start_ms",
				"latest_start_at": // from now on
				delete(v, name)
			default:
				v[name] = still(v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = still(v[i])
		}
	}
	return v
}

// difference returns the place where two values first differ, "" if they are equal.
func difference(place string, a, b any) string {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if reflect.DeepEqual(a, b) {
			return ""
		}
		return fmt.Sprintf("%s is %v and %v", place, a, b)
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			return fmt.Sprintf("%s.%s is of one alone", place, name)
		}
	}
	for name := range x {
		if _, ok := y[name]; !ok {
			return fmt.Sprintf("%s.%s is of one alone", place, name)
		}
		if d := difference(place+"."+name, x[name], y[name]); d != "" {
			return d
		}
	}
	return ""
}
