package web

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestFeed_sendsWhatChanged checks that the changed nodes of a workflow are sent, and all nodes to viewers that missed
// a message. An unchanged state is not sent.
func TestFeed_sendsWhatChanged(t *testing.T) {
	t.Parallel()
	f := &feed{topic: topic{"workflow", "w"}}
	send := func(state string, nodes map[string]any) *shown {
		next := f.render(map[string]string{"state": state}, nodes, 7, nil)
		if next != nil {
			next.version = f.now.version + 1
			f.now = *next
		}
		return next
	}
	first := send("RUNNING", map[string]any{"a": 1, "b": 1})
	if first == nil || first.delta != nil || !strings.Contains(string(first.full), `"full":true`) ||
		!strings.Contains(string(first.full), `"nodes":{"a":1,"b":1}`) {
		t.Fatalf("%+v", first)
	}
	if again := send("RUNNING", map[string]any{"b": 1, "a": 1}); again != nil {
		t.Fatalf("nothing changed: %s", again.full)
	}
	next := send("RUNNING", map[string]any{"a": 2, "b": 1})
	if next == nil || !strings.Contains(string(next.delta), `"nodes":{"a":2}`) ||
		strings.Contains(string(next.delta), `"b"`) || !strings.Contains(string(next.full), `"b":1`) {
		t.Fatalf("%+v", next)
	}
	if next = send("RUNNING", map[string]any{"a": 2}); !strings.Contains(string(next.delta), `"gone":["b"]`) {
		t.Fatalf("%s", next.delta)
	}
	g := &stage{}
	v := &viewer{feeds: []*feed{f}, seen: []uint64{1}}
	if got := g.unseen(v); len(got) != 1 || string(got[0]) != string(f.now.full) {
		t.Errorf("one who missed a message gets %q", got)
	}
	if got := g.unseen(v); got != nil {
		t.Errorf("one who has seen all gets %q", got)
	}
	v.seen[0] = f.now.version - 1
	if got := g.unseen(v); len(got) != 1 || string(got[0]) != string(f.now.delta) {
		t.Errorf("one who keeps up gets %q", got)
	}
	gone := f.render(nil, nil, 0, rota.Refusef(rota.KindNotFound, "workflow", "workflow w is not known"))
	if gone == nil || gone.delta != nil || !strings.Contains(string(gone.full), `"problem":{`) ||
		strings.Contains(string(gone.full), `"state"`) {
		t.Errorf("%+v", gone)
	}
}

// nothingToSee is a Live whose topics are all unknown; viewing is a Visit of a caller with some rights.
type nothingToSee struct{}

func (nothingToSee) State(context.Context, string, string) (any, map[string]any, rota.Index, error) {
	return nil, nil, 0, rota.Refusef(rota.KindNotFound, "job", "it is not known")
}

type viewing struct {
	Visit
	ctx   context.Context
	class string
}

func (v viewing) Context() context.Context { return v.ctx }
func (v viewing) Class() string            { return v.class }

// TestStage_sharesTopics checks that viewers with the same rights, and one token makes any number of them, do not use
// up all the topics of a node.
func TestStage_sharesTopics(t *testing.T) {
	t.Parallel()
	g := &stage{live: nothingToSee{}, table: func() any { return nil }}
	look := func(class string, n int) (*viewer, error) {
		v := &viewer{visit: viewing{ctx: t.Context(), class: class}, wake: make(chan struct{}, 1)}
		for i := range maxTopics {
			v.topics = append(v.topics, topic{"job", strconv.Itoa(n) + "." + strconv.Itoa(i)})
		}
		return v, g.join(v)
	}
	var all []*viewer
	for n := range maxFeeds {
		v, err := look("greedy", n)
		if err != nil {
			if rota.KindOf(err) != rota.KindExhausted {
				t.Fatal(err)
			}
			break
		}
		all = append(all, v)
	}
	other, err := look("another", 0)
	if err != nil || len(all) != feedsOfOne/maxTopics {
		t.Fatalf("%d viewers with the same rights look, another has %v", len(all), err)
	}
	g.mu.Lock()
	for _, v := range append(all, other) {
		g.leave(v)
	}
	left := len(g.of) + len(g.feeds)
	g.mu.Unlock()
	if left != 0 {
		t.Errorf("%d are left", left)
	}
}
