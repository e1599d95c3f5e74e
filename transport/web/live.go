package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

const (
	livePath = "/v1/live"
	liveCall = http.MethodGet + " " + livePath
	// liveEvery is the shortest time between two messages of a topic, and between two keep-alives.
	liveEvery = time.Second
	// liveShare bounds the cost of making a state: the next one is made at least liveShare times the duration of the
	// last one later, so a topic uses at most a hundredth of a core.
	liveShare = 100
	// liveRead bounds the time to make one state.
	liveRead = 5 * time.Second
	// liveAgain is the delay before a failed state is made again.
	liveAgain = 10 * time.Millisecond
	// maxTopics bounds the topics of a viewer, maxFeeds the feeds that a node makes. feedsOfOne bounds those of viewers
	// with the same rights, so that one tenant's viewers do not block others.
	maxTopics  = 16
	maxFeeds   = 1_000
	feedsOfOne = maxFeeds / 4
)

// topic is what a viewer watches: a kind of object, and which one.
type topic struct{ kind, id string }

func (t topic) String() string {
	if t.id == "" {
		return t.kind
	}
	return t.kind + "/" + t.id
}

// topicsOf reads the topics of a request.
func topicsOf(r *http.Request) ([]topic, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "query", "invalid query parameters: %s", head(err.Error()))
	}
	for name := range query {
		if name != "topic" {
			return nil, rota.Refusef(rota.KindInvalid, head(name),
				"unknown parameter %q: use topic, which may be repeated", head(name))
		}
	}
	var topics []topic
	for _, text := range query["topic"] {
		kind, id, named := strings.Cut(text, "/")
		switch t := (topic{kind, id}); {
		case (kind == "overview" || kind == "workers") && !named, (kind == "queue" || kind == "workflow") &&
			rota.ValidID(id), kind == "job" && rota.CheckJobRef("topic", rota.JobID(id)) == nil:
			if !slices.Contains(topics, t) {
				topics = append(topics, t)
			}
		default:
			return nil, rota.Refusef(rota.KindInvalid, "topic",
				"topic: got %q; use overview, queue/Q, workers, workflow/W or job/J", head(text))
		}
	}
	if n := len(topics); n < 1 || n > maxTopics {
		return nil, rota.Refusef(rota.KindInvalid, "topic", "topic: got %d topics, want 1 to %d", n, maxTopics)
	}
	return topics, nil
}

// Live makes the states that viewers watch, each under the rights of the caller in the context.
type Live interface {
	// State returns the state of a topic, and its index. Parts are sent on their own when they change: the nodes of a
	// workflow, by name.
	State(ctx context.Context, kind, id string) (state any, parts map[string]any, at rota.Index, err error)
}

// shown is a state as it is sent: in full, and as the changes since the previous one.
type shown struct {
	version uint64
	full    []byte
	// delta is nil if only the full state can be sent.
	delta []byte
}

// feed is a topic for viewers with the same rights.
type feed struct {
	topic   topic
	class   string
	viewers map[*viewer]struct{}
	// next is when the feed is made again.
	next  time.Time
	now   shown
	state []byte
	parts map[string][]byte
}

// viewer is one stream.
type viewer struct {
	visit  Visit
	topics []topic
	class  string
	feeds  []*feed
	seen   []uint64
	wake   chan struct{}
}

// feedKey finds a feed.
type feedKey struct {
	class string
	topic topic
}

// stage makes the states of topics: each topic once for all viewers with the same rights, and only while there are
// viewers.
type stage struct {
	live Live
	// table identifies the current rights.
	table func() any

	mu    sync.Mutex
	feeds map[feedKey]*feed
	// of counts feeds by the rights of their viewers.
	of map[string]int
	// kick wakes the loop for a new feed; nil while there is no loop.
	kick chan struct{}
}

// join adds a viewer to its topics under its current rights.
func (g *stage) join(v *viewer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(v)
	v.class = v.visit.Class()
	v.feeds, v.seen = nil, make([]uint64, len(v.topics))
	for _, t := range v.topics {
		key := feedKey{v.class, t}
		f := g.feeds[key]
		if f == nil {
			if err := g.room(v.class); err != nil {
				g.leave(v)
				return err
			}
			f = &feed{topic: t, class: v.class, viewers: make(map[*viewer]struct{})}
			if g.feeds == nil {
				g.feeds, g.of = make(map[feedKey]*feed), make(map[string]int)
			}
			g.feeds[key] = f
			g.of[v.class]++
		}
		f.viewers[v] = struct{}{}
		v.feeds = append(v.feeds, f)
	}
	if g.kick == nil {
		g.kick = make(chan struct{}, 1)
		go g.run(g.kick)
	}
	notify(g.kick)
	notify(v.wake) // existing states are shown at once
	return nil
}

// room returns an error if there are too many feeds for one more with these rights; mu is held.
func (g *stage) room(class string) error {
	most, who := maxFeeds, "viewers of this node"
	if g.of[class] >= feedsOfOne {
		most, who = feedsOfOne, "viewers of this node with the same rights"
	} else if len(g.feeds) < maxFeeds {
		return nil
	}
	e := rota.Refusef(rota.KindExhausted, "topic", "%s watch %d topics, which is the maximum: ask another node", who,
		most)
	e.RetryAfter = liveEvery
	return e
}

