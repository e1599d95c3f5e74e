package web

import (
	"cmp"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// callTime is the time limit of a call.
	callTime = 30 * time.Second
	// maxWait is how long a call may additionally wait for future events.
	maxWait = 60 * time.Second
	// maxBody bounds a body as received and decompressed: the size of a gRPC message.
	maxBody = limits.MaxMessageBytes
)

// visitKey is the context key for the call's Visit.
type visitKey struct{}

// enter runs first for every call.
func (s *Site) enter(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	most := callTime
	if more, ok := op.Metadata[lasts].(time.Duration); ok &&
		(op.Metadata[waiting] == nil || r.URL.Query().Has("wait")) {
		most += more
	}
	visit, err := s.options.Door.Enter(w, r, op.Method+" "+op.Path, most)
	if err != nil {
		Refuse(w, err, 0)
		return
	}
	defer visit.Leave()
	defer func() {
		reason := recover()
		if reason == http.ErrAbortHandler { // part of the answer is sent already: it ends in the middle
			panic(reason)
		}
		if reason != nil {
			Refuse(w, visit.Panicked(reason), 0)
		}
	}()
	if err := cmp.Or(checkHeaders(r.Header), checkParameters(op, r.URL.RawQuery)); err != nil {
		Refuse(w, err, 0)
		return
	}
	body, err := takeBody(op, r, visit)
	if err != nil {
		Refuse(w, err, 0)
		return
	}
	defer body.free()
	ctx = huma.WithValue(huma.WithContext(ctx, visit.Context()), visitKey{}, visit)
	next(huma.WithValue(ctx, bodyKey{}, body))
}

// lasts marks a call with extra time, waiting a call that gets it only if it has to wait.
const lasts, waiting = "lasts", "waiting"

// checkHeaders rejects a header that is given twice, because one would be overlooked. It also rejects an empty header
// if the call would do more than intended: an If-Match whose version is missing would match any.
func checkHeaders(h http.Header) error {
	for _, name := range []string{"If-Match", "Idempotency-Key", "Rota-Worker-Secret", "Content-Type",
		"Content-Encoding", "Last-Event-Id"} {
		switch values := h[name]; {
		case len(values) > 1:
			return rota.Refusef(rota.KindInvalid, strings.ToLower(name), "header %s: got %d values, want one", name,
				len(values))
		case len(values) == 1 && values[0] == "" && (name == "If-Match" || name == "Idempotency-Key"):
			return rota.Refusef(rota.KindInvalid, strings.ToLower(name),
				"the header %s is empty: omit it, or give a value", name)
		}
	}
	return nil
}

// checkParameters rejects unknown parameters: a misspelled one would select too much.
func checkParameters(op *huma.Operation, raw string) error {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return rota.Refusef(rota.KindInvalid, "query", "invalid query parameters: %s", head(err.Error()))
	}
	var taken []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			taken = append(taken, p.Name)
		}
	}
	for name, values := range query {
		switch {
		case !slices.Contains(taken, name) && len(taken) == 0:
			return rota.Refusef(rota.KindInvalid, head(name), "unknown parameter %q: the call has no parameters",
				head(name))
		case !slices.Contains(taken, name):
			return rota.Refusef(rota.KindInvalid, head(name), "unknown parameter %q: use one of %s", head(name),
				strings.Join(taken, ", "))
		case len(values) == 1 && values[0] == "":
			return rota.Refusef(rota.KindInvalid, name, "%s is empty: omit it, or give a value", name)
		case len(values) > 1:
			return rota.Refusef(rota.KindInvalid, name, "%s: got %d values, want one", name, len(values))
		}
	}
	return nil
}

// takeBody returns the body of a call, nil if there is none, or rejects it by its header.
func takeBody(op *huma.Operation, r *http.Request, visit Visit) (*body, error) {
	if r.ContentLength == 0 {
		if op.RequestBody != nil && op.RequestBody.Required {
			return nil, rota.Refusef(rota.KindInvalid, "body", "the body is missing: send one of type %s",
				bodyTypes(op))
		}
		return nil, nil
	}
	if op.RequestBody == nil {
		return nil, rota.Refusef(rota.KindInvalid, "body", "the call has no body: send none")
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || op.RequestBody.Content[kind] == nil {
		return nil, coded{rota.Refusef(rota.KindInvalid, "content-type", "header Content-Type: got %q; use %s",
			head(r.Header.Get("Content-Type")), bodyTypes(op)), http.StatusUnsupportedMediaType}
	}
	most := maxBody
	if kind == linesType {
		most = maxLines
	}
	if r.ContentLength > int64(most) {
		return nil, tooLarge(most)
	}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity", "gzip":
		return newBody(r.Body, visit, most, encoding == "gzip")
	default:
		return nil, coded{rota.Refusef(rota.KindInvalid, "content-encoding",
			"header Content-Encoding: got %q; use gzip or none", head(encoding)),
			http.StatusUnsupportedMediaType}
	}
}

// bodyTypes names the media types that a call accepts.
func bodyTypes(op *huma.Operation) string {
	return strings.Join(slices.Sorted(maps.Keys(op.RequestBody.Content)), " or ")
}

func tooLarge(most int) error {
	return coded{rota.Refusef(rota.KindInvalid, "body", "the body has more than %d bytes: send smaller batches", most),
		http.StatusRequestEntityTooLarge}
}
