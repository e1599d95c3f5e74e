package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// reads holds the states of a job that a fake core showed, by caller.
type reads struct {
	mu   sync.Mutex
	by   map[rota.Principal]int
	note string
}

func (r *reads) job(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
	caller, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[caller.Actor]++
	return rota.Job{JobSpec: rota.JobSpec{ID: id, Payload: []byte("secret")}, State: rota.JobRunning,
		ProgressNote: r.note}, rota.ReadAt{Index: 7}, nil
}

func (r *reads) say(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note = note
}

func (r *reads) counts() map[rota.Principal]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[rota.Principal]int)
	for who, n := range r.by {
		all[who] = n
	}
	return all
}

// TestLive checks that a state is made once a second for all callers with the same read rights, under their rights. An
// unchanged state is not sent again, and without a viewer nothing is made.
func TestLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		table, who, _ := holder(rota.RightRead, rota.RightStatus)
		table.give(rota.Anonymous, rota.RightRead)
		b.core.setTable(table)
		own := []string{"Authorization", tokenScheme + access.CredentialOf([40]byte{7}).Secret()}
		r := &reads{by: make(map[rota.Principal]int)}
		b.core.job = r.job
		web := webOf(t, b)
		first, one := web.open("GET", "/v1/live?topic=job/j")
		second, two := web.open("GET", "/v1/live?topic=job/j")
		third, three := web.open("GET", "/v1/live?topic=job/j", own...)
		for _, from := range []*bufio.Reader{one, two, three} {
			if text := block(t, from); text != "retry: 1000\n\n" {
				t.Fatalf("%q", text)
			}
		}
		a, c, d := one, two, three
		text := block(t, a)
		var m struct {
			Topic string
			Full  bool
			Index rota.Index
			State rota.Job
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(text, "data: ")), &m); err != nil || m.Topic != "job/j" ||
			!m.Full || m.Index != 7 || m.State.State != rota.JobRunning ||
			m.State.Payload != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if other := block(t, c); other != text {
			t.Errorf("another viewer sees %s", other)
		}
		if other := block(t, d); other != text {
			t.Errorf("one with other rights sees %s", other)
		}
		before := r.counts()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		for _, p := range []rota.Principal{rota.Anonymous, who} {
			if n := r.counts()[p] - before[p]; n < 3 || n > 5 {
				t.Errorf("in four seconds the state was made %d times as %s", n, p)
			}
		}
		r.say("half")
		signs := 0
		for text = block(t, a); text == ":\n\n"; text = block(t, a) {
			signs++
		}
		if !strings.Contains(text, "half") || signs < 3 {
			t.Errorf("after %d signs of life: %s", signs, text)
		}
		table.give(who, rota.RightRead) // with one right fewer, the table is a different one
		changed := &rightsTable{hash: table.hash, rights: table.rights}
		b.core.setTable(changed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		before = r.counts()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if sum := r.counts()[who] + r.counts()[rota.Anonymous] - before[who] - before[rota.Anonymous]; sum < 3 ||
			sum > 5 {
			t.Errorf("three viewers with one right have it made %d times in four seconds", sum)
		}
		for _, answer := range []*http.Response{first, second, third} {
			_ = answer.Body.Close()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		before = r.counts()
		time.Sleep(time.Minute)
		synctest.Wait()
		if now := r.counts(); now[who] != before[who] || now[rota.Anonymous] != before[rota.Anonymous] {
			t.Errorf("with no viewer the state is made: %v, then %v", before, now)
		}
		web.client.CloseIdleConnections()
	})
}

// TestLive_workersAreForWhoSeesThem checks that a topic that a viewer may not see is a problem of that topic, also for
// a viewer that lost the right meanwhile.
func TestLive_workersAreForWhoSeesThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		table := &rightsTable{}
		table.give(rota.Anonymous, rota.RightRead, rota.RightStatus)
		b.core.setTable(table)
		web := webOf(t, b)
		answer, body := web.open("GET", "/v1/live?topic=workers&topic=overview")
		lines := body
		for seen := 0; seen < 2; {
			text := block(t, lines)
			switch {
			case strings.Contains(text, `"problem":{`):
				t.Fatalf("%s", text)
			case strings.Contains(text, `"topic"`):
				seen++
			}
		}
		less := &rightsTable{}
		less.give(rota.Anonymous, rota.RightRead)
		b.core.setTable(less)
		for denied := false; !denied; {
			text := block(t, lines)
			denied = strings.Contains(text, `"topic":"workers"`) && strings.Contains(text, `"kind":"DENIED"`)
			if !denied && (strings.Contains(text, `"cluster":`) || strings.Contains(text, "(")) {
				t.Fatalf("after the right to status was lost: %s", text)
			}
		}
		_ = answer.Body.Close()
		web.client.CloseIdleConnections()
	})
}

