package rota

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/nearest"
)

// Kind determines what a caller can do about an error. Each maps to one gRPC code in one table (api/words) and to one
// exit code in another (internal/cli/exit.go).
type Kind uint8

// The kinds. Each calls for a different next step.
const (
	// KindNone means that there is no error.
	KindNone Kind = iota
	// Invalid: the call is wrong in itself; correct the named field.
	KindInvalid
	// NotFound: no such job, queue, worker, node.
	KindNotFound
	// Conflict: the call conflicts with the current state (a live worker id, a state that does not allow the
	// transition); read the state first.
	KindConflict
	// Stale: the lease, session or token is not (or no longer) the caller's;
	// stop working on it.
	KindStale
	// Mode: the cluster's mode does not admit it (SPEC §4.3).
	KindMode
	// Exhausted: a cap, a rate or backpressure refused it; wait RetryAfter.
	KindExhausted
	// Unavailable: no leader, no quorum, or the outcome is unknown; retry with
	// the same ids after RetryAfter.
	KindUnavailable
	// Timeout: the caller's own waiting time has passed.
	KindTimeout
	// OutOfRange: the requested data is no longer kept, or does not exist yet.
	KindOutOfRange
	// Denied: not permitted to this caller.
	KindDenied
	// Internal: a fault in rota; the log has details.
	KindInternal
	// Unauthenticated: the caller sent no valid credential; send another.
	KindUnauthenticated
)

var kindNames = [...]string{"NONE", "INVALID", "NOT_FOUND", "CONFLICT", "STALE", "MODE", "EXHAUSTED",
	"UNAVAILABLE", "TIMEOUT", "OUT_OF_RANGE", "DENIED", "INTERNAL", "UNAUTHENTICATED"}

