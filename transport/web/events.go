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
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// eventsPath is the path of events.
	eventsPath = "/v1/events"
	eventsCall = http.MethodGet + " " + eventsPath
	// eventsBeat is the keep-alive interval of a silent event stream: proxies end streams that are silent for a minute.
	eventsBeat = 15 * time.Second

	mediaBlocks = "text/event-stream"
	mediaLines  = "application/x-ndjson"
	// retryMs is the server-sent event that sets a reader's reconnect delay, in milliseconds.
	retryMs = "retry: 1000\n\n"
)

// follower is the receiver of events, in one of the forms.
type follower interface {
	// begin is called once the starting position was found.
	begin() error
	send(*Batch) error
	// end sends the reason that the stream ended; draining reports that the node is shutting down.
	end(err error, draining bool)
}

// events streams events, as server-sent events, lines of JSON or a WebSocket.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the mux lets HEAD in too, whose answer would never end
		unknown(s, w, r)
		return
	}
	form, wrong := formOf(r)
	visit, err := s.options.Door.Stay(r, eventsCall)
	if err != nil {
		refuseStream(w, err, form == asBlocks)
		return
	}
	defer visit.Leave()
	if wrong != nil {
		Refuse(w, wrong, 0)
		return
	}
	filter, err := tailOf(r, form != nil && form.follows)
	if err != nil {
		refuseStream(w, visit.Settle(err), form == asBlocks)
		return
	}
	ctx, cancel := context.WithCancelCause(visit.Context())
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	var to follower
	if form != nil {
		to = &written{form, newStream(w), func(out *stream) {
			beside.Go(func() {
				out.beat(ctx, eventsBeat, form.sign)
			})
		}}
	} else if to, err = s.accept(w, r, &beside, ctx, cancel); err != nil {
		return // it has answered
	}
	defer func() {
		if reason := recover(); reason != nil {
			to.end(visit.Panicked(reason), false)
		}
	}()
	err = s.follow(ctx, cancel, filter, to)
	to.end(visit.Settle(err), visit.Draining())
}

// follow sends the events that a filter selects, in every form.
func (s *Site) follow(ctx context.Context, cancel context.CancelCauseFunc, filter rota.EventFilter, to follower) error {
	late := &rota.Error{Kind: rota.KindUnavailable, Subject: "events", RetryAfter: time.Second,
		Text: "the node did not find where to begin in " + beginTime.String() + ": ask another node"}
	limit := time.AfterFunc(beginTime, func() { cancel(late) })
	defer limit.Stop()
	begun := false
	err := s.options.Calls.Events(ctx, filter, func(b *Batch) error {
		if !begun {
			begun = true
			limit.Stop()
			if err := to.begin(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return to.send(b)
	})
	if err == nil && !begun { // there was nothing to send
		err = to.begin()
	}
	if err != nil && context.Cause(ctx) == late {
		return late
	}
	return err
}

// form is a format for events.
type form struct {
	mediaType string
	// first is sent before everything else, sign is the keep-alive.
	first string
	sign  []byte
	// follows is whether a reader follows by default.
	follows bool
	pieces  func(*Batch) ([][]byte, error)
	// last returns the final piece: the problem, under a name.
	last func(name string, problem []byte) []byte
}

var (
	asBlocks = &form{mediaType: mediaBlocks, first: retryMs, sign: []byte(":\n\n"), follows: true,
		pieces: (*Batch).Blocks,
		last:   func(name string, problem []byte) []byte { return appendBlock(nil, "", name, problem) }}
	asLines = &form{mediaType: mediaLines, sign: []byte("\n"), pieces: (*Batch).Lines,
		last: func(name string, problem []byte) []byte { return []byte(`{"` + name + `":` + string(problem) + "}\n") }}
)

// written is a receiver of events in a form.
type written struct {
	*form
	out *stream
	// live starts keep-alives on the stream.
	live func(*stream)
}

func (f *written) begin() error {
	if err := f.out.begin(f.mediaType, f.first); err != nil {
		return err
	}
	f.live(f.out)
	return nil
}

func (f *written) send(batch *Batch) error {
	pieces, err := f.pieces(batch)
	for _, piece := range pieces {
		if err := f.out.write(piece); err != nil {
			return err
		}
	}
	return err
}

func (f *written) end(err error, draining bool) {
	switch {
	case err == nil:
		f.out.end(nil)
	case !f.out.begun:
		refuseStream(f.out.w, err, f.form == asBlocks)
	case draining:
		f.out.end(f.last(rest.StreamGoing, problemText(err)))
	default:
		f.out.end(f.last(rest.StreamEnded, problemText(err)))
	}
}

// formOf returns the form in which a request wants events: nil means a WebSocket; lines is the default.
func formOf(r *http.Request) (*form, error) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil, nil
	}
	if r.ContentLength != 0 {
		return nil, rota.Refusef(rota.KindInvalid, "body", "the call has no body: send none")
	}
	wanted := strings.Join(r.Header.Values("Accept"), ",")
	if wanted == "" {
		return asLines, nil
	}
	for one := range strings.SplitSeq(wanted, ",") {
		kind, _, _ := strings.Cut(one, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case mediaBlocks:
			return asBlocks, nil
		case mediaLines, "application/ndjson", "application/jsonl", "application/*", "*/*":
			return asLines, nil
		}
	}
	return nil, coded{rota.Refusef(rota.KindInvalid, "accept", "header Accept: got %q; use %s, %s or a WebSocket",
		head(wanted), mediaBlocks, mediaLines),
		http.StatusNotAcceptable}
}

// tailOf reads a filter from a request. Unknown names are rejected, as a misspelled one would select too much.
// Last-Event-ID, which readers send automatically, takes precedence over from.
func tailOf(r *http.Request, follow bool) (rota.EventFilter, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, "query", "invalid query parameters: %s",
			head(err.Error()))
	}
	req := &rotav1.TailRequest{Kinds: query["kind"], Follow: follow}
	fields := map[string]*string{"from": &req.From, "job": &req.Job, "queue": &req.Queue, "type": &req.Type,
		"tenant": &req.Tenant, "worker": &req.Worker, "workflow": &req.Workflow, "actor": &req.Actor}
	if err := checkHeaders(r.Header); err != nil {
		return rota.EventFilter{}, err
	}
	for name, values := range query {
		switch field := fields[name]; {
		case slices.Contains(values, ""):
			return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, head(name),
				"%s is empty: omit it, or give a value", head(name))
		case name == "kind":
		case len(values) > 1:
			return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, head(name), "%q: got %d values, want one",
				head(name), len(values))
		case field != nil:
			*field = values[0]
		case name == "follow":
			if req.Follow, err = yes(name, values[0]); err != nil {
				return rota.EventFilter{}, err
			}
		default:
			return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, head(name),
				"unknown parameter %q: use from, follow, kind, job, queue, type, tenant, worker, "+
					"workflow or actor", head(name))
		}
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.From = last
	}
	return words.TailFromWire(req)
}

// yes reads a parameter that is 1 or 0.
func yes(name, value string) (bool, error) {
	switch value {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, rota.Refusef(rota.KindInvalid, name, "%s must be 1 or 0, got %q", name, head(value))
}