// TestLive_leadsOn checks that callers that may not see the nodes still learn the leader, and the addresses at which a
// page can continue. They learn no addresses if browsers reach all nodes through one origin.
func TestLive_leadsOn(t *testing.T) {
	for ui, says := range map[string]string{"": `"leader":"n2","apis":["n1.lan:6470","n2.lan:6470"],"queues"`,
		"https://rota.example": `"leader":"n2","queues"`} {
		t.Run(ui, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := setup(t, func(o *Options) { o.Hosts.UI = ui })
				b.core.apis = []string{"n1.lan:6470", "n2.lan:6470"}
				table := &rightsTable{}
				table.give(rota.Anonymous, rota.RightRead)
				b.core.setTable(table)
				web := webOf(t, b)
				answer, body := web.open("GET", "/v1/live?topic=overview")
				text := block(t, body)
				for !strings.Contains(text, `"topic"`) {
					text = block(t, body)
				}
				if !strings.Contains(text, says) || strings.Contains(text, `"cluster":`) {
					t.Errorf("with the origin %q: %s", ui, text)
				}
				_ = answer.Body.Close()
				web.client.CloseIdleConnections()
			})
		})
	}
}

// TestLive_waits checks that an overview shows the longest-waiting jobs of the queues with pending jobs, the longest
// wait first.
func TestLive_waits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		b.core.queues = []rota.Queue{{Name: "idle"}, {Name: "q", OldestWait: time.Second},
			{Name: "r", OldestWait: time.Hour}}
		b.core.queues[1].Queued, b.core.queues[2].Queued = 1, 1
		web := webOf(t, b)
		answer, body := web.open("GET", "/v1/live?topic=overview")
		text := block(t, body)
		for !strings.Contains(text, `"topic"`) {
			text = block(t, body)
		}
		const wait = `,"tenant":"acme","type":"t","jobs":3,"oldest_wait_ms":60000,"oldest":"o","head":"j","priority":0,"reasons":[{"reason":"TENANT_AT_LIMIT"`
		first, second := strings.Index(text, `{"queue":"r"`+wait), strings.Index(text, `{"queue":"q"`+wait)
		if strings.Contains(text, `{"queue":"idle"`) || first < 0 || second < first {
			t.Errorf("waits in %s", text)
		}
		_ = answer.Body.Close()
		web.client.CloseIdleConnections()
	})
}

func TestLive_refuses(t *testing.T) {
	t.Parallel()
	web := webOf(t, setup(t))
	for query, says := range map[string]string{
		"": "1 to 16", "?topic=": "overview", "?topic=queue": "queue/Q", "?topic=queue/a+b": "queue/Q",
		"?topic=overview/x": "overview", "?topics=overview": "topics",
		"?topic=workflow/": "workflow/W", "?topic=job/" + strings.Repeat("&topic=job/", 3): "job/J",
	} {
		answer, text := web.call("GET", "/v1/live"+query, "")
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%q: %s %s", query, answer.Status, text)
		}
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = "topic=queue/q" + string(rune('a'+i))
	}
	if answer, text := web.call("GET", "/v1/live?"+strings.Join(many, "&"),
		""); answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, "got 17 topics") {
		t.Errorf("17 topics: %s %s", answer.Status, text)
	}
	answer, text := web.call("GET", "/v1/stats", "")
	if answer.StatusCode != http.StatusOK || !strings.Contains(text,
		`"step_ms":1000,"date_ms":[1000,2000],"submitted":[3,0]`) || !strings.Contains(text, `"commit_us":[1000,0]`) {
		t.Errorf("stats: %s %s", answer.Status, text)
	}
	if answer, text = web.call("GET", "/v1/stats?step=1m", ""); answer.StatusCode != http.StatusOK ||
		!strings.Contains(text, `"step_ms":60000`) {
		t.Errorf("stats of a day: %s %s", answer.Status, text)
	}
	if answer, text = web.call("GET", "/v1/stats?step=1h", ""); answer.StatusCode != http.StatusBadRequest ||
		!strings.Contains(text, "1m") {
		t.Errorf("stats of another step: %s %s", answer.Status, text)
	}
}
