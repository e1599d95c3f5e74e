package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/nearest"
	"github.com/rotasched/rota/transport"
	"github.com/spf13/pflag"
)

// The exit codes. Scripts depend on them.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitTimeout     = 5
	ExitOtherwise   = 6
	ExitUnavailable = 7
	ExitDenied      = 8
)

// CodedError is an error that knows its exit code, for what no kind says: a
// wrong command line, a job that ended otherwise than COMPLETED.
type CodedError struct {
	Code int
	Err  error
}

func (e *CodedError) Error() string { return e.Err.Error() }
func (e *CodedError) Unwrap() error { return e.Err }

// SilentExit ends with a code of which somebody else has said why.
type SilentExit struct{ Code int }

func (e *SilentExit) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Usagef returns an error with exit code 2.
func Usagef(format string, args ...any) error {
	return &CodedError{ExitUsage, fmt.Errorf(format, args...)}
}

// UnknownCommand returns an error for a command that the group with that path does not have. It suggests the most similar
// one of names, if there is one. The caller adds how to read the group's help.
func UnknownCommand(path, typed string, names []string) error {
	hint := ""
	if near := nearest.Name(typed, names); near != "" {
		hint = fmt.Sprintf(": did you mean %q?", near)
	}
	return rota.Refusef(rota.KindInvalid, "command", "unknown command %.80q of %s%s", typed, path, hint)
}

// Unknown returns an error for a name that is not one of names, and suggests the most similar one.
func Unknown(subject, what, typed string, names []string) error {
	return rota.Refusef(rota.KindInvalid, subject, "%s", nearest.Unknown(what, typed, names))
}

// Failf returns an error with exit code 1.
func Failf(format string, args ...any) error {
	return &CodedError{ExitFailed, fmt.Errorf(format, args...)}
}

// AsUsage takes an error from before the command began (cobra's own checks) as
// a wrong command line, unless it says otherwise itself.
func AsUsage(err error) error {
	var coded *CodedError
	if errors.As(err, &coded) {
		return err
	}
	return &CodedError{ExitUsage, err}
}

// ExitCode is the one mapping of errors to exit codes.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	var coded *CodedError
	if errors.As(err, &coded) {
		return coded.Code
	}
	var refusal *rota.Error
	if errors.As(err, &refusal) {
		return KindCode(refusal.Kind)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ExitTimeout
	}
	return ExitFailed
}

// KindCode returns the exit code of a kind of error.
func KindCode(kind rota.Kind) int {
	switch kind {
	case rota.KindNone:
		return ExitDone
	case rota.KindInvalid:
		return ExitUsage
	case rota.KindNotFound:
		return ExitNotFound
	case rota.KindExhausted, rota.KindMode:
		return ExitRefused
	case rota.KindTimeout:
		return ExitTimeout
	case rota.KindUnavailable:
		return ExitUnavailable
	case rota.KindDenied, rota.KindUnauthenticated:
		return ExitDenied
	default:
		return ExitFailed
	}
}

// SubmitCode is kindCode for what is submitted, opened, started or signalled under an id: one that
// stands for something else is a refusal like those of admission.
func SubmitCode(kind rota.Kind) int {
	if kind == rota.KindConflict {
		return ExitRefused
	}
	return KindCode(kind)
}

// AsSubmitted sets the exit code of the error of such a call.
func AsSubmitted(err error) error {
	if rota.KindOf(err) == rota.KindConflict {
		return &CodedError{ExitRefused, err}
	}
	return err
}

// WorstCode picks the exit code of a batch whose items were refused for several
// reasons: what the caller must correct first, then what has no outcome, then
// where waiting helps.
func WorstCode(code func(rota.Kind) int, kinds []rota.Kind) int {
	seen := make(map[int]bool, len(kinds))
	for _, k := range kinds {
		seen[code(k)] = true
	}
	for _, code := range []int{ExitUsage, ExitDenied, ExitUnavailable, ExitTimeout, ExitRefused, ExitNotFound,
		ExitFailed} {
		if seen[code] {
			return code
		}
	}
	return ExitDone
}

