package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

// request is a call over HTTP without a client library.
type request struct {
	method, path, body string
	// headers are names and values alternately; Host is that of the request.
	headers []string
}

// ask makes a call at a node, and returns its answer with the body; an error means that no answer came.
func (q request) ask(t testing.TB, n *node) (*http.Response, string, error) {
	t.Helper()
	var from io.Reader
	if q.body != "" {
		from = strings.NewReader(q.body)
	}
	r, err := http.NewRequestWithContext(t.Context(), q.method, "http://"+n.API+q.path, from)
	check(t, err)
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(q.headers); i += 2 {
		if r.Header.Set(q.headers[i], q.headers[i+1]); q.headers[i] == "Host" {
			r.Host = q.headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer, string(text), err
}

// want makes a call that must be answered with a status.
func (q request) want(t testing.TB, n *node, status int) (*http.Response, string) {
	t.Helper()
	answer, text, err := q.ask(t, n)
	check(t, err)
	if answer.StatusCode != status {
		t.Fatalf("%s %s: %s %s", q.method, q.path, answer.Status, clip(text))
	}
	return answer, text
}

// badRequest is a call that is refused, with the field and the remedy.
type badRequest struct {
	name string
	request
	status            int
	kind, field, says string
}

// refused checks that a node refuses the call with a problem of RFC 9457.
func (b badRequest) refused(t testing.TB, n *node) {
	t.Helper()
	answer, text, err := b.ask(t, n)
	check(t, err)
	var p struct {
		Status              int
		Kind, Field, Detail string
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil ||
		answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %s %s is not a problem: %v", b.name, answer.Status, clip(text), err)
		return
	}
	if answer.StatusCode != b.status || p.Status != b.status || p.Kind != b.kind || p.Field != b.field ||
		!strings.Contains(p.Detail, b.says) || len(text) > 2000 {
		t.Errorf("%s: got %s %s; want %d %s of %q with the text %q", b.name, answer.Status, clip(text), b.status,
			b.kind, b.field, b.says)
	}
}

// packed compresses a text, and repeats the result.
func packed(t testing.TB, text string, times int) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	check(t, err)
	check(t, w.Close())
	return strings.Repeat(b.String(), times)
}

// badCalls are calls that are invalid by themselves.
func badCalls(t testing.TB) []badRequest {
	put := func(path, body string) request { return request{"PUT", path, body, nil} }
	get := func(path string, headers ...string) request { return request{"GET", path, "", headers} }
	line := strings.Repeat("x", 2<<20)
	const job = `{"type":"t"}`
	return []badRequest{
		{"five keys", put("/v1/jobs/k", `{"type":"t","keys":["a:1","b:1","c:1","d:1","e:1"]}`), 400, "INVALID", "keys",
			"maximum 4"},
		{"minute 61", put("/v1/schedules/s", `{"cron":"61 * * * *","job":{"type":"t"}}`), 400, "INVALID", "cron",
			"between 0 and 59"},
		{"zone Mars/X", put("/v1/schedules/s", `{"cron":"1 * * * *","tz":"Mars/X","job":{"type":"t"}}`), 400, "INVALID",
			"tz", "Mars/X"},
		{"a list by half a filter", get("/v1/jobs?q=label.x%3D%22cut"), 400, "INVALID", "filter", "quote"},
		{"a plan by half a filter", put("/v1/plans/p", `{"verb":"cancel","filter":"label.x=\"cut"}`), 400, "INVALID",
			"filter", "quote"},
		{"a plan on nothing", put("/v1/plans/p", `{"verb":"cancel","filter":""}`), 400, "INVALID", "filter", "id=*"},
		{"a plan on ended jobs", put("/v1/plans/p", `{"verb":"cancel","filter":"state=DEAD"}`), 400, "INVALID",
			"filter", "those are"},
		{"a child without a parent", put("/v1/workflows/w", `{"nodes":[{"id":"a","type":"t","parents":["z"]}]}`), 400,
			"INVALID", "nodes[0].parents[0]", "not a node of the workflow"},
		{"a log line of 2 MiB", request{"POST", "/v1/workers/w/leases/" + strings.Repeat("ab", 16) + "/complete",
			`{"token":"1.1","log":"` + line + `"}`, []string{"Rota-Worker-Secret", strings.Repeat("s", 32)}}, 413,
			"INVALID", "body", "smaller"},
		{"a body of 2 MiB", put("/v1/jobs/big", `{"type":"t","payload":"`+line+`"}`), 413, "INVALID", "body",
			"smaller"},
		{"a gzip bomb", request{"PUT", "/v1/jobs/big", packed(t, strings.Repeat("0", 1<<20), 64),
			[]string{"Content-Encoding", "gzip"}}, 413, "INVALID", "body", "smaller"},
		{"a bomb in gzip", request{"PUT", "/v1/jobs/big", packed(t, strings.Repeat("0", 64<<20), 1),
			[]string{"Content-Encoding", "gzip"}}, 413, "INVALID", "body", "smaller"},
		{"an unknown field", put("/v1/jobs/a", `{"type":"t","prioritty":1}`), 400, "INVALID", "prioritty",
			"openapi.json"},
		{"an unknown field of a schedule", put("/v1/schedules/s",
			`{"cron":"1 * * * *","job":{"type":"t"},"zone":"UTC"}`), 400, "INVALID", "zone", "openapi.json"},
		{"a number that is a text", put("/v1/jobs/a", `{"type":"t","priority":"high"}`), 400, "INVALID", "priority",
			"want an integer"},
		{"a type twice", put("/v1/jobs/a", `{"type":"t","type":"u"}`), 400, "INVALID", "type", "given twice"},
		{"a tenant twice in a batch", request{"POST", "/v1/jobs",
			`{"jobs":[{"id":"a","type":"t"},{"id":"b","type":"t","tenant":"a","tenant":"b"}]}`, nil},
			400, "INVALID", "jobs[1].tenant", "given twice"},
		{"a list that is an object", put("/v1/jobs/a", `{"type":"t","keys":{"a":"1"}}`), 400, "INVALID", "keys",
			"want an array"},
		{"a cursor of jobs", get("/v1/jobs?cursor=made%2Fup"), 400, "INVALID", "cursor", "next_cursor"},
		{"a cursor of workflows", get("/v1/workflows?cursor=made%2Fup"), 400, "INVALID", "cursor", "made/up"},
		{"Last-Event-ID of the future", get("/v1/events", "Accept", "text/event-stream", "Last-Event-ID",
			"1.999999999.0"), 410, "OUT_OF_RANGE", "event_id", "without an event id"},
		{"Last-Event-ID that is none", get("/v1/events", "Accept", "text/event-stream", "Last-Event-ID", "new"), 400,
			"INVALID", "event_id", "INCARNATION.INDEX.SEQ"},
		{"host evil.example", get("/v1/jobs", "Host", "evil.example"), 421, "INVALID", "host", "--api-host"},
		{"host evil.example, to write", request{"PUT", "/v1/jobs/a", job, []string{"Host", "evil.example"}}, 421,
			"INVALID", "host", "--api-host"},
		{"an id with %2F", put("/v1/jobs/a%2Fb", job), 400, "INVALID", "id", "1 to 64"},
		{"an id with %2F%2F", put("/v1/jobs/a%2F%2Fb", job), 400, "INVALID", "id", ""},
		{"an id with %00", put("/v1/jobs/a%00b", job), 400, "INVALID", "id", ""},
		{"an If-Match of two", request{"PUT", "/v1/queues/default", `{"set":{"weight":2}}`,
			[]string{"If-Match", `"a", "b"`}}, 400, "INVALID", "if-match", "one strong ETag"},
		{"a weak If-Match", request{"PUT", "/v1/queues/default", `{"set":{"weight":2}}`, []string{"If-Match", `W/"a"`}},
			400, "INVALID", "if-match", "strong"},
	}
}

// TestBadInput_http: a node refuses calls that are invalid by themselves by field and with a remedy, before the log:
// the digest stays. Its memory does not grow with the number of bodies that are too large.
func TestBadInput_http(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	bad := badCalls(t)
	changesNothing(t, c, "refusals", func() {
		for i, one := range bad {
			if one.method != http.MethodGet {
				one.refused(t, c.all[i%len(c.all)])
			}
		}
	})
	for i, one := range bad {
		if one.method == http.MethodGet { // a linearizable read has a separate entry
			one.refused(t, c.all[i%len(c.all)])
		}
	}
	n := c.all[0]
	before, known := n.residentMiB()
	const times, most = 300, 128 // of bodies that are 64 MiB each, or 2
	for range times {
		for _, one := range bad {
			if one.status == http.StatusRequestEntityTooLarge {
				_, _, _ = one.ask(t, n) // a node may close the connection on too much
			}
		}
	}
	if after, _ := n.residentMiB(); known && after > before+most {
		t.Errorf("after %d of each body that is too large the node has %d MiB, %d before", times, after, before)
	}
	c.verified(t, 3)
}

// TestBadInput_state: calls that the state refuses name the field and change no row.
func TestBadInput_state(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	n := c.leader(t)
	put := func(path, body string) request { return request{"PUT", path, body, nil} }
	signal := func(id, payload string) request {
		return request{"POST", "/v1/workflows/w/nodes/g/signal", fmt.Sprintf(`{"id":%q,"payload":%q}`, id, payload),
			nil}
	}
	put("/v1/workflows/w", `{"nodes":[{"id":"g","gate":{}},{"id":"a","type":"t","delay_ms":3600000,"parents":["g"]}]}`).want(t,
		n, 201)
	signal("first", "go").want(t, n, 200)
	rows := func() (all string) {
		for _, path := range []string{"/v1/jobs?view=full", "/v1/workflows/w", "/v1/schedules", "/v1/plans",
			"/v1/queues", "/v1/key-rules"} {
			_, text := request{"GET", path, "", nil}.want(t, n, 200)
			all += text + "\n"
		}
		return all
	}
	before := rows()
	signal("first", "go").want(t, n, 200) // the same one: nothing left to do
	for _, one := range []badRequest{
		{"a signal twice, otherwise", signal("first", "stop"), 409, "CONFLICT", "id", "the first one counts"},
		{"a second signal", signal("again", "go"), 409, "CONFLICT", "signal", "by signal first"},
		{"a job of no queue", put("/v1/jobs/j", `{"type":"t","queue":"nowhere"}`), 404, "NOT_FOUND", "queue",
			"nowhere"},
		{"a schedule of no queue", put("/v1/schedules/s", `{"cron":"1 * * * *","job":{"type":"t","queue":"nowhere"}}`),
			404, "NOT_FOUND", "queue", "nowhere"},
		{"a rule of no queue", put("/v1/key-rules/k?queue=nowhere", `{"concurrency":1}`), 404, "NOT_FOUND", "queue",
			"nowhere"},
		{"a version of nothing", request{"PUT", "/v1/schedules/s", `{"cron":"1 * * * *","job":{"type":"t"}}`,
			[]string{"If-Match", "*"}}, 412, "CONFLICT", "version", "does not exist"},
		{"a queue's other version", request{"PUT", "/v1/queues/default", `{"set":{"weight":2}}`,
			[]string{"If-Match", `"0123456789abcdef"`}}, 412, "CONFLICT", "version", "read it again"},
	} {
		one.refused(t, n)
	}
	if after := rows(); after != before {
		t.Errorf("refusals changed the objects: %s", firstDifference(after, before))
	}
	c.verified(t, 3)
}

// TestIfMatch_racing: two writers read the same version and write to different nodes, again and again, while
// a leader is killed: each time one succeeds, and the other is refused with the current version.
func TestIfMatch_racing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	const rounds = 20
	request{"PUT", "/v1/queues/default", `{"set":{"weight":1}}`, nil}.want(t, c.all[0], 200)
	var killed *node
	for round := range rounds {
		if round == rounds/2 {
			killed = c.leader(t)
			go killed.Kill()
		}
		up := make([]*node, 0, 3)
		for _, n := range c.all {
			if n != killed {
				up = append(up, n)
			}
		}
		var at *http.Response
		eventually(t, time.Minute, "a node reads", func() (err error) {
			if at, _, err = (request{"GET", "/v1/queues/default", "", nil}).ask(t, up[0]); err == nil &&
				at.StatusCode != 200 {
				err = fmt.Errorf("%s", at.Status)
			}
			return err
		})
		type end struct {
			weight, status int
			text           string
		}
		ends := make(chan end, 2)
		for i := range 2 {
			go func() {
				weight := 10*(round+1) + i
				q := request{"PUT", "/v1/queues/default", fmt.Sprintf(`{"set":{"weight":%d}}`, weight),
					[]string{"If-Match", at.Header.Get("ETag")}}
				e := end{weight: weight}
				_ = rig.Within(time.Minute, func() error { // a lost answer: repeat with the same version
					answer, text, err := q.ask(t, up[(round+i)%len(up)])
					if err == nil && answer.StatusCode >= 500 {
						err = fmt.Errorf("%s", answer.Status)
					}
					if err == nil {
						e.status, e.text = answer.StatusCode, text
					}
					return err
				})
				ends <- e
			}()
		}
		a, b := <-ends, <-ends
		if a.status != 200 {
			a, b = b, a
		}
		now, text := request{"GET", "/v1/queues/default", "", nil}.want(t, up[0], 200)
		var q rota.Queue
		check(t, json.Unmarshal([]byte(text), &q))
		if a.status != 200 || b.status != 412 || q.Policy.Weight != int64(a.weight) ||
			!strings.Contains(b.text, strings.Trim(now.Header.Get("ETag"), `"`)) {
			t.Fatalf("round %d: %d and %d of version %s, then weight %d of version %s: %s", round, a.status, b.status,
				at.Header.Get("ETag"), q.Policy.Weight, now.Header.Get("ETag"), b.text)
		}
	}
	killed.start(t)
	c.awaitReady()
	c.verified(t, 3)
}
