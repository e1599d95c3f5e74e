package transport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/peer"
)

// page calls a node over HTTP/1.1.
type page struct {
	t      *testing.T
	client *http.Client
	host   string
}

func webOf(t *testing.T, b *bundle) *page {
	calls := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return b.lis.DialContext(ctx)
	}}
	t.Cleanup(calls.CloseIdleConnections)
	return &page{t: t, client: &http.Client{Transport: calls}, host: "node"}
}

// wiredOf is webOf over TCP, for tests outside of bubbles: bufconn's deadlines can fire after they were reset, and then
// end the next request.
func wiredOf(t *testing.T, b *bundle) *page {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(lis) }()
	t.Cleanup(func() {
		b.server.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	calls := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", lis.Addr().String())
	}}
	t.Cleanup(calls.CloseIdleConnections)
	return &page{t: t, client: &http.Client{Transport: calls}, host: "node"}
}

// call makes a request with headers (alternating names and values), and returns its answer with the body.
func (p *page) call(method, path, body string, headers ...string) (*http.Response, string) {
	p.t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(bounded(p.t), method, "http://"+p.host+path, from)
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	given := make(http.Header) // a repeated name is sent twice
	for i := 0; i < len(headers); i += 2 {
		given.Add(headers[i], headers[i+1])
	}
	maps.Copy(r.Header, given)
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer, string(text)
}

