package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// receiver accepts deliveries, and checks each according to Standard Webhooks.
type receiver struct {
	mu     sync.Mutex
	down   bool
	tries  int
	secret []byte
	got    map[string]int
	wrong  []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if r.down {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id, timestamp := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !strings.Contains(req.Header.Get(
		"webhook-signature"), want) {
		r.wrong = append(r.wrong, id)
	}
	if !strings.Contains(string(body), `"type":"jobEnqueued"`) ||
		!strings.Contains(string(body), `"event_id":"`+id+`"`) {
		r.wrong = append(r.wrong, string(body))
	}
	r.got[id]++
}

// TestWebhooks: a receiver is down while jobs are submitted and leaders are killed; then it has each event, with one
// delivery each. A receiver that is gone disables its hook.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	r := &receiver{down: true, got: make(map[string]int)}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"file:///etc/passwd", "https://u:p@example.com/", "nonsense", "https://"} {
		c.rota(t, "webhook", "set", "bad", "--url", bad).want(t, 2)
	}
	c.rota(t, "webhook", "set", "bad", "--url", "https://example.com/", "--kinds", "nonsense").want(t, 2)
	c.rota(t, "webhook", "show", "bad").want(t, 3)
	c.rota(t, "webhook", "set", "h", "--url", srv.URL+"/in", "--kinds", "jobEnqueued", "--filter",
		"queue=default").want(t, 0)
	text := strings.TrimSpace(c.rota(t, "webhook", "secret", "h", "--key-file", key).want(t, 0).stdout)
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	r.secret = secret
	relay := launch(t, "relay", []string{c.env()}, "relay", "webhooks", "--key-file", key, "--allow-private",
		"--allow-http")
	const jobs = 40
	for i := range jobs {
		c.rota(t, "job", "submit", "--type", "t", "--id", fmt.Sprint("j", i)).want(t, 0)
		if i == jobs/2 {
			leader := c.leader(t)
			leader.Kill()
			leader.start(t)
			c.awaitReady()
		}
	}
	eventually(t, 60*time.Second, "the receiver is tried", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.tries < jobs/2 {
			return rota.Refusef(rota.KindTimeout, "", "%d tries", r.tries)
		}
		return nil
	})
	leader := c.leader(t)
	leader.Kill()
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
	leader.start(t)
	c.awaitReady()
	var w rota.Webhook
	eventually(t, 120*time.Second, "all is delivered", func() error {
		w = decode[rota.Webhook](t, c.rota(t, "webhook", "show", "h", "-o", "json").want(t, 0))
		if w.Delivered < jobs {
			return rota.Refusef(rota.KindTimeout, "", "%+v", w)
		}
		return nil
	})
	r.mu.Lock()
	got, wrong := maps.Clone(r.got), slices.Clone(r.wrong)
	r.mu.Unlock()
	if w.Delivered != jobs || w.Pending != 0 || w.Failed != 0 || len(got) != jobs || len(wrong) > 0 {
		t.Errorf("%d deliveries, %d are pending, %d failed; %d events were received, these are wrong: %v", w.Delivered,
			w.Pending, w.Failed, len(got), wrong)
	}
	for id, n := range got {
		if n != 1 {
			t.Logf("event %s was received %d times: on the wire that may be", id, n)
		}
	}
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	t.Cleanup(gone.Close)
	c.rota(t, "webhook", "set", "gone", "--url", gone.URL, "--kinds", "jobEnqueued", "--filter",
		"queue=default").want(t, 0)
	c.rota(t, "job", "submit", "--type", "t", "--id", "last").want(t, 0)
	eventually(t, 60*time.Second, "a 410 disables its webhook", func() error {
		w := decode[rota.Webhook](t, c.rota(t, "webhook", "show", "gone", "-o", "json").want(t, 0))
		if w.State != rota.WebhookDisabled || w.Failed != 1 || w.Pending != 0 || w.Why == "" {
			return rota.Refusef(rota.KindTimeout, "", "%+v", w)
		}
		return nil
	})
	relay.Kill()
	c.rota(t, "webhook", "list").want(t, 0)
	c.rota(t, "webhook", "pause", "h", "--reason", "enough").want(t, 0)
	c.rota(t, "webhook", "resume", "h").want(t, 0)
	c.rota(t, "webhook", "skip", "h").want(t, 0)
	c.rota(t, "webhook", "delete", "h").want(t, 0)
}
