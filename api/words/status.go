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

// errorDomain is this project's domain in the standard ErrorInfo detail of a status.
const errorDomain = "rota"

// maxStatusText bounds an error's text on the wire: a status travels in HTTP/2 headers, which both ends bound.
const maxStatusText = 4 << 10

// kindCodes is the only table of kinds and gRPC codes.
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

// ToStatus returns the error that a gRPC handler returns. It uses the *rota.Error anywhere in the chain. The error's
// kind, verb, subject and delay travel as the standard details ErrorInfo and RetryInfo, which third-party clients can
// read too. A status error passes unchanged; any other error is Internal.
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
		text, op = err.Error(), "" // the wrapper's text contains the verb already
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

// FromStatus rebuilds the *rota.Error that ToStatus sent. Errors that gRPC itself made get the kind that shows what to
// do. A lost connection, and a code Internal or Unknown without one of our kinds, become Unavailable with an unknown
// outcome; a message over the size limit becomes Invalid. errors.Is finds the caller's own cancellation or deadline.
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
		e.Kind = rota.KindInternal // not an error of any call
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

// plain removes the library's own text from a connection error, and keeps the operating system's. If something other
// than a serving node answers at the address, the text states that.
func plain(message string) string {
	if answer, foreign := strings.CutPrefix(message, foreignAnswer); foreign {
		answer, _, _ = strings.Cut(answer, ";")
		return noClientPort + ", which answered " + answer
	}
	if strings.HasPrefix(message, "write tcp ") { // the first write to it failed
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
	case ended && strings.Contains(preface, "frame too large"): // a TLS alert reads like this
		return "no connection: what answers does not speak as a client port of a node does, or wants TLS"
	case ended && strings.Contains(preface, "use of closed network connection"): // the library gave up waiting
		return "no connection: the port is open and nobody answers, as while a node starts, or waits for others (/readyz at its --admin says for what)"
	case ended:
		return closedMute + " (" + preface + ")"
	}
	return "no connection: " + strings.TrimPrefix(inner, "Error while dialing: ")
}

const (
	// foreignAnswer is the library's text for an answer that did not come from a gRPC server.
	foreignAnswer = "unexpected HTTP status code received from server: "
	closedMute    = "no connection: it was closed without an answer, as where a node ends, or wants TLS"
	noClientPort  = "no connection: an HTTP server is there that is no client port of a node"
)

// shortenCause avoids repeating a text that the cause contains already.
func shortenCause(e *rota.Error) *rota.Error {
	if e.Cause != nil {
		e.Text = strings.TrimSuffix(strings.TrimSuffix(e.Text, e.Cause.Error()), ": ")
		if e.Text == "" {
			e.Text = "the call was given up"
		}
	}
	return e
}

// kindOfCode returns the kind for a status that carries none.
func kindOfCode(st *status.Status) rota.Kind {
	switch st.Code() {
	case codes.Internal, codes.Unknown:
		return rota.KindUnavailable // a node sends its own kind; gRPC or a proxy in between broke off the call
	case codes.Unimplemented:
		if strings.HasPrefix(st.Message(), foreignAnswer) {
			return rota.KindUnavailable
		}
	}
	switch st.Code() {
	case codes.ResourceExhausted:
		// The library's own error for an oversized message has this code, but waiting does not help.
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
		// Only the caller's own cancellation has this text; a stream reset by the other end has the same code.
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

// Trailer returns an error as the headers grpc-status, grpc-message and grpc-status-details-bin, for an answer that
// does not come from gRPC's own server.
func Trailer(err error) (code, message, details string) {
	st := status.Convert(ToStatus(err))
	if whole, encoded := proto.Marshal(st.Proto()); encoded == nil {
		details = base64.RawStdEncoding.EncodeToString(whole)
	}
	return strconv.Itoa(int(st.Code())), strings.ReplaceAll(url.QueryEscape(st.Message()), "+", "%20"), details
}
