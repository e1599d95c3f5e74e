package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/api/words"
)

// problem is a Problem in the form of the library's errors.
type problem struct{ rest.Problem }

var _ huma.StatusError = (*problem)(nil)

// Error implements error.
func (p *problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := make(http.Header)
	p.headers(h)
	return h
}

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return rest.ProblemType }

// Schema implements huma.SchemaProvider.
func (p *problem) Schema(r huma.Registry) *huma.Schema { return schemaOf[rest.Problem](r) }

func (p *problem) inner() any { return p.Problem }

func (p *problem) headers(h http.Header) {
	if p.RetryAfterMs > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMs+999)/1000, 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// coded is an error with a status of its own.
type coded struct {
	error
	status int
}

// Unwrap returns the error.
func (c coded) Unwrap() error { return c.error }

func problemOf(err error) *problem {
	p := &problem{words.Problem(err)}
	if c, ok := errors.AsType[coded](err); ok {
		p.Status = c.status
	}
	if p.Kind == rota.KindConflict.String() && p.Field == "version" { // If-Match does not hold
		p.Status = http.StatusPreconditionFailed
	}
	return p
}

// Refuse answers a request with a problem; status 0 means the status of the error's kind.
func Refuse(w http.ResponseWriter, err error, status int) {
	p := problemOf(err)
	if status != 0 {
		p.Status = status
	}
	h := w.Header()
	h.Set("Content-Type", rest.ProblemType)
	h.Set("X-Content-Type-Options", "nosniff")
	p.headers(h)
	w.WriteHeader(p.Status)
	text, _ := json.Marshal(p.Problem) // it has texts and numbers only
	_, _ = w.Write(append(text, '\n'))
}

// libraryError builds the error for requests that the library itself rejects, such as a parameter of the wrong type,
// and for the errors of a Resolve.
func libraryError(status int, msg string, errs ...error) huma.StatusError {
	field := "body"
	for _, err := range errs {
		if e, ok := errors.AsType[*rota.Error](err); ok && e != nil {
			return problemOf(err)
		}
		if d, ok := errors.AsType[*huma.ErrorDetail](err); ok {
			place, name, _ := strings.Cut(d.Location, ".")
			if field = name; name == "" {
				field = place
			}
			if value, ok := d.Value.(string); ok && value != "" {
				msg = field + " is " + strconv.Quote(head(value)) + ": " + d.Message
			} else {
				msg = field + ": " + d.Message
			}
			break
		}
	}
	if status >= http.StatusInternalServerError {
		return problemOf(rota.Refusef(rota.KindInternal, "", "the node failed to answer: %s", msg))
	}
	p := problemOf(rota.Refusef(rota.KindInvalid, field, "%s", msg))
	if status == http.StatusRequestEntityTooLarge || status == http.StatusUnsupportedMediaType ||
		status == http.StatusRequestTimeout {
		p.Status = status
	}
	return p
}

// head returns the beginning of a text that a client sent.
func head(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
