package words

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rotasched/rota"
)

// errorDomain names us in the standard ErrorInfo detail of a status.
const errorDomain = "rota"

// maxStatusText bounds what an error says on the wire: a status travels in
// HTTP/2 headers, which both ends bound.
const maxStatusText = 4 << 10

// kindCodes is the one table of kinds and gRPC codes.
var kindCodes = [...]codes.Code{
	rota.KindNone:        codes.Internal,
	rota.KindInvalid:     codes.InvalidArgument,
	rota.KindNotFound:    codes.NotFound,
	rota.KindConflict:    codes.AlreadyExists,
	rota.KindStale:       codes.Aborted,
	rota.KindMode:        codes.FailedPrecondition,
	rota.KindExhausted:   codes.ResourceExhausted,
	rota.KindUnavailable: codes.Unavailable,
	rota.KindTimeout:     codes.DeadlineExceeded,
	rota.KindOutOfRange:  codes.OutOfRange,
	rota.KindDenied:      codes.PermissionDenied,
	rota.KindInternal:    codes.Internal,

	rota.KindUnauthenticated: codes.Unauthenticated,
}

// CodeOf returns the gRPC code of a kind.
func CodeOf(kind rota.Kind) codes.Code {
	if int(kind) < len(kindCodes) {
		return kindCodes[kind]
	}
	return codes.Internal
}

// ToStatus returns the error that a gRPC handler returns. A *rota.Error anywhere
// in the chain decides; its kind, verb, subject and delay travel as the
// standard details ErrorInfo and RetryInfo, so that strangers' clients read
// them too. A status error passes as it is; any other error is Internal.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var e *rota.Error
	if !errors.As(err, &e) {
		return strangerToStatus(err)
	}
	if e == nil {
		return nil
	}
	text, op := textOf(e), e.Op
	if err != error(e) {
		text, op = err.Error(), "" // a wrapper's text says the verb already
	}
	st := status.New(CodeOf(e.Kind), bounded(text))
	info := &errdetails.ErrorInfo{Reason: e.Kind.String(), Domain: errorDomain}
	if e.Subject != "" || op != "" {
		info.Metadata = map[string]string{"subject": bounded(e.Subject), "op": bounded(op)}
	}
	details := []protoadapt.MessageV1{info}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if with, derr := st.WithDetails(details...); derr == nil {
		st = with
	}
	return st.Err()
}

func strangerToStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, bounded(err.Error()))
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, bounded(err.Error()))
	default:
		return ToStatus(&rota.Error{Kind: rota.KindInternal, Text: err.Error()})
	}
}

// FromStatus rebuilds the *rota.Error that ToStatus sent. Errors that gRPC
// itself made are given the kind that says what to do: a lost connection, and a code Internal or Unknown
// without a kind of ours, are Unavailable with an unknown outcome, a message over the size limit Invalid.
// The caller's own cancellation or deadline can be found by errors.Is.
func FromStatus(err error) *rota.Error {
	if err == nil {
		return nil
	}
	var e *rota.Error
	if errors.As(err, &e) {
		return e
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	e = &rota.Error{Kind: kindOfCode(st), Text: plain(st.Message())}
	if !ok && st.Code() == codes.Unknown {
		e.Kind = rota.KindInternal // no call's
	}
	switch {
	case e.Kind != rota.KindTimeout:
	case st.Code() == codes.Canceled:
		e.Cause = context.Canceled
	default:
		e.Cause = context.DeadlineExceeded
	}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != errorDomain {
				continue
			}
			e.Kind, e.Text = kindFromWire(d.GetReason(), st.Message())
			e.Subject, e.Op, e.Cause = d.GetMetadata()["subject"], d.GetMetadata()["op"], nil
		case *errdetails.RetryInfo:
			e.RetryAfter = max(0, d.GetRetryDelay().AsDuration())
		}
	}
	return shortenCause(e)
}

