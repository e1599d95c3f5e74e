package web

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// streamed describes how a long-lived answer is registered and documented.
type streamed struct {
	path, call string
	id, says   string
	query      []streamQuery
	types      []string
	serve      http.HandlerFunc
}

// streamQuery is a parameter of a stream.
type streamQuery struct {
	name, says string
	repeated   bool
}

// streams registers the long-lived answers.
func (s *Site) streams() {
	s.stream(streamed{path: eventsPath, call: rotav1.Events_Tail_FullMethodName, id: "events",
		says:  "Stream events in order, as server-sent events, lines of JSON or a WebSocket",
		types: []string{mediaBlocks, mediaLines}, serve: s.events, query: []streamQuery{
			{"from", "Starts after the event with this id; or oldest, the default, or latest. The header Last-Event-ID takes precedence.",
				false},
			{"follow", "1 continues with new events. The default is 1 for server-sent events and 0 for the other formats.",
				false}, {"kind", "Only events of this kind.", true},
			{"job", "Only events about this job. The call scans all retained events: reading the job's attempts is cheaper.",
				false}, {"queue", "Only events of this queue.", false},
			{"type", "Only events about jobs of this type.", false},
			{"tenant", "Only events of this tenant.", false},
			{"worker", "Only events that name this worker.", false},
			{"workflow", "Only events of this workflow and the jobs of its nodes.", false},
			{"actor", "Only events of operations requested by this principal, such as token:ID, or by a browser session of it.", false},
		}})
	s.stream(streamed{path: livePath, id: "live",
		says:  "Stream the current state of topics as server-sent events, at most one per second for each topic",
		types: []string{mediaBlocks},
		serve: s.serveLive, query: []streamQuery{{"topic", "overview, queue/Q, workers, workflow/W or job/J; up to 16.",
			true}}})
}

// isStream reports whether a request has a long-lived answer.
func isStream(r *http.Request) bool { return r.URL.Path == eventsPath || r.URL.Path == livePath }

// stream registers one such answer.
func (s *Site) stream(st streamed) {
	name := http.MethodGet + " " + st.path
	s.calls[name] = st.call
	s.mux.HandleFunc(name, st.serve)
	op := &huma.Operation{Method: http.MethodGet, Path: st.path, OperationID: st.id, Summary: st.says,
		Tags:      []string{tag(st.path)},
		Responses: refusals(s.api.OpenAPI().Components.Schemas)}
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK),
		Content: make(map[string]*huma.MediaType)}
	text := &huma.Schema{Type: huma.TypeString}
	for _, kind := range st.types {
		op.Responses["200"].Content[kind] = &huma.MediaType{Schema: text}
	}
	for _, q := range st.query {
		p := &huma.Param{Name: q.name, In: "query", Description: q.says, Schema: text}
		if q.repeated {
			p.Schema = &huma.Schema{Type: huma.TypeArray, Items: text}
		}
		op.Parameters = append(op.Parameters, p)
	}
	s.api.OpenAPI().AddOperation(op)
}
