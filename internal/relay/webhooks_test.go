package relay

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// message is a message that a receiver got.
type message struct {
	header http.Header
	body   string
}

// receive starts a receiver that answers with a status, and returns a relay that may post to it.
func receive(t *testing.T, status int, header map[string]string) (*Webhooks, string, func() message) {
	t.Helper()
	got := make(chan message, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		got <- message{req.Header, string(body)}
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	r := &Webhooks{Key: Key(strings.Repeat("k", 64)), AllowPrivate: true, AllowHTTP: true,
		http: newHTTP(true, 5*time.Second)}
	t.Cleanup(r.http.CloseIdleConnections)
	return r, srv.URL + "/in", func() message { return <-got }
}

func hook(url string) *rota.Webhook {
	return &rota.Webhook{WebhookSpec: rota.WebhookSpec{Name: "h", URL: url, Generation: 1},
		Began: rota.EventID{Incarnation: 1, Index: 7}}
}

// TestPost_signature checks that a receiver can verify a message with only the standard, the output of `rota webhook
// secret`, and the message; a changed body, id or timestamp is detected.
func TestPost_signature(t *testing.T) {
	t.Parallel()
	r, url, got := receive(t, http.StatusNoContent, nil)
	w := hook(url)
	if err := r.post(t.Context(), w, "1.9.0", []byte(`{"type":"jobDead"}`)); err != nil {
		t.Fatal(err)
	}
	m := got()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Key.Secrets(w, time.Now())[0].Text(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	signs := func(id, timestamp, body string) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "." + body))
		return m.header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	id, at := m.header.Get("Webhook-Id"), m.header.Get("Webhook-Timestamp")
	if id != "1.9.0" || m.body != `{"type":"jobDead"}` || m.header.Get("Content-Type") != "application/json" {
		t.Errorf("the receiver had id %q, body %s, headers %v", id, m.body, m.header)
	}
	if s, err := strconv.ParseInt(at, 10, 64); err != nil || time.Since(time.Unix(s, 0)).Abs() > time.Minute {
		t.Errorf("webhook-timestamp %q is not about now", at)
	}
	if !signs(id, at, m.body) {
		t.Errorf("the signature %q is not that of the message", m.header.Get("Webhook-Signature"))
	}
	if signs(id, at, m.body+" ") || signs("1.9.1", at, m.body) || signs(id, at+"0", m.body) {
		t.Error("a changed message has the same signature")
	}
}