// ErrorLine is the one line that stderr gets: what went wrong and what to do.
func ErrorLine(err error, addrs []string) string {
	text := err.Error()
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		text = strings.Replace(text, bad.Error(), badValue(bad), 1)
	}
	text = OneLine(text)
	switch ExitCode(err) {
	case ExitRefused:
		switch rota.KindOf(err) {
		case rota.KindMode:
			text += retryHint(err, "; try again later")
		case rota.KindExhausted:
			text += retryHint(err, "")
		}
	case ExitUnavailable:
		text += retryHint(err, "")
		if slices.Equal(addrs, []string{client.DefaultAddress}) {
			text += "; rota dev starts a cluster there, --addr or ROTA_ADDR names another"
			break
		}
		if hint := connectionHint(text); hint != "" {
			text += "; " + hint
			break
		}
		if len(addrs) == 0 {
			break
		}
		asked := ""
		if slices.ContainsFunc(addrs, func(a string) bool { return !strings.Contains(text, a) }) {
			asked = "asked: " + strings.Join(addrs, ", ") + "; "
		}
		if !strings.Contains(text, "is a majority of its nodes up?") { // a node that answers asks it itself
			text += "; is a majority of the nodes up?"
		}
		text += " (" + asked + "--addr or ROTA_ADDR names others)"
	case ExitTimeout:
		text += "; --timeout allows longer"
	case ExitFailed:
		text += retryHint(err, "")
	}
	return "rota: " + text
}

// connectionHint says what to do where something answers that is no node, or whose certificate is refused;
// nothing where that is not why.
func connectionHint(text string) string {
	switch {
	case strings.Contains(text, "is no client port of a node"):
		return "--addr or ROTA_ADDR names the --api of a node"
	case strings.Contains(text, "x509: certificate has expired or is not yet valid"):
		return "a certificate has ended, or a clock is wrong (runbook: " + Runbooks + "CertificatesEnded.md)"
	case strings.Contains(text, "x509: certificate is valid for "):
		return "the node's certificate must name the host of its address: rota tls issue node ID --host HOST"
	case strings.Contains(text, "x509: certificate signed by unknown authority"):
		return "--tls-ca or ROTA_TLS_CA names the authority of the nodes' certificates"
	default:
		return ""
	}
}

// badValue describes the values that a flag accepts, instead of how the library's parser failed.
func badValue(bad *pflag.InvalidValueError) string {
	want := ""
	switch bad.GetFlag().Value.Type() {
	case "int", "int32", "int64":
		want = "a whole number"
	case "uint", "uint32", "uint64":
		want = "a whole number of 0 or more"
	case "float64":
		want = "a number such as 0.5"
	case "duration":
		var refusal *rota.Error
		if _, err := rota.ParseDuration(bad.GetValue()); errors.As(err, &refusal) &&
			strings.Contains(refusal.Error(), "has no unit") {
			return "--" + bad.GetFlag().Name + ": " + refusal.Error()
		}
		want = "a duration such as 30s, 5m or 1d12h"
	case "date":
		want = WantedDate
	case "bool":
		want = "true or false"
	default:
		return bad.Error()
	}
	if r, ok := bad.GetFlag().Value.(*RangedFlag); ok {
		want += ", " + r.Span()
	}
	return fmt.Sprintf("--%s: got %.80q; use %s", bad.GetFlag().Name, bad.GetValue(), want)
}

func retryHint(err error, otherwise string) string {
	d := rota.RetryAfterOf(err)
	if d <= 0 {
		return otherwise
	}
	return fmt.Sprintf("; try again in %s", max(d.Round(time.Millisecond), time.Millisecond))
}

// Runbooks is where the pages are.
const Runbooks = transport.Runbooks

// SignalError is why a context ended by a signal.
type SignalError struct{ syscall.Signal }

func (e SignalError) Error() string { return e.String() + " signal received" }
