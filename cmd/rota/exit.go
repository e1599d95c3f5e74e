package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"syscall"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/nearest"
	"github.com/rotasched/rota/transport"
)

// The exit codes. Scripts depend on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitTimeout     = 5
	exitOtherwise   = 6
	exitUnavailable = 7
	exitDenied      = 8
)

// codedError is an error that knows its exit code, for what no kind says: a
// wrong command line, a job that ended otherwise than COMPLETED.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// silentExit ends with a code of which somebody else has said why.
type silentExit struct{ code int }

func (e *silentExit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func usagef(format string, args ...any) error {
	return &codedError{exitUsage, fmt.Errorf(format, args...)}
}

// unknown refuses a name that is none of those wanted, and guesses which one is meant.
func unknown(subject, what, typed string, names []string) error {
	return rota.Refusef(rota.KindInvalid, subject, "%s", nearest.Unknown(what, typed, names))
}

func failf(format string, args ...any) error {
	return &codedError{exitFailed, fmt.Errorf(format, args...)}
}

// asUsage takes an error from before the command began (cobra's own checks) as
// a wrong command line, unless it says otherwise itself.
func asUsage(err error) error {
	var coded *codedError
	if errors.As(err, &coded) {
		return err
	}
	return &codedError{exitUsage, err}
}

// exitCode is the one mapping of errors to exit codes.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	var refusal *rota.Error
	if errors.As(err, &refusal) {
		return kindCode(refusal.Kind)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exitTimeout
	}
	return exitFailed
}

func kindCode(kind rota.Kind) int {
	switch kind {
	case rota.KindNone:
		return exitDone
	case rota.KindInvalid:
		return exitUsage
	case rota.KindNotFound:
		return exitNotFound
	case rota.KindExhausted, rota.KindMode:
		return exitRefused
	case rota.KindTimeout:
		return exitTimeout
	case rota.KindUnavailable:
		return exitUnavailable
	case rota.KindDenied, rota.KindUnauthenticated:
		return exitDenied
	default:
		return exitFailed
	}
}

// submitCode is kindCode for what is submitted, opened, started or signalled under an id: one that
// stands for something else is a refusal like those of admission.
func submitCode(kind rota.Kind) int {
	if kind == rota.KindConflict {
		return exitRefused
	}
	return kindCode(kind)
}

// asSubmitted sets the exit code of the error of such a call.
func asSubmitted(err error) error {
	if rota.KindOf(err) == rota.KindConflict {
		return &codedError{exitRefused, err}
	}
	return err
}

// worstCode picks the exit code of a batch whose items were refused for several
// reasons: what the caller must correct first, then what has no outcome, then
// what waiting mends.
func worstCode(code func(rota.Kind) int, kinds []rota.Kind) int {
	seen := make(map[int]bool, len(kinds))
	for _, k := range kinds {
		seen[code(k)] = true
	}
	for _, code := range []int{exitUsage, exitDenied, exitUnavailable, exitTimeout, exitRefused, exitNotFound, exitFailed} {
		if seen[code] {
			return code
		}
	}
	return exitDone
}

// errorLine is the one line that stderr gets: what went wrong and what to do.
func errorLine(err error, addrs []string) string {
	text := err.Error()
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		text = strings.Replace(text, bad.Error(), badValue(bad), 1)
	}
	text = oneLine(text)
	switch exitCode(err) {
	case exitRefused:
		if rota.KindOf(err) != rota.KindConflict { // time mends that one not
			text += retryHint(err, "; try again later")
		}
	case exitUnavailable:
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
	case exitTimeout:
		text += "; --timeout allows longer"
	case exitFailed:
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
		return "a certificate has ended, or a clock is wrong (runbook: " + runbooks + "CertificatesEnded.md)"
	case strings.Contains(text, "x509: certificate is valid for "):
		return "the node's certificate has to name the host of its address: rota tls issue node ID --host HOST"
	case strings.Contains(text, "x509: certificate signed by unknown authority"):
		return "--tls-ca or ROTA_TLS_CA names the authority of the nodes' certificates"
	default:
		return ""
	}
}

// badValue says what a flag wants, where the library tells how its parser failed.
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
		if _, err := rota.ParseDuration(bad.GetValue()); errors.As(err, &refusal) && strings.Contains(refusal.Error(), "has no unit") {
			return "--" + bad.GetFlag().Name + ": " + refusal.Error()
		}
		want = "a duration such as 30s, 5m or 1d12h"
	case "date":
		want = wantedDate
	case "bool":
		want = "true or false"
	default:
		return bad.Error()
	}
	if r, ok := bad.GetFlag().Value.(*rangedFlag); ok {
		want += ", " + r.span() + ","
	}
	return fmt.Sprintf("--%s %q is refused: %s is wanted", bad.GetFlag().Name, bad.GetValue(), want)
}

func retryHint(err error, otherwise string) string {
	d := rota.RetryAfterOf(err)
	if d <= 0 {
		return otherwise
	}
	return fmt.Sprintf("; try again in %s", max(d.Round(time.Millisecond), time.Millisecond))
}

// runbooks is where the pages are.
const runbooks = transport.Runbooks

// signalError is why a context ended by a signal.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return e.String() + " signal received" }
