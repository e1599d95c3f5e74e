package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// Reading holds the parameters for how fresh a read must be.
type Reading struct {
	Consistency string `query:"consistency" enum:"linearizable,stale" doc:"linearizable, the default, sees every write acknowledged before the call; stale returns the local state of the node at once."`
	MinIndex    uint64 `query:"min_index" doc:"Waits until the node has applied this index, without asking the leader: the Rota-Index of an earlier response."`
}

func (r *Reading) wire() (*rotav1.Read, error) {
	if r.MinIndex != 0 && r.Consistency != "" {
		return nil, rota.Refusef(rota.KindInvalid, "min_index",
			"min_index and consistency exclude each other: set only one of them")
	}
	if r.Consistency == "" && r.MinIndex == 0 {
		return nil, nil
	}
	return &rotav1.Read{Stale: r.Consistency == "stale", MinIndex: r.MinIndex}, nil
}

// Paging holds the parameters that select a part of a list.
type Paging struct {
	Limit  int32  `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of rows."`
	Cursor string `query:"cursor" maxLength:"1024" doc:"The next_cursor of the page before; the list continues after that page."`
}

// List holds the parameters of a list.
type List struct {
	Reading
	Paging
}

// MadeList holds the parameters of a list of objects that act for their creator.
type MadeList struct {
	List
	By string `query:"by" maxLength:"1024" doc:"Only rows that this principal, such as token:ID, created or changed last."`
}

// One holds the parameters of a read of one object.
type One struct {
	ID string `path:"id" maxLength:"512"`
	Reading
}

// Named is a call about one object.
type Named struct {
	ID string `path:"id" maxLength:"512"`
}

// Setting is a call that sets one object.
type Setting[T any] struct {
	Named
	Given In[T]
}

// None means no parameters.
type None struct{}

// Answer is the result of a call.
type Answer[T any] struct {
	Status int
	Index  string `header:"Rota-Index" doc:"Index of the state that was read."`
	Age    string `header:"Rota-Age-Ms" doc:"Milliseconds since the node last applied an entry; negative if it never has."`
	Body   Out[T]
}

// answer returns a body with the state that a read saw; at is nil if nothing was read.
func answer[T any](v T, at *rotav1.ReadAt) *Answer[T] {
	a := &Answer[T]{Status: http.StatusOK, Body: Out[T]{v}}
	if at != nil {
		a.Index, a.Age = strconv.FormatUint(at.GetIndex(), 10), strconv.FormatInt(at.GetAgeMs(), 10)
	}
	return a
}

// Versioned is the answer of a call about an object with an etag.
type Versioned[T any] struct {
	Status int
	Index  string `header:"Rota-Index" doc:"Index of the state that was read."`
	Age    string `header:"Rota-Age-Ms" doc:"Milliseconds since the node last applied an entry; negative if it never has."`
	ETag   string `header:"ETag" doc:"Version of the settings, for If-Match: the etag of the body, in quotes."`
	Body   Out[T]
}

// versioned returns an answer with an etag.
func versioned[T any](v T, etag string, at *rotav1.ReadAt) *Versioned[T] {
	a := answer(v, at)
	out := &Versioned[T]{Status: a.Status, Index: a.Index, Age: a.Age, Body: a.Body}
	if etag != "" {
		out.ETag = `"` + etag + `"`
	}
	return out
}

// Matching is a call that may be restricted to one version.
type Matching struct {
	IfMatch string `header:"If-Match" doc:"The ETag of an earlier response, in quotes: only that version is changed, another is refused with 412. * matches any existing version."`
}

// version reads the header: one entity tag, or *.
func (m *Matching) version() (string, error) {
	text := strings.TrimSpace(m.IfMatch)
	const whatever = "*"
	if text == "" || text == whatever {
		return text, nil
	}
	tag := strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
	if tag == "" || tag == whatever || strings.ContainsAny(tag, `",/ `) {
		return "", rota.Refusef(rota.KindInvalid, "if-match",
			"header If-Match: got %q; send one strong ETag of an earlier response, in quotes, or *", head(m.IfMatch))
	}
	return tag, nil
}