// bomb compresses a text repeated many times at the cost of once: gzip accepts consecutive members.
func bomb(t *testing.T, text string, times int) string {
	t.Helper()
	return strings.Repeat(zipped(t, text), times)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHTTP_refuses checks that the answer to any invalid request is a problem that names the rejected part and how to
// fix it.
func TestHTTP_refuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	web := wiredOf(t, b)
	spec, blank := `{"queue":"q","type":"t"}`, strings.Repeat(" ", 1023)+"\n"
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		kind, field, says  string
	}{
		"a parameter that is not":      {"GET", "/v1/jobs?qq=x", "", nil, 400, "INVALID", "qq", "limit"},
		"a parameter twice":            {"GET", "/v1/jobs?limit=1&limit=2", "", nil, 400, "INVALID", "limit", "want one"},
		"a limit too high":             {"GET", "/v1/jobs?limit=5000", "", nil, 400, "INVALID", "limit", "1000"},
		"a limit that is not a number": {"GET", "/v1/queues?limit=many", "", nil, 400, "INVALID", "limit", "many"},
		"an unknown view":              {"GET", "/v1/jobs?view=all", "", nil, 400, "INVALID", "view", "brief"},
		"a long cursor": {"GET", "/v1/queues?cursor=" + strings.Repeat("c", 2000), "", nil, 400,
			"INVALID", "cursor", "1024"},
		"an unknown consistency": {"GET", "/v1/jobs/a?consistency=strong", "", nil, 400, "INVALID", "consistency",
			"stale"},
		"two consistencies": {"GET", "/v1/jobs/a?consistency=stale&min_index=4", "", nil, 400, "INVALID",
			"min_index", "one of them"},
		"a negative index":    {"GET", "/v1/jobs/a?min_index=-4", "", nil, 400, "INVALID", "min_index", "-4"},
		"an id that is none":  {"GET", "/v1/jobs/a%20b", "", nil, 400, "INVALID", "id", ""},
		"a wait too long":     {"GET", "/v1/jobs/a?wait=61s", "", nil, 400, "INVALID", "wait", "1m0s"},
		"a wait that is none": {"GET", "/v1/jobs/a?wait=soon", "", nil, 400, "INVALID", "wait", "30s"},
		"an unknown field": {"PUT", "/v1/jobs/a", `{"queue":"q","type":"t","prioritty":1}`, nil, 400,
			"INVALID", "prioritty", "openapi"},
		"an unknown field inside": {"POST", "/v1/jobs", `{"jobs":[{"id":"a","type":"t","retry":{"tries":1}}]}`,
			nil, 400, "INVALID", "jobs[0].retry.tries", "openapi"},
		"an unknown field outside": {"POST", "/v1/jobs", `{"job":[]}`, nil, 400, "INVALID", "job", "openapi"},
		"a field of another type": {"PUT", "/v1/jobs/a", `{"type":"t","priority":"high"}`, nil, 400, "INVALID",
			"priority", "want an integer"},
		"a number that is broken": {"PUT", "/v1/jobs/a", `{"type":"t","priority":1.5}`, nil, 400, "INVALID",
			"priority", "want an integer"},
		"bad base64": {"PUT", "/v1/jobs/a", `{"type":"t","payload":{"base64":"?"}}`, nil, 400,
			"INVALID", "payload", "text"},
		"no type":      {"PUT", "/v1/jobs/a", `{"queue":"q"}`, nil, 400, "INVALID", "type", ""},
		"no JSON":      {"PUT", "/v1/jobs/a", `type=t`, nil, 400, "INVALID", "body", "JSON"},
		"half of JSON": {"PUT", "/v1/jobs/a", `{"type":`, nil, 400, "INVALID", "body", "early"},
		"two of JSON":  {"PUT", "/v1/jobs/a", spec + spec, nil, 400, "INVALID", "body", "more data"},
		"null": {"PUT", "/v1/cluster?dry_run=true", `null`, nil, 400, "INVALID", "body",
			"an object"},
		"null with blanks":        {"PUT", "/v1/queues/q", " null\n", nil, 400, "INVALID", "body", "an object"},
		"null where none must be": {"POST", "/v1/jobs/a/retry", `null`, nil, 400, "INVALID", "body", "an object"},
		"a job that is null":      {"POST", "/v1/jobs", `{"jobs":[null]}`, nil, 400, "INVALID", "jobs[0]", "an object"},
		"no body":                 {"PUT", "/v1/jobs/a", "", nil, 400, "INVALID", "body", "missing"},
		"a body where none is":    {"GET", "/v1/jobs/a", spec, nil, 400, "INVALID", "body", "none"},
		"another id":              {"PUT", "/v1/jobs/a", `{"id":"b","type":"t"}`, nil, 400, "INVALID", "id", "omit"},
		"no jobs":                 {"POST", "/v1/jobs", `{"jobs":[]}`, nil, 400, "INVALID", "jobs", "1 to 1000"},
		"no id and no key": {"POST", "/v1/jobs", `{"jobs":[` + spec + `]}`, nil, 400, "INVALID",
			"jobs[0].id", "Idempotency-Key"},
		"a form": {"POST", "/v1/jobs", "jobs=1", []string{"Content-Type", "text/plain"}, 415,
			"INVALID", "content-type", "application/json"},
		"another encoding": {"POST", "/v1/jobs", "jobs", []string{"Content-Encoding", "br"}, 415, "INVALID",
			"content-encoding", "gzip"},
		"no gzip": {"POST", "/v1/jobs", "jobs", []string{"Content-Encoding", "gzip"}, 400, "INVALID", "body", "gzip"},
		"two MiB": {"POST", "/v1/jobs", `{"jobs":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413,
			"INVALID", "body", "smaller"},
		"a gzip bomb": {"POST", "/v1/jobs", bomb(t, strings.Repeat("0", 1<<20), 64),
			[]string{"Content-Encoding", "gzip"}, 413, "INVALID", "body", "smaller"},
		"a long address": {"GET", "/v1/jobs?q=" + strings.Repeat("x", 9<<10), "", nil, 414, "INVALID", "url", "8192"},
		"long headers": {"GET", "/v1/jobs", "", []string{"Baggage", strings.Repeat("b", 16<<10)}, 431,
			"INVALID", "headers", "maximum 16384"},
		"another site's page": {"POST", "/v1/jobs", spec, []string{"Sec-Fetch-Site", "cross-site"}, 403,
			"DENIED", "origin", "--cors-origin"},
		"another origin": {"GET", "/v1/jobs", "", []string{"Origin", "http://evil.example"}, 403,
			"DENIED", "origin", "--cors-origin"},
		"no such call":   {"GET", "/v1/job", "", nil, 404, "NOT_FOUND", "path", "openapi"},
		"no such method": {"PATCH", "/v1/jobs/a", "", nil, 405, "INVALID", "method", "Allow"},
		"a setting that is not": {"PUT", "/v1/queues/q", `{"set":{"atempt_max":3}}`, nil, 400, "INVALID", "key",
			"attempt_max"},
		"a setting of an object": {"PUT", "/v1/queues/q", `{"set":{"attempt_max":{}}}`, nil, 400, "INVALID",
			"set.attempt_max", "number"},
		"versions, two of them": {"PUT", "/v1/queues/q", `{}`, []string{"If-Match", `"a", "b"`}, 400, "INVALID",
			"if-match", "one strong ETag"},
		"two versions, a line each": {"PUT", "/v1/queues/q", `{"set":{"weight":2}}`,
			[]string{"If-Match", `"a"`, "If-Match", `"b"`}, 400, "INVALID", "if-match", "2 values"},
		"a version that is empty": {"PUT", "/v1/queues/q", `{"set":{"weight":2}}`, []string{"If-Match", ""}, 400,
			"INVALID", "if-match", "omit it"},
		"two keys of a repetition": {"POST", "/v1/jobs", `{"jobs":[` + spec + `]}`,
			[]string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "INVALID", "idempotency-key", "want one"},
		"two lists of jobs": {"POST", "/v1/jobs",
			`{"jobs":[{"id":"a","type":"t"}],"jobs":[{"id":"b","type":"t"}]}`, nil, 400, "INVALID", "jobs",
			"given twice"}, "two types": {"PUT", "/v1/jobs/a", spec,
			[]string{"Content-Type", "application/json", "Content-Type", "text/html"}, 400, "INVALID", "content-type",
			"want one"}, "two secrets": {"POST", "/v1/workers/w/beat", `{"holding":[]}`,
			[]string{"Rota-Worker-Secret", strings.Repeat("a", 16), "Rota-Worker-Secret", strings.Repeat("b", 16)}, 400,
			"INVALID", "rota-worker-secret", "want one"},
		"bytes in a text": {"PUT", "/v1/jobs/a", `{"type":"t","payload":"` + "\xff\xfe" + `"}`, nil, 400,
			"INVALID", "body", "base64"},
		"bytes in a text of many": {"POST", "/v1/jobs",
			`{"jobs":[{"id":"a","type":"t","payload":"` + "\xff" + `"}]}`, nil, 400, "INVALID", "body", "UTF-8"},
		"bytes in a line": {"PUT", "/v1/workflows/w", "{}\n{\"id\":\"a\",\"type\":\"t\",\"payload\":\"\xff\"}\n",
			[]string{"Content-Type", "application/x-ndjson"}, 400, "INVALID", "line 2", "UTF-8"},
		"events of an empty queue": {"GET", "/v1/events?queue=", "", nil, 400, "INVALID", "queue", "omit it"},
		"events of a kind and none": {"GET", "/v1/events?kind=jobDead&kind=", "", nil, 400, "INVALID", "kind",
			"omit it"},
		"events after two": {"GET", "/v1/events", "",
			[]string{"Last-Event-ID", "1.1.0", "Last-Event-ID", "1.2.0"}, 400, "INVALID", "last-event-id", "want one"},
		"a weak version": {"DELETE", "/v1/tenants/t", "", []string{"If-Match", `W/"a"`}, 400, "INVALID",
			"if-match", "strong"},
		"a rule of two versions": {"PUT", "/v1/key-rules/k", `{"concurrency":1,"etag":"b"}`,
			[]string{"If-Match", `"a"`}, 400, "INVALID", "if_match", "one of them"},
		"a tenant's preset": {"PUT", "/v1/tenants/t", `{"preset":"standard"}`, nil, 400, "INVALID", "preset", "queues"},
		"an empty change":   {"POST", "/v1/jobs/a/change", `{}`, nil, 400, "INVALID", "change", "priority"},
		"a bad credential": {"GET", "/v1/jobs", "", []string{"Authorization", "Bearer x"}, 401,
			"UNAUTHENTICATED", "", ""},
		"an empty parameter": {"GET", "/v1/jobs?consistency=", "", nil, 400, "INVALID", "consistency", "omit it"},
		"an id that is null": {"POST", "/v1/jobs:cancel", `{"ids":["a",null]}`, nil, 400, "INVALID", "ids[1]",
			"id of a job"},
		"a wait too long for many": {"POST", "/v1/jobs:wait?wait=2h", `{"ids":["a"]}`, nil, 400, "INVALID", "wait",
			"1m0s"},
		"a wait for nothing": {"POST", "/v1/jobs:wait", `{"ids":[]}`, nil, 400, "INVALID", "ids", "1 to 1000"},
		"many lives of one": {"POST", "/v1/jobs:retry", `{"ids":["a"],"lives":[0,1]}`, nil, 400, "INVALID",
			"lives", "same number"},
		"too many jobs": {"POST", "/v1/jobs:cancel", `{"ids":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`,
			nil, 400, "INVALID", "ids", "1 to 1000"},
		"a lease that is none": {"POST", "/v1/jobs/a/report-proof", `{"lease":"xy","reason":"r"}`, nil, 400,
			"INVALID", "", "hex"},
		"a node's unknown field": {"PUT", "/v1/workflows/w", `{"nodes":[{"id":"a","typ":"t"}]}`, nil, 400,
			"INVALID", "nodes[0].typ", "openapi"},
		"another workflow": {"PUT", "/v1/workflows/w", `{"id":"v","nodes":[{"id":"a","type":"t"}]}`, nil,
			400, "INVALID", "id", "equal"},
		"a workflow without nodes": {"PUT", "/v1/workflows/w", `{}`, nil, 400, "INVALID", "nodes", "1 to"},
		"two MiB of a workflow": {"PUT", "/v1/workflows/w", `{"nodes":"` + strings.Repeat("x", 2<<20) + `"}`,
			nil, 413, "INVALID", "body", "smaller"},
		"lines where none are": {"PUT", "/v1/jobs/a", spec, []string{"Content-Type", "application/x-ndjson"},
			415, "INVALID", "content-type", "application/json"},
		"a line that is not a node": {"PUT", "/v1/workflows/w", "{}\n{\"id\":\"a\",\"type\":\"t\"}\nnode\n",
			[]string{"Content-Type", "application/x-ndjson"}, 400, "INVALID", "line 3", "JSON"},
		"a line that is too long": {"PUT", "/v1/workflows/w", "{}\n" + strings.Repeat("x", 2<<20),
			[]string{"Content-Type", "application/x-ndjson"}, 400, "INVALID", "body", "line 2"},
		"65 MiB of lines": {"PUT", "/v1/workflows/w", strings.Repeat(blank, 65<<10),
			[]string{"Content-Type", "application/x-ndjson"}, 413, "INVALID", "body", "smaller"},
		"a bomb of lines": {"PUT", "/v1/workflows/w", bomb(t, strings.Repeat(blank, 1<<10), 65),
			[]string{"Content-Type", "application/x-ndjson", "Content-Encoding", "gzip"}, 413, "INVALID", "body",
			"smaller"},
		"a hook without an address": {"PUT", "/v1/webhooks/h", `{}`, nil, 400, "INVALID", "url", "https://"},
		"a hook of another kind": {"PUT", "/v1/webhooks/h", `{"url":"https://a.example","kinds":["jobDied"]}`,
			nil, 400, "INVALID", "", "jobDead"},
		"another hook": {"PUT", "/v1/webhooks/h", `{"name":"g","url":"https://a.example"}`, nil, 400,
			"INVALID", "id", "equal"},
		"a round of no height": {"GET", "/v1/rounds/4", "", nil, 400, "INVALID", "height", "required"},
		"a round that is none": {"GET", "/v1/rounds/last?height=4", "", nil, 400, "INVALID", "epoch", "last"},
		"groups of what":       {"GET", "/v1/jobs?group_by=error", "", nil, 400, "INVALID", "group_by", "fingerprint"},
		"lanes by what":        {"GET", "/v1/queues/q/lanes?order=newest", "", nil, 400, "INVALID", "order", "oldest"},
		"too many lanes":       {"GET", "/v1/queues/q/lanes?limit=101", "", nil, 400, "INVALID", "limit", "100"},
		"an unknown state":     {"GET", "/v1/workflows?state=DONE", "", nil, 400, "INVALID", "state", "RUNNING"},
		"another plan": {"PUT", "/v1/plans/p", `{"id":"q","verb":"cancel","filter":"id=*"}`, nil, 400,
			"INVALID", "id", "equal"},
		"an unknown verb": {"PUT", "/v1/plans/p", `{"verb":"stop","filter":"id=*"}`, nil, 400, "INVALID",
			"verb", "cancel"},
		"an empty rule": {"PUT", "/v1/key-rules/album", `{}`, nil, 400, "INVALID", "rule", "concurrency"},
		"another rule": {"PUT", "/v1/key-rules/album?queue=q", `{"queue":"r"}`, nil, 400, "INVALID", "id",
			"equal"}, "no key": {"GET", "/v1/keys", "", nil, 400, "INVALID", "key", "required"},
		"a past of no moment":   {"GET", "/v1/past?at=yesterday", "", nil, 400, "INVALID", "at", "an index"},
		"keys in an order":      {"GET", "/v1/key-states?by=size", "", nil, 400, "INVALID", "by", "spent"},
		"keys of a state":       {"GET", "/v1/key-states?held=empty", "", nil, 400, "INVALID", "held", "blocked"},
		"a key without a value": {"GET", "/v1/keys?key=album", "", nil, 400, "INVALID", "key", "NAME:VALUE"},
		"a token's secret": {"PUT", "/v1/tokens/t", `{"secret":"s","roles":["reader"]}`, nil, 400,
			"INVALID", "secret", "openapi"},
		"half a hash": {"PUT", "/v1/tokens/t", `{"hash":"abcd","roles":["reader"]}`, nil, 400, "INVALID", "hash", "32"},
		"a right that is none": {"PUT", "/v1/roles/r", `{"grants":[{"right":"all","tenant":"*","queue":"*"}]}`,
			nil, 400, "INVALID", "grants[0].right", "submit"},
		"no roles of anonymous":        {"PUT", "/v1/anonymous", `{}`, nil, 400, "INVALID", "roles", "[] for none"},
		"the output of one that waits": {"GET", "/v1/jobs/a/output", "", nil, 404, "NOT_FOUND", "output", "COMPLETED"},
	} {
		answer, text := web.call(c.method, c.path, c.body, c.headers...)
		var p rest.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil ||
			answer.Header.Get("Content-Type") != rest.ProblemType {
			t.Errorf("%s: %s %q is not a problem: %v", name, answer.Status, text, err)
			continue
		}
		if answer.StatusCode != c.status || p.Status != c.status || p.Kind != c.kind ||
			p.Type != rest.ProblemURN+c.kind || p.Title == "" ||
			c.field != "" && p.Field != c.field || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %s %s", name, answer.Status, text)
		}
		if len(text) > 2000 {
			t.Errorf("%s: the problem has %d bytes", name, len(text))
		}
	}
	web.host = "evil.example"
	if answer, text := web.call("GET", "/v1/jobs", ""); answer.StatusCode != http.StatusMisdirectedRequest ||
		!strings.Contains(text, `"field":"host"`) {
		t.Errorf("of another host: %s %s", answer.Status, text)
	}
}

// TestHTTP_time checks that a read gets the time of a call, and more only if it has to wait: a read for an index that
// never comes must be answered.
func TestHTTP_time(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var until time.Time
	b.core.job = func(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
		until, _ = ctx.Deadline()
		return rota.Job{JobSpec: rota.JobSpec{ID: id}, State: rota.JobCompleted}, fakeAt(opt), nil
	}
	web := wiredOf(t, b)
	const call, most = 30 * time.Second, 60 * time.Second // docs/guides/http.md, Lists and reads
	for query, wait := range map[string]time.Duration{"": 0, "?min_index=99": 0, "?wait=1s": most} {
		begun := time.Now()
		answer, text := web.call("GET", "/v1/jobs/a"+query, "")
		if answer.StatusCode != http.StatusOK || until.Before(begun) || until.After(time.Now().Add(call+wait)) {
			t.Errorf("%q: %s %s, it may take until %s after it was asked", query, answer.Status, text, until.Sub(begun))
		}
	}
}

// TestHTTP_drain checks that the answer to the last call in progress during shutdown is complete: its end is written
// after the call has returned.
func TestHTTP_drain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		output := bytes.Repeat([]byte("o"),
			1<<20) // as much as is in flight on a connection of setup: the end waits for a reader
		release := make(chan struct{})
		b.core.job = func(_ context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
			<-release
			return rota.Job{JobSpec: rota.JobSpec{ID: id}, State: rota.JobCompleted, Output: output}, fakeAt(opt), nil
		}
		conn, err := b.lis.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET /v1/jobs/a/output HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- b.server.Drain(bounded(t)) }()
		synctest.Wait()
		close(release)
		const slow = 4 << 10 // bytes that are read one by one: at one of them the call has returned, and its end has no room
		var came bytes.Buffer
		for range slow {
			synctest.Wait()
			if _, err := io.CopyN(&came, conn, 1); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(&came, conn)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(text, output) {
			t.Errorf("%s with %d bytes, %v", answer.Status, len(text), err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// TestHTTP_jobs makes each call about jobs.
func TestHTTP_jobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var known []rota.JobSpec
	b.core.submit = func(_ context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
		out := make([]rota.Submitted, len(jobs))
		for i, j := range jobs {
			out[i] = rota.Submitted{ID: j.ID, State: rota.JobQueued, Index: 7, Existed: j.ID == "again"}
			if j.ID == "full" {
				out[i].Err = &rota.Error{Kind: rota.KindExhausted, Subject: "queue", Text: "the queue is full: wait",
					RetryAfter: 1500 * 1e6}
			}
			known = append(known, j)
		}
		return out, nil
	}
	b.core.job = func(_ context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
		return rota.Job{JobSpec: rota.JobSpec{ID: id, Payload: []byte("p <&> \xff")}, Output: []byte("out"),
			State: rota.JobCompleted}, fakeAt(opt), nil
	}
	web := wiredOf(t, b)
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               []string
	}{
		{"PUT", "/v1/jobs/a", `{"type":"t","payload":{"n":1}}`, nil, 201,
			[]string{`"id":"a"`, `"state":"QUEUED"`, `"index":7`}},
		{"PUT", "/v1/jobs/again", `{"type":"t"}`, nil, 200, []string{`"existed":true`}},
		{"PUT", "/v1/jobs/full", `{"type":"t"}`, nil, 429, []string{`"kind":"EXHAUSTED"`, `"retry_after_ms":1500`}},
		{"POST", "/v1/jobs", `{"jobs":[{"id":"b","type":"t"},{"id":"full","type":"t"},{"id":"c","type":""}]}`, nil, 200,
			[]string{`"refused":2`, `"kind":"EXHAUSTED"`, `"field":"type"`}},
		{"POST", "/v1/jobs", `{"jobs":[{"type":"t"},{"type":"t"}]}`, []string{"Idempotency-Key", "k"}, 200,
			[]string{`"id":"k-`, `"refused":0`}},
		{"GET", "/v1/jobs/w%2Fn?consistency=stale", "", nil, 200, []string{`"id":"w/n"`, `{"base64":`}},
		{"GET", "/v1/jobs/a?wait=1s", "", nil, 200, []string{`"state":"COMPLETED"`}},
		{"GET", "/v1/jobs?q=type=t&limit=5", "", nil, 200, []string{`"jobs":[`, `"next_cursor":"n"`}},
		{"GET", "/v1/jobs/a/payload", "", nil, 200, []string{"p <&> \xff"}},
		{"GET", "/v1/jobs/a/output", "", nil, 200, []string{"out"}},
		{"GET", "/v1/jobs/a/why", "", nil, 200, []string{`"NO_FREE_SLOT"`}},
		{"GET", "/v1/jobs/a/eta", "", nil, 200, []string{`"expected_start_ms":3000`, `"earliest_start_ms":2000`,
			`"latest_start_ms":4000`, `"tenant":"acme"`, `"a lease ends"`}},
		{"GET", "/v1/jobs/nobody/eta", "", nil, 404, []string{`"NOT_FOUND"`}},
		{"GET", "/v1/jobs/crowd/eta", "", nil, 429, []string{`"EXHAUSTED"`}},
		{"GET", "/v1/jobs/a/logs?attempt=2", "", nil, 200, []string{`"attempt":2`, `"said\n"`}},
		{"POST", "/v1/jobs/a/cancel", "", nil, 200, []string{`"state":"CANCELLED"`, `"index":5`}},
		{"POST", "/v1/jobs/a/retry", "", nil, 200, []string{`"id":"a"`}},
		{"POST", "/v1/jobs/a/retry", `{"life":0}`, nil, 200, []string{`"id":"a"`}},
		{"POST", "/v1/jobs/a/change", `{"priority":3}`, nil, 200, []string{`"id":"a"`}},
		{"DELETE", "/v1/jobs/a", "", nil, 200, []string{`"id":"a"`}},
		{"GET", "/v1/queues/q", "", nil, 200, []string{`"name":"q"`, `"attempt_max":`}},
		{"PUT", "/v1/queues/q", `{"set":{"attempt_max":3,"paused":true,"ranking":"fifo"}}`, nil, 200,
			[]string{`"attempt_max":3`, `"paused":true`}},
		{"POST", "/v1/queues/q/pause", "", nil, 200, []string{`"paused":true`}},
		{"POST", "/v1/queues/q/resume", "", nil, 200, []string{`"paused":false`}},
		{"GET", "/v1/queues", "", nil, 200, []string{`{"queues":[]}`}},
		{"GET", "/v1/tenants", "", nil, 200, []string{`{"tenants":[]}`}},
		{"GET", "/v1/workers", "", nil, 200, []string{`{"workers":[]}`}},
		{"GET", "/v1/workers/w", "", nil, 200, []string{`"id":"w"`}},
		{"POST", "/v1/workers/w/drain", "", nil, 200, []string{`"DRAINING"`}},
		{"GET", "/v1/cluster", "", nil, 200, []string{`"cluster_id":"c1"`}},
		{"GET", "/v1/whoami", "", nil, 200, []string{`"principal":"anonymous"`}},
		{"GET", "/v1/jobs?q=type=t&count=1", "", nil, 200, []string{`"counted":{"count":3,"complete":true}`}},
		{"GET", "/v1/jobs?q=state=DEAD&group_by=fingerprint", "", nil, 200,
			[]string{`"counted":{"count":3,"groups":[{"fingerprint":"07","count":3,"job":"j1"`, `"error":"disk full"`}},
		{"GET", "/v1/queues/q/lanes?limit=7&order=oldest", "", nil, 200,
			[]string{`"oldest_wait_ms":60000,"oldest":"o","head":"j"`}},
		{"GET", "/v1/queues/q/lanes?limit=7", "", nil, 200, []string{`"lanes_total":7`, `"oldest_wait_ms":1000`,
			`"reason":"TENANT_AT_LIMIT"`}},
		{"GET", "/v1/past?at=48", "", nil, 200, []string{`{"index":48,"from":3,"entries":45}`}},
		{"GET", "/v1/key-states?name=k&held=full&limit=7&cursor=c", "", nil, 200,
			[]string{`"key":"k:7","jobs":7,"open":3,"full":true`, `"concurrency":3`, `"next_cursor":"3/5/c"`}},
		{"GET", "/v1/rounds/4?height=8", "", nil, 200, []string{`"epoch":4,"height":8,"index":9`, `"proved":true`,
			`[{"job":"i","rank":0,"score":0},{"job":"j","rank":1,"score":5,"worker":"w","reasoning":`}},
		{"GET", "/v1/cluster/views", "", nil, 200,
			[]string{`"views":[{"node":"n2","gossip":"ALIVE","answered_ms_ago":12}]`,
				`"error":"does not answer","views":[]`}},
		{"GET", "/v1/webhooks", "", nil, 200, []string{`"webhooks":[`}},
		{"PUT", "/v1/webhooks/h", `{"url":"https://example.com/rota","kinds":["jobDead"],"generation":2}`, nil, 200,
			[]string{`"name":"h"`}}, {"GET", "/v1/webhooks/h", "", nil, 200, []string{`"name":"h"`}},
		{"POST", "/v1/webhooks/h/pause", `{"reason":"moves"}`, nil, 200, []string{`"name":"h"`}},
		{"POST", "/v1/webhooks/h/resume", "", nil, 200, []string{`"name":"h"`}},
		{"POST", "/v1/webhooks/h/skip", "", nil, 200, []string{`"name":"h"`}},
		{"DELETE", "/v1/webhooks/h", "", nil, 200, []string{`{}`}},
		{"GET", "/openapi.json", "", nil, 200, []string{`"3.1.0"`}},
		{"GET", "/openapi-3.0.json", "", nil, 200, []string{`"3.0.3"`}},
	} {
		answer, text := web.call(c.method, c.path, c.body, c.headers...)
		if answer.StatusCode != c.status || answer.Header.Get("Rota-Node") != "n1" {
			t.Errorf("%s %s: %s %s", c.method, c.path, answer.Status, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s: %s has no %s", c.method, c.path, text, want)
			}
		}
		if c.status == 429 && answer.Header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After is %q", answer.Header.Get("Retry-After"))
		}
		if strings.Contains(c.path, "stale") && (answer.Header.Get("Rota-Index") != "6" ||
			answer.Header.Get("Rota-Age-Ms") != "70") {
			t.Errorf("of a stale read: %v", answer.Header)
		}
	}
	if len(known) != 7 || known[0].Priority != rota.DefaultPriority || string(known[0].Payload) != `{"n":1}` ||
		known[0].Queue != rota.DefaultQueue {
		t.Errorf("submitted were %+v", known)
	}
}

// TestHTTP_keyedIDs checks that a batch that is sent again has the same ids, and that another key, position or tenant
// gives others.
func TestHTTP_keyedIDs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []string
	b.core.submit = func(_ context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
		for _, j := range jobs {
			ids = append(ids, string(j.ID))
		}
		return make([]rota.Submitted, len(jobs)), nil
	}
	web := wiredOf(t, b)
	body := `{"jobs":[{"type":"t"},{"type":"t"},{"type":"t","tenant":"other"}]}`
	web.call("POST", "/v1/jobs", body, "Idempotency-Key", "one")
	web.call("POST", "/v1/jobs", body, "Idempotency-Key", "one")
	web.call("POST", "/v1/jobs", body, "Idempotency-Key", "two")
	distinct := make(map[string]bool)
	for i, id := range ids {
		distinct[id] = true
		if len(id) != 28 || rota.CheckID("id", id) != nil || i < 3 && ids[i+3] != id {
			t.Errorf("id %d is %q of %q", i, id, ids)
		}
	}
	if len(distinct) != 6 {
		t.Errorf("of 9 jobs, 3 of which were sent twice, %d ids: %q", len(distinct), ids)
	}
}