// TestSignature_known uses the example of the Standard Webhooks specification's libraries.
func TestSignature_known(t *testing.T) {
	t.Parallel()
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := Signature([]Secret{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

// TestSecrets checks that both generations sign for a day after a rotation, then only the newer; hooks of another name,
// creation or key share none.
func TestSecrets(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	key, w := Key(strings.Repeat("k", 32)), hook("https://example.com/")
	old := key.Secrets(w, now)
	w.Generation, w.Rotated = 2, rota.Date(now.UnixMilli())
	both, after := key.Secrets(w, now.Add(24*time.Hour-time.Millisecond)), key.Secrets(w, now.Add(24*time.Hour))
	if len(old) != 1 || len(both) != 2 || len(after) != 1 || both[1].Text() != old[0].Text() ||
		after[0].Text() != both[0].Text() {
		t.Errorf("the secrets are %d, then %d and %d, want 1, 2 (the newer first) and 1 (the newer)", len(old),
			len(both), len(after))
	}
	if n := len(strings.Fields(Signature(both, "1.9.0", "1", nil))); n != 2 {
		t.Errorf("a message has %d signatures after a rotation, want 2", n)
	}
	seen := map[string]string{old[0].Text(): "the hook's", both[0].Text(): "generation 2"}
	if len(seen) != 2 {
		t.Error("a rotation leaves the secret as it is")
	}
	other, again := hook(w.URL), hook(w.URL)
	other.Name, again.Began.Index = "h2", 8
	for what, s := range map[string]Secret{"another name": key.Secrets(other, now)[0],
		"the name set again": key.Secrets(again, now)[0],
		"another key":        Key(strings.Repeat("l", 32)).Secrets(hook(w.URL), now)[0]} {
		if as, ok := seen[s.Text()]; ok {
			t.Errorf("%s has the secret of %s", what, as)
		}
		seen[s.Text()] = what
	}
}

// TestPost_answers checks what happens to a delivery, for each kind of answer.
func TestPost_answers(t *testing.T) {
	t.Parallel()
	failed, noRetry := verdict(http.ErrServerClosed), verdict(client.NoRetry(nil))
	for _, c := range []struct {
		status int
		header map[string]string
		want   string
	}{
		{200, nil, "delivered"}, {202, nil, "delivered"}, {204, nil, "delivered"},
		{410, nil, noRetry},
		{301, map[string]string{"Location": "http://127.0.0.1:1/"}, failed},
		{307, map[string]string{"Location": "http://127.0.0.1:1/"}, failed},
		{400, nil, failed}, {404, nil, failed}, {500, nil, failed}, {503, nil, failed},
		{429, map[string]string{"Retry-After": "7"}, verdict(client.RetryAfter(7*time.Second, nil))},
		{503, map[string]string{"Retry-After": "99999999"}, verdict(client.RetryAfter(time.Hour, nil))},
		{429, map[string]string{"Retry-After": "-1"}, failed},
	} {
		r, url, got := receive(t, c.status, c.header)
		err := r.post(t.Context(), hook(url), "1.9.0", []byte("{}"))
		got()
		if v := verdict(err); v != c.want {
			t.Errorf("an answer of %d %v is %s (%v), want %s", c.status, c.header, v, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), strconv.Itoa(c.status)) {
			t.Errorf("the error after status %d does not mention it: %v", c.status, err)
		}
	}
}

// verdict names the meaning of a handler's error for the worker's library: client keeps the kind private.
func verdict(err error) string {
	if err == nil {
		return "delivered"
	}
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Struct || !v.FieldByName("kind").IsValid() {
		return "failed"
	}
	return "kind " + strconv.FormatInt(kindOf(v.FieldByName("kind")), 10) + " after " +
		time.Duration(v.FieldByName("after").Int()).String()
}

func kindOf(v reflect.Value) int64 {
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}

// TestPost_http checks that without --allow-http nothing is posted in the clear.
func TestPost_http(t *testing.T) {
	t.Parallel()
	r := &Webhooks{Key: Key(strings.Repeat("k", 32)), AllowPrivate: true, http: newHTTP(true, time.Second)}
	if err := r.post(t.Context(), hook("http://127.0.0.1:1/"), "1.9.0", nil); err == nil ||
		!strings.Contains(err.Error(), "--allow-http") {
		t.Errorf("error %v, want one that names --allow-http", err)
	}
}

// TestReadKey checks that a key that is short, or readable by others, is rejected.
func TestReadKey(t *testing.T) {
	t.Parallel()
	write := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := ReadKey(write(strings.Repeat("k", 31)+"\n", 0o600)); err == nil ||
		!strings.Contains(err.Error(), "31 bytes") {
		t.Errorf("a key of 31 bytes: error %v", err)
	}
	if _, err := ReadKey(write(strings.Repeat("k", 64), 0o644)); err == nil {
		t.Error("a key that everybody can read was accepted")
	}
	if k, err := ReadKey(write(strings.Repeat("k", 64)+"\n", 0o600)); err != nil || len(k) != 64 {
		t.Errorf("a key of 64 bytes: %d bytes, error %v", len(k), err)
	}
}

// TestDeliver_saysWhyItFails checks that the first failure of a hook in a minute is logged, with the receiver's answer.
func TestDeliver_saysWhyItFails(t *testing.T) {
	t.Parallel()
	r, url, got := receive(t, http.StatusTeapot, nil)
	var log bytes.Buffer
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.kept, r.said = make(map[rota.WebhookName]keptHook), make(map[rota.WebhookName]time.Time)
	for _, name := range []rota.WebhookName{"h", "other"} {
		w := hook(url)
		w.Name = name
		r.kept[name] = keptHook{*w, nil, time.Now().Add(time.Hour)}
	}
	fail := func(id rota.JobID) {
		t.Helper()
		if _, err := r.deliver(t.Context(), client.NewJob(rota.Assignment{Spec: rota.JobSpec{ID: id}},
			nil)); err == nil {
			t.Errorf("%s was delivered", id)
		}
		got()
	}
	fail("h@1.8.0")
	fail("h@1.9.0")
	fail("other@1.9.0")
	if said := log.String(); strings.Count(said, "\n") != 2 ||
		!strings.Contains(said, "webhook=h job=h@1.8.0 attempt=1") ||
		!strings.Contains(said, "webhook=other") || !strings.Contains(said, "the receiver answered 418") {
		t.Errorf("the log has:\n%s", said)
	}
	if !r.toSay("h", time.Now().Add(failureSaid)) {
		t.Error("after a minute nothing is logged")
	}
}
