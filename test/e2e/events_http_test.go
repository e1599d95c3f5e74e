package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// eventSource follows events as a browser's EventSource does (WHATWG HTML 9.2): it keeps the last id, connects again with
// Last-Event-ID after a stream that ended and after an error of the network, each time to another node, and fails
// for good at any other status than 200.
type eventSource struct {
	mu    sync.Mutex
	last  string
	moves int
	data  strings.Builder
	// failed is the reason why it never connects again, "" while it does.
	failed string
}

func (e *eventSource) follow(ctx context.Context, c *nodes, query string) {
	for at := 0; ctx.Err() == nil && e.failure() == ""; at++ {
		e.once(ctx, "http://"+c.all[at%len(c.all)].API+"/v1/events"+query)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// once reads one stream until it breaks.
func (e *eventSource) once(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	e.mu.Lock()
	if r.Header.Set("Accept", "text/event-stream"); e.last != "" {
		r.Header.Set("Last-Event-ID", e.last)
	}
	e.mu.Unlock()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.failed = answer.Status + " " + kind
		return
	}
	e.mu.Lock()
	e.moves++
	e.mu.Unlock()
	lines := bufio.NewReaderSize(answer.Body, 1<<20)
	id, data, name := "", "", ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // an incomplete block does not count
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			e.mu.Lock()
			if id != "" {
				e.last = id
			}
			if data != "" && name == "" {
				e.data.WriteString(data + "\n")
			}
			e.mu.Unlock()
			id, data, name = "", "", ""
		case field == "id":
			id = value
		case field == "data":
			data = value
		case field == "event":
			name = value
		}
	}
}

func (e *eventSource) failure() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

func (e *eventSource) seen() (text, last string, moves int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.data.String(), e.last, e.moves
}

// A browser that follows events continues at another node when its own is killed: every event once, in order, to the
// byte as every node shows them; and one whose filter selects little keeps its place too.
func TestEventSourceAcrossKills(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "load", "--preset", "standard").want(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, few := &eventSource{}, &eventSource{}
	var following sync.WaitGroup
	following.Go(func() { all.follow(ctx, c, "?from=oldest") })
	following.Go(func() { few.follow(ctx, c, "?kind=leadershipBegan") })
	l := startLoad(t, c, "load", 2, 2, 10*time.Millisecond)
	l.flows(t, 50)
	// Three leaders, then a node that was none of them: whichever node a stream began at is killed.
	const leaders = 3
	killed := make(map[*node]bool)
	for kills := 0; kills < leaders || len(killed) < len(c.all); kills++ {
		n := c.leader(t)
		if kills >= leaders {
			n = c.all[slices.IndexFunc(c.all, func(n *node) bool { return !killed[n] })]
		}
		killed[n] = true
		n.Kill()
		l.flows(t, 50)
		n.start(t)
		n.awaitReady(t)
	}
	l.flows(t, 50)
	l.settle(c)
	c.verified(t, 3)
	want := c.all[0].tailed(t, c)
	for _, n := range c.all[1:] {
		if got := n.tailed(t, c); got != want {
			t.Fatalf("%s returns other events than %s: %s", n.ID, c.all[0].ID, firstDifference(got, want))
		}
	}
	end := want[strings.LastIndex(strings.TrimSuffix(want, "\n"), "\n")+1:]
	_, end, _ = strings.Cut(end, `"event_id":"`)
	end, _, _ = strings.Cut(end, `"`)
	began := ""
	for line := range strings.Lines(want) {
		if strings.Contains(line, `"kind":"leadershipBegan"`) {
			began += line
		}
	}
	for _, f := range []struct {
		who  *eventSource
		want string
	}{{all, want}, {few, began}} {
		eventually(t, 30*time.Second, "the browser has seen all", func() error {
			if failed := f.who.failure(); failed != "" {
				t.Fatalf("the browser never connects again: %s", failed)
			}
			got, last, _ := f.who.seen()
			if !strings.HasPrefix(got, f.want) && !strings.HasPrefix(f.want, got) {
				t.Fatalf("other events were seen: %s", firstDifference(got, f.want))
			}
			if len(got) < len(f.want) || last == "" {
				return fmt.Errorf("%d of %d bytes, up to %s of %s", len(got), len(f.want), last, end)
			}
			return nil
		})
		if _, _, moves := f.who.seen(); moves < 2 {
			t.Errorf("it never moved to another node: %d streams", moves)
		}
	}
	cancel()
	following.Wait()
	// A future id is refused, and so is an invalid one, on every node.
	for _, n := range c.all {
		for id, code := range map[string]int{"1.999999999.0": http.StatusGone, "new": http.StatusBadRequest} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.API+"/v1/events", nil)
			check(t, err)
			r.Header.Set("Accept", "text/event-stream")
			r.Header.Set("Last-Event-ID", id)
			answer, err := http.DefaultClient.Do(r)
			check(t, err)
			answer.Body.Close()
			if answer.StatusCode != code {
				t.Errorf("%s after %s: %s", n.ID, id, answer.Status)
			}
		}
	}
}