// String names the kind in capitals.
func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// Error is the one error type that crosses packages. Its text is for people: it names what was refused, the value, the
// limit, and what to do next.
type Error struct {
	// Kind determines what the caller can do.
	Kind Kind
	// Op is the verb that refused, such as "submit"; may be empty.
	Op string
	// Subject is the refused field or id; may be empty.
	Subject string
	// Text is the sentence.
	Text string
	// RetryAfter is how long to wait before a retry; 0 if waiting does not help.
	RetryAfter time.Duration
	// Cause is the underlying error; may be nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Text
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the sentinel of the error's kind, such as [ErrNotFound].
func (e *Error) Is(target error) bool {
	s, ok := target.(sentinel)
	return ok && e != nil && e.Kind == Kind(s)
}

// The sentinels stand for the kinds in errors.Is: errors.Is(err, rota.ErrNotFound) reports
// whether err is or wraps an error of kind NotFound.
const (
	// ErrInvalid stands for Invalid.
	ErrInvalid = sentinel(KindInvalid)
	// ErrNotFound stands for NotFound.
	ErrNotFound = sentinel(KindNotFound)
	// ErrConflict stands for Conflict.
	ErrConflict = sentinel(KindConflict)
	// ErrStale stands for Stale.
	ErrStale = sentinel(KindStale)
	// ErrMode stands for Mode.
	ErrMode = sentinel(KindMode)
	// ErrExhausted stands for Exhausted.
	ErrExhausted = sentinel(KindExhausted)
	// ErrUnavailable stands for Unavailable.
	ErrUnavailable = sentinel(KindUnavailable)
	// ErrTimeout stands for Timeout.
	ErrTimeout = sentinel(KindTimeout)
	// ErrOutOfRange stands for OutOfRange.
	ErrOutOfRange = sentinel(KindOutOfRange)
	// ErrDenied stands for Denied.
	ErrDenied = sentinel(KindDenied)
	// ErrInternal stands for Internal.
	ErrInternal = sentinel(KindInternal)
	// ErrUnauthenticated stands for Unauthenticated.
	ErrUnauthenticated = sentinel(KindUnauthenticated)
)

// sentinel is a kind as an error without a text of its own.
type sentinel Kind

// Error implements error.
func (s sentinel) Error() string { return "an error of kind " + Kind(s).String() }

// Refusef makes an error of a kind about a subject.
func Refusef(kind Kind, subject, format string, args ...any) *Error {
	return &Error{Kind: kind, Subject: subject, Text: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err: KindNone for nil, Internal for an error of another package.
func KindOf(err error) Kind {
	if err == nil {
		return KindNone
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var s sentinel
	if errors.As(err, &s) {
		return Kind(s)
	}
	return KindInternal
}

// ErrorOf returns the *Error that err is or wraps: nil for nil, one of kind KindOf(err) for an error of another
// package.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindOf(err), Text: err.Error()}
}

// OrNil returns e as an error that is nil if e is nil.
func (e *Error) OrNil() error {
	if e == nil {
		return nil
	}
	return e
}

// RetryAfterOf returns how long to wait before a retry; 0 if waiting does not help.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("UNKNOWN_%d", i)
	}
	return names[i]
}

// choices returns the names to show to people, without the one that means nothing.
func choices(names []string) []string {
	named := make([]string, 0, len(names))
	for _, n := range names {
		if n != "" && n != "NONE" && n != "none" {
			named = append(named, n)
		}
	}
	return named
}

func valueOf(names []string, what string, text []byte) (int, error) {
	for i, n := range names {
		if n != "" && n == string(text) {
			return i, nil
		}
	}
	return 0, unknown(what, what, string(text), names)
}

// maxShown is how many bytes of a refused value an error shows.
const maxShown = 80

// shorten cuts a value for a message to maxShown bytes of whole UTF-8 characters. A cut value ends with "…".
func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

// OutOfRange returns an error of kind KindInvalid for a number outside low to high, both included. The numbers have the
// unit that the field's name ends with, such as _ms or _bytes.
//
//	priority must be between 0 and 10, got 11
func OutOfRange(field string, got, low, high int64) *Error {
	return Refusef(KindInvalid, field, "%s must be between %d and %d, got %s", field, low, high, quoted(field, got))
}

// TooMany returns an error of kind KindInvalid for a list or map with got entries, where at most most are allowed.
//
//	too many labels: got 65, maximum 64
func TooMany(field string, got, most int) *Error {
	return Refusef(KindInvalid, field, "too many %s: got %d, maximum %d", field, got, most)
}

// TooLong returns an error of kind KindInvalid for a value of got bytes, where at most most are allowed.
//
//	filter too long: got 5000 bytes, maximum 4096
func TooLong(field string, got, most int) *Error {
	return Refusef(KindInvalid, field, "%s too long: got %d bytes, maximum %d", field, got, most)
}

// NotOneOf returns an error of kind KindInvalid for a value that is not one of a fixed set of names. It shows at most 80
// bytes of the value, and suggests the option that is most similar, if there is one.
//
//	scope must be one of tenant, cluster, got "clutser"; did you mean "cluster"?
func NotOneOf(field, got string, options ...string) *Error {
	text := ""
	if best := nearest.Name(got, options); best != "" {
		text = "; did you mean " + strconv.Quote(best) + "?"
	}
	return Refusef(KindInvalid, field, "%s must be one of %s, got %q%s", field, strings.Join(options, ", "),
		shorten(got), text)
}

// Malformed returns an error of kind KindInvalid for a value that cannot be parsed. It shows at most 80 bytes of the
// value. The hint is a clause that names the syntax, with an example where that helps.
//
//	duration: got "5"; use a value such as 300ms or 30s
func Malformed(field, got, hint string) *Error {
	return Refusef(KindInvalid, field, "%s: got %q; %s", field, shorten(got), hint)
}

// unknown returns an error for a name that is not one of names, and suggests the most similar one.
func unknown(subject, what, typed string, names []string) *Error {
	return Refusef(KindInvalid, subject, "%s", nearest.Unknown(what, typed, choices(names)))
}

// JobStateNames lists the names of the job states.
func JobStateNames() []string { return choices(jobStateNames) }

// ClusterModeNames lists the names of the cluster modes.
func ClusterModeNames() []string { return choices(modeNames) }

// ServiceTierNames lists the names of the service tiers.
func ServiceTierNames() []string { return choices(serviceTierNames) }

// EventKindNames lists the kinds of events.
func EventKindNames() []string { return choices(eventKindNames) }
