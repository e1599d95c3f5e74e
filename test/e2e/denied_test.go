package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestWorker_refused: a worker whose credential is unknown, and one whose credential lacks the right to work, report the refusal
// and exit with its code.
func TestWorker_refused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	reader := c.tokenFile(t, "--role", "reader")
	unknown := writeFile(t, filepath.Join(t.TempDir(), "token"), "rota_abcdefghijkl_"+strings.Repeat("a", 52))
	check(t, os.Chmod(unknown, 0o600))
	for name, token := range map[string][]string{"of a reader": reader, "unknown": {"--token-file", unknown}} {
		if refused := c.rota(t, append([]string{"worker", "run", "--queues", "default"}, token...)...).want(t,
			8); refused.stderr == "" {
			t.Errorf("a worker with a token %s is refused without a message", name)
		}
	}
}

// TestDeniedFlood: a burst of calls with an unknown token is counted, and leaves in the data directory at most a
// hundred lines a second, none of which quotes it.
func TestDeniedFlood(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	secret := strings.Repeat("flood777", 6) + "flop"
	const callers, each = 8, 100
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		cl, err := client.Dial(c.addrs(), client.WithInsecure(), client.WithToken("rota_abcdefghijkl_"+secret))
		check(t, err)
		t.Cleanup(func() { _ = cl.Close() })
		all.Go(func() {
			for range each {
				if _, err := cl.Job(context.Background(), "j"); !errors.Is(err, rota.ErrUnauthenticated) {
					t.Errorf("an unknown token gets %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	seconds := int(time.Since(began)/time.Second) + 2 // it may begin and end within one
	want := fmt.Sprintf(`rota_calls_denied_total{method="/rota.v1.Jobs/Get",reason="UNAUTHENTICATED"} %d`, callers*each)
	contains(t, "the metrics", metricsOf(t, c.all[0]), want)
	c.all[0].stop(t, 20*time.Second)
	text, err := os.ReadFile(filepath.Join(c.all[0].Dir, "denied.log"))
	check(t, err)
	if strings.Contains(string(text), "flood777") {
		t.Error("the file of denied calls has the token")
	}
	lines, dropped := 0, 0
	for line := range strings.Lines(string(text)) {
		var l struct {
			Time                                     time.Time
			Method, Principal, Peer, Reason, Request string
			Dropped                                  int
		}
		check(t, json.Unmarshal([]byte(line), &l))
		if l.Time.IsZero() || l.Method != "/rota.v1.Jobs/Get" || l.Principal != "unknown" ||
			!strings.HasPrefix(l.Peer, "127.0.0.1:") ||
			l.Reason == "" || l.Request == "" {
			t.Fatalf("a line is %s", line)
		}
		lines, dropped = lines+1, dropped+l.Dropped
	}
	if lines == 0 || lines > 100*seconds || lines+dropped > callers*each {
		t.Errorf("%d lines in %d seconds, which report that %d are missing", lines, seconds, dropped)
	}
}
