package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	kind := func(k rota.Kind) error { return fmt.Errorf("call: %w", &rota.Error{Kind: k, Text: "no"}) }
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"a stranger's error", errors.New("x"), 1},
		{"conflict", kind(rota.KindConflict), 1},
		{"conflict at submission", cli.AsSubmitted(kind(rota.KindConflict)), 4},
		{"mode at submission", cli.AsSubmitted(kind(rota.KindMode)), 4},
		{"not found at submission", cli.AsSubmitted(kind(rota.KindNotFound)), 3},
		{"stale", kind(rota.KindStale), 1},
		{"out of range", kind(rota.KindOutOfRange), 1},
		{"denied", kind(rota.KindDenied), 8},
		{"unauthenticated", kind(rota.KindUnauthenticated), 8},
		{"internal", kind(rota.KindInternal), 1},
		{"invalid", kind(rota.KindInvalid), 2},
		{"usage", cli.Usagef("x"), 2},
		{"not found", kind(rota.KindNotFound), 3},
		{"exhausted", kind(rota.KindExhausted), 4},
		{"mode", kind(rota.KindMode), 4},
		{"timeout", kind(rota.KindTimeout), 5},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), 5},
		{"unavailable", kind(rota.KindUnavailable), 7},
		{"coded beats kind", &cli.CodedError{Code: 6, Err: kind(rota.KindInvalid)}, 6},
		{"ended otherwise", job.EndedWell([]rota.Job{{State: rota.JobDead}}), 6},
		{"ended well", job.EndedWell([]rota.Job{{State: rota.JobCompleted}}), 0},
	} {
		if got := cli.ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWorstCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kinds []rota.Kind
		want  int
	}{
		{nil, 0},
		{[]rota.Kind{rota.KindExhausted}, 4},
		{[]rota.Kind{rota.KindExhausted, rota.KindInvalid, rota.KindNotFound}, 2},
		{[]rota.Kind{rota.KindNotFound, rota.KindMode}, 4},
		{[]rota.Kind{rota.KindNotFound}, 3},
		{[]rota.Kind{rota.KindExhausted, rota.KindUnavailable}, 7},
		{[]rota.Kind{rota.KindInternal}, 1},
	} {
		if got := cli.WorstCode(cli.KindCode, c.kinds); got != c.want {
			t.Errorf("%v: %d, want %d", c.kinds, got, c.want)
		}
	}
}

func TestErrorLine(t *testing.T) {
	t.Parallel()
	line := cli.ErrorLine(&rota.Error{Kind: rota.KindExhausted, Text: "queue q\nis full",
		RetryAfter: 1500 * time.Millisecond}, nil)
	if want := "rota: queue q is full; try again in 1.5s"; line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	for kind, want := range map[rota.Kind]string{
		rota.KindExhausted: "rota: budget x has 0 of 4 usd left", // waiting does not help
		rota.KindMode:      "rota: budget x has 0 of 4 usd left; try again later",
	} {
		if line = cli.ErrorLine(&rota.Error{Kind: kind, Text: "budget x has 0 of 4 usd left"}, nil); line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
	line = cli.ErrorLine(&rota.Error{Kind: rota.KindUnavailable, Text: "no node answered"}, []string{"a:1", "b:2"})
	if !strings.Contains(line, "a:1, b:2") || strings.Contains(line, "\n") {
		t.Errorf("the error does not name the address that was tried: %q", line)
	}
	line = cli.ErrorLine(&rota.Error{Kind: rota.KindUnavailable, RetryAfter: 500 * time.Millisecond,
		Text: "the cluster has no leader: is a majority of its nodes up?"}, []string{"a:1"})
	if strings.Count(line, "majority") != 1 || !strings.Contains(line, "asked: a:1; --addr") {
		t.Errorf("it tries twice, or does not name the address that was tried: %q", line)
	}
	line = cli.ErrorLine(&rota.Error{Kind: rota.KindUnavailable, Text: "no node answered"},
		[]string{client.DefaultAddress})
	if !strings.Contains(line, "rota dev starts a cluster there") {
		t.Errorf("without a cluster on this machine, no hint on how to start one: %q", line)
	}
	for text, want := range map[string]string{
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time": "CertificatesEnded.md",
		"x509: certificate is valid for 127.0.0.1, not 10.0.0.1":                                             "rota tls issue node ID --host HOST",
		"x509: certificate signed by unknown authority":                                                      "ROTA_TLS_CA",
		"an HTTP server is there that is no client port of a node":                                           "names the --api of a node",
	} {
		line = cli.ErrorLine(&rota.Error{Kind: rota.KindUnavailable, Text: text}, []string{"a:1", "b:2"})
		if !strings.Contains(line, want) || strings.Contains(line, "majority") {
			t.Errorf("want %q in %q", want, line)
		}
	}
}
