package web

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// streamed is an answer that goes on: how it is registered and described.
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

// streams registers what goes on.
func (s *Site) streams() {
	s.stream(streamed{path: eventsPath, call: rotav1.Events_Tail_FullMethodName, id: "events",
		says:  "Events in the order in which they happened, as server-sent events, lines of JSON or a WebSocket",
		types: []string{mediaBlocks, mediaLines}, serve: s.events, query: []streamQuery{
			{"from", "Begins after the event of this id; oldest, the default, or latest. The header Last-Event-ID goes before it.", false},
			{"follow", "1 goes on with what happens: the default of server-sent events, 0 that of the others.", false},
			{"kind", "Only events of this kind.", true},
			{"job", "Only those about this job. It looks at all that is retained: a job's attempts are cheaper.", false},
			{"queue", "Only those of this queue.", false},
			{"type", "Only those of jobs of this type.", false},
			{"tenant", "Only those of this tenant.", false},
			{"worker", "Only those that name this worker.", false},
			{"workflow", "Only those of this workflow and its nodes' jobs.", false},
			{"actor", "Only what this principal asked for, such as token:ID, itself or by a browser session of its own.", false},
		}})
	s.stream(streamed{path: livePath, id: "live", says: "What stands now, as server-sent events, at most one a second for each topic", types: []string{mediaBlocks},
		serve: s.serveLive, query: []streamQuery{{"topic", "overview, queue/Q, workers, workflow/W or job/J; up to 16.", true}}})
}

// isStream reports whether an answer goes on.
func isStream(r *http.Request) bool { return r.URL.Path == eventsPath || r.URL.Path == livePath }

// stream registers one.
func (s *Site) stream(st streamed) {
	name := http.MethodGet + " " + st.path
	s.calls[name] = st.call
	s.mux.HandleFunc(name, st.serve)
	op := &huma.Operation{Method: http.MethodGet, Path: st.path, OperationID: st.id, Summary: st.says, Tags: []string{tag(st.path)},
		Responses: refusals(s.api.OpenAPI().Components.Schemas)}
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: make(map[string]*huma.MediaType)}
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
