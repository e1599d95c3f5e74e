package words

import (
	"net/http"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

// kindStatus is the only table of kinds and HTTP statuses, as kindCodes is for gRPC.
var kindStatus = [...]struct {
	status int
	title  string
}{
	rota.KindNone:            {http.StatusInternalServerError, "a fault of rota"},
	rota.KindInvalid:         {http.StatusBadRequest, "the call is wrong in itself"},
	rota.KindNotFound:        {http.StatusNotFound, "not found"},
	rota.KindConflict:        {http.StatusConflict, "it conflicts with existing state"},
	rota.KindStale:           {http.StatusConflict, "it no longer belongs to the caller"},
	rota.KindMode:            {http.StatusConflict, "the cluster's mode does not admit it"},
	rota.KindExhausted:       {http.StatusTooManyRequests, "a limit is reached"},
	rota.KindUnavailable:     {http.StatusServiceUnavailable, "unavailable, or the outcome is unknown"},
	rota.KindTimeout:         {http.StatusGatewayTimeout, "the caller's waiting time is over"},
	rota.KindOutOfRange:      {http.StatusGone, "the requested data is no longer kept, or still to come"},
	rota.KindDenied:          {http.StatusForbidden, "not permitted to this caller"},
	rota.KindInternal:        {http.StatusInternalServerError, "a fault of rota"},
	rota.KindUnauthenticated: {http.StatusUnauthorized, "the caller's credential is not valid"},
}

// HTTPStatus returns the HTTP status code for a kind.
func HTTPStatus(kind rota.Kind) int {
	if int(kind) < len(kindStatus) {
		return kindStatus[kind].status
	}
	return http.StatusInternalServerError
}

// Problem returns an error in its HTTP form. As in a gRPC status, an error without a kind is an internal one.
func Problem(err error) rest.Problem {
	e := FromStatus(ToStatus(err))
	status := HTTPStatus(e.Kind)
	title := kindStatus[rota.KindInternal].title
	if int(e.Kind) < len(kindStatus) {
		title = kindStatus[e.Kind].title
	}
	p := rest.Problem{Type: rest.ProblemURN + e.Kind.String(), Title: title, Status: status, Detail: e.Text,
		Kind: e.Kind.String(), Op: e.Op, Field: e.Subject}
	if e.RetryAfter > 0 {
		p.RetryAfterMs = (e.RetryAfter + time.Millisecond - 1).Milliseconds()
	}
	return p
}