// route describes how a call is registered: its method and pattern, its gRPC method, its summary, and the statuses that
// it returns besides 200.
type route struct {
	method, path, call string
	id, says           string
	statuses           []int
	// optional marks a body that may be omitted, waits a call that waits for future events.
	optional, waits bool
	// bytes marks a call that returns raw bytes of rawType.
	bytes bool
	// lasts is the time a call gets in addition to the usual limit. takes is the type of its body if that is not In.
	lasts time.Duration
	takes func(huma.Registry) map[string]*huma.MediaType
}

// refusals describes the errors that any call may return. Some client generators drop responses declared as default
// only.
func refusals(r huma.Registry) map[string]*huma.Response {
	refused := &huma.Response{Description: "The error, if the call is refused.", Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: (*problem)(nil).Schema(r)}}}
	return map[string]*huma.Response{"4XX": refused, "5XX": refused, "default": refused}
}

// add registers a call.
func add[I, O any](s *Site, rt route, do func(context.Context, *I) (*O, error)) {
	op := huma.Operation{Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.says, SkipValidateBody: true,
		Tags: []string{tag(rt.path)}, Responses: refusals(s.api.OpenAPI().Components.Schemas)}
	if rt.waits {
		rt.lasts = maxWait
	}
	if rt.lasts > 0 {
		op.Metadata = map[string]any{lasts: rt.lasts}
	}
	if rt.waits {
		op.Metadata[waiting] = true
	}
	name := rt.method + " " + rt.path
	s.calls[name] = rt.call
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if visit, ok := ctx.Value(visitKey{}).(Visit); ok {
			err = visit.Settle(err)
		}
		if err != nil {
			return nil, problemOf(err)
		}
		return out, nil
	})
	item := s.api.OpenAPI().Paths[rt.path]
	made := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodDelete: item.Delete}[rt.method]
	if rt.bytes {
		made.Responses["200"].Content = map[string]*huma.MediaType{rawType: {Schema: binary(nil)}}
	}
	if schema := describeBody[I](s.api.OpenAPI().Components.Schemas); schema != nil { // set here, so that the library leaves the body to the call
		made.RequestBody = &huma.RequestBody{Required: !rt.optional,
			Content: map[string]*huma.MediaType{mediaType: {Schema: schema}}}
	}
	if rt.takes != nil {
		made.RequestBody = &huma.RequestBody{Required: true, Content: rt.takes(s.api.OpenAPI().Components.Schemas)}
	}
	for _, code := range rt.statuses {
		made.Responses[strconv.Itoa(code)] = &huma.Response{Description: http.StatusText(code),
			Content: made.Responses["200"].Content}
	}
}

// inPieces registers a call whose answer is sent in pieces of a media type.
func inPieces[I any](s *Site, rt route, kind string, schema func(huma.Registry) *huma.Schema,
	do func(context.Context, *I) (*Pieces, error)) {
	s.plain[rt.method+" "+rt.path] = true
	add(s, rt, do)
	item := s.api.OpenAPI().Paths[rt.path]
	made := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post}[rt.method]
	made.Responses["200"].Content = map[string]*huma.MediaType{kind: {Schema: schema(s.api.OpenAPI().Components.Schemas)}}
}

// tag returns the first word of a path after /v1/.
func tag(path string) string {
	const base = "/v1/"
	rest := path[len(base):]
	for i, c := range rest {
		if c == '/' || c == ':' {
			return rest[:i]
		}
	}
	return rest
}

// listed returns the answer for a list.
func listed[W, T any](rows []W, convert func(W) (T, error)) ([]T, error) {
	all := make([]T, 0, len(rows))
	for _, row := range rows {
		v, err := convert(row)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