// plain takes the library's own words off a connection that could not be made, and
// leaves what the operating system said of it. Where something else than a node that serves
// is at the address, it says so.
func plain(message string) string {
	if answer, foreign := strings.CutPrefix(message, foreignAnswer); foreign {
		answer, _, _ = strings.Cut(answer, ";")
		return noClientPort + ", which answered " + answer
	}
	if strings.HasPrefix(message, "write tcp ") { // where the first bytes to it failed
		return closedMute + " (" + message[strings.LastIndex(message, ": ")+2:] + ")"
	}
	inner, ok := strings.CutPrefix(message, `connection error: desc = "`)
	if !ok {
		return message
	}
	inner = strings.TrimPrefix(strings.TrimSuffix(inner, `"`), "transport: ")
	switch preface, ended := strings.CutPrefix(inner, "error reading server preface: "); {
	case ended && strings.Contains(preface, "HTTP/1.1 header"):
		return noClientPort + ", as that of --admin is none"
	case ended && strings.Contains(preface, "frame too large"): // an alert of TLS reads so
		return "no connection: what answers does not speak as a client port of a node does, or wants TLS"
	case ended && strings.Contains(preface, "use of closed network connection"): // the library's own end of the wait
		return "no connection: the port is open and nobody answers, as while a node starts, or waits for others (/readyz at its --admin says for what)"
	case ended:
		return closedMute + " (" + preface + ")"
	}
	return "no connection: " + strings.TrimPrefix(inner, "Error while dialing: ")
}

const (
	// foreignAnswer is how the library reports an answer that no gRPC server gave.
	foreignAnswer = "unexpected HTTP status code received from server: "
	closedMute    = "no connection: it was closed without an answer, as where a node ends, or wants TLS"
	noClientPort  = "no connection: an HTTP server is there that is no client port of a node"
)

// shortenCause keeps the text from being said twice where the cause says it.
func shortenCause(e *rota.Error) *rota.Error {
	if e.Cause != nil {
		e.Text = strings.TrimSuffix(strings.TrimSuffix(e.Text, e.Cause.Error()), ": ")
		if e.Text == "" {
			e.Text = "the call was given up"
		}
	}
	return e
}

// kindOfCode says what to do about a status that carries no kind.
func kindOfCode(st *status.Status) rota.Kind {
	switch st.Code() {
	case codes.Internal, codes.Unknown:
		return rota.KindUnavailable // a node sends its own kind; gRPC or a proxy on the way broke the call off
	case codes.Unimplemented:
		if strings.HasPrefix(st.Message(), foreignAnswer) {
			return rota.KindUnavailable
		}
	}
	switch st.Code() {
	case codes.ResourceExhausted:
		// The library's own refusal of an oversized message has this code, but
		// waiting is no remedy for it.
		if strings.Contains(st.Message(), "larger than max") {
			return rota.KindInvalid
		}
		return rota.KindExhausted
	case codes.InvalidArgument, codes.Unimplemented:
		return rota.KindInvalid
	case codes.NotFound:
		return rota.KindNotFound
	case codes.AlreadyExists:
		return rota.KindConflict
	case codes.Aborted:
		return rota.KindStale
	case codes.FailedPrecondition:
		return rota.KindMode
	case codes.Unavailable:
		return rota.KindUnavailable
	case codes.DeadlineExceeded:
		return rota.KindTimeout
	case codes.Canceled:
		// Only the caller's own cancellation says so; a stream that the other
		// end reset has the same code.
		if strings.Contains(st.Message(), context.Canceled.Error()) {
			return rota.KindTimeout
		}
		return rota.KindUnavailable
	case codes.OutOfRange:
		return rota.KindOutOfRange
	case codes.PermissionDenied:
		return rota.KindDenied
	case codes.Unauthenticated:
		return rota.KindUnauthenticated
	default:
		return rota.KindInternal
	}
}

func bounded(s string) string {
	if len(s) > maxStatusText {
		s = fmt.Sprintf("%s… (%d bytes)", s[:maxStatusText], len(s))
	}
	return clean(s)
}

// Trailer returns an error as the headers grpc-status, grpc-message and
// grpc-status-details-bin have it, for an answer that gRPC's own server does not make.
func Trailer(err error) (code, message, details string) {
	st := status.Convert(ToStatus(err))
	if whole, encoded := proto.Marshal(st.Proto()); encoded == nil {
		details = base64.RawStdEncoding.EncodeToString(whole)
	}
	return strconv.Itoa(int(st.Code())), strings.ReplaceAll(url.QueryEscape(st.Message()), "+", "%20"), details
}