func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// leave removes a viewer; mu is held. A feed without viewers is forgotten.
func (g *stage) leave(v *viewer) {
	for _, f := range v.feeds {
		if delete(f.viewers, v); len(f.viewers) == 0 {
			delete(g.feeds, feedKey{f.class, f.topic})
			if g.of[f.class]--; g.of[f.class] == 0 {
				delete(g.of, f.class)
			}
		}
	}
	if v.feeds = nil; len(g.feeds) == 0 && g.kick != nil {
		notify(g.kick)
	}
}

// run makes states until there are no viewers.
func (g *stage) run(kick chan struct{}) {
	for {
		due, wait := g.due(kick)
		if due == nil && wait == 0 {
			return
		}
		for _, f := range due {
			g.make(f)
		}
		if due != nil {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-kick:
		}
		timer.Stop()
	}
}

// due returns the feeds that must be made now, or how long to wait for the next. It returns neither if there are no
// viewers, and the loop ends.
func (g *stage) due(kick chan struct{}) (due []*feed, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.feeds) == 0 {
		if g.kick == kick {
			g.kick = nil
		}
		return nil, 0
	}
	now := time.Now()
	wait = liveEvery
	for _, f := range g.feeds {
		if left := f.next.Sub(now); left <= 0 {
			due = append(due, f)
		} else {
			wait = min(wait, left)
		}
	}
	return due, wait
}

// make makes a feed's state, on behalf of one of its viewers. If rights change meanwhile, the state is discarded and
// made again.
func (g *stage) make(f *feed) {
	began := time.Now()
	g.mu.Lock()
	var for1 *viewer
	for v := range f.viewers {
		for1 = v
		break
	}
	f.next = began.Add(liveEvery)
	g.mu.Unlock()
	if for1 == nil {
		return
	}
	table := g.table()
	if for1.visit.Class() != f.class {
		notify(for1.wake) // it joins another feed
		return
	}
	ctx, cancel := context.WithTimeout(for1.visit.Context(), liveRead)
	defer cancel()
	state, parts, at, err := g.live.State(ctx, f.topic.kind, f.topic.id)
	if for1.visit.Context().Err() != nil || g.table() != table {
		g.mu.Lock()
		f.next = time.Now().Add(liveAgain) // the handler of a viewer that left removes it meanwhile
		g.mu.Unlock()
		return
	}
	next := f.render(state, parts, at, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	f.next = time.Now().Add(max(liveEvery-time.Since(began), liveShare*time.Since(began)))
	if next == nil {
		return
	}
	next.version = f.now.version + 1
	f.now = *next
	for v := range f.viewers {
		notify(v.wake)
	}
}

// serveLive streams states.
func (s *Site) serveLive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		unknown(s, w, r)
		return
	}
	visit, err := s.options.Door.Stay(r, liveCall)
	if err != nil {
		refuseStream(w, err, true)
		return
	}
	defer visit.Leave()
	topics, err := topicsOf(r)
	if err == nil && r.ContentLength != 0 {
		err = rota.Refusef(rota.KindInvalid, "body", "the call has no body: send none")
	}
	v := &viewer{visit: visit, topics: topics, wake: make(chan struct{}, 1)}
	if err == nil {
		err = s.stage.join(v)
	}
	if err != nil {
		refuseStream(w, visit.Settle(err), true)
		return
	}
	defer func() {
		s.stage.mu.Lock()
		defer s.stage.mu.Unlock()
		s.stage.leave(v)
	}()
	out := newStream(w)
	to := &written{asBlocks, out, nil}
	if err = out.begin(mediaBlocks, retryMs); err == nil {
		err = s.stage.show(v, out)
	}
	to.end(visit.Settle(err), visit.Draining())
}

// show writes the changes that a viewer has not seen, or a keep-alive if there are none.
func (g *stage) show(v *viewer, out *stream) error {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	ctx := v.visit.Context()
	for {
		var blocks [][]byte
		select {
		case <-v.wake:
		case <-tick.C:
			if time.Since(out.wrote) >= liveEvery/2 {
				blocks = append(blocks, []byte(":\n\n"))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if v.visit.Class() != v.class {
			if err := g.join(v); err != nil {
				return err
			}
			continue
		}
		for _, block := range append(blocks, g.unseen(v)...) {
			if err := out.write(block); err != nil {
				return err
			}
		}
	}
}

// unseen returns the changes that a viewer has not seen, and marks them as seen.
func (g *stage) unseen(v *viewer) (blocks [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, f := range v.feeds {
		switch now := &f.now; {
		case v.seen[i] == now.version:
			continue
		case v.seen[i] != 0 && v.seen[i]+1 == now.version && now.delta != nil:
			blocks = append(blocks, now.delta)
		default:
			blocks = append(blocks, now.full)
		}
		v.seen[i] = f.now.version
	}
	return blocks
}
