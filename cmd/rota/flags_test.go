package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/cli/worker"
)

// submittedBy parses the flags of `job submit` and returns the job.
func submittedBy(t *testing.T, args ...string) (rota.JobSpec, error) {
	t.Helper()
	f := &job.SubmitFlags{}
	a := &cli.App{}
	cmd := job.Commands{App: a}.Submit()
	cmd.ResetFlags()
	f.Register(cmd)
	if err := cmd.ParseFlags(append([]string{"--type", "t"}, args...)); err != nil {
		return rota.JobSpec{}, err
	}
	return f.Spec(strings.NewReader(""))
}

func TestSubmitFlags(t *testing.T) {
	t.Parallel()
	spec, err := submittedBy(t, "--at", "2031-01-31T15:04:05+02:00", "--max-runtime", "1d12h", "--ttl", "2d", "--delay",
		"90s", "--label", "team=search", "--label", "note=a=b", "--label", "empty=", "--header", "baggage=a=b,c=d")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2031, 1, 31, 13, 4, 5, 0, time.UTC)
	if !spec.NotBefore.Equal(at) || spec.MaxRuntime != 36*time.Hour || spec.TTL != 48*time.Hour ||
		spec.Delay != 90*time.Second {
		t.Errorf("got not before %s, max runtime %s, ttl %s, delay %s", spec.NotBefore, spec.MaxRuntime, spec.TTL,
			spec.Delay)
	}
	if want := map[string]string{"team": "search", "note": "a=b", "empty": ""}; !reflect.DeepEqual(spec.Labels, want) {
		t.Errorf("labels %v, want %v", spec.Labels, want)
	}
	if want := map[string]string{"baggage": "a=b,c=d"}; !reflect.DeepEqual(spec.Headers, want) {
		t.Errorf("headers %v, want %v", spec.Headers, want)
	}
	spec, err = submittedBy(t, "--at", "2031-01-31 15:04")
	if local := time.Date(2031, 1, 31, 15, 4, 0, 0, time.Local); err != nil || !spec.NotBefore.Equal(local) {
		t.Errorf("a local date is %s, %v; want %s", spec.NotBefore, err, local)
	}
	for args, want := range map[string]string{
		"--at tomorrow":           "a date such as",
		"--at 2031-02-30":         "a date such as",
		"--max-runtime soon":      "1d12h",
		"--delay 5":               "write 5ms or 5s",
		"--max-runtime -1d":       "0, or 3s to 87600h",
		"--max-runtime 11000d":    "0, or 3s to 87600h",
		"--label team":            "team=search",
		"--label =x":              "team=search",
		"--label a=1 --label a=2": "twice",
	} {
		_, err := submittedBy(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(cli.ErrorLine(cli.AsUsage(err), nil), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	for _, args := range [][]string{{"--label", "a=b"}, {"--at", "2031-01-31"}, {"--max-runtime", "1h"},
		{"--units", "1"}} {
		if code, _, stderr := runArgs(append([]string{"job", "submit", "--file", "-"},
			args...)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, args[0]) {
			t.Errorf("--file next to %v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestSubmitFlags_retry: a job's retry options have the same names as in the libraries; those of v0.1.0 are read too.
func TestSubmitFlags_retry(t *testing.T) {
	t.Parallel()
	want := rota.RetryPolicy{Attempts: 3, Base: time.Minute, Cap: 10 * time.Minute, FactorPermille: 1_500,
		JitterPermille: -1}
	for _, names := range [][]any{{"retry-attempts", "retry-base", "retry-factor", "retry-cap", "retry-jitter"},
		{"attempt-max", "backoff-base", "backoff-factor", "backoff-cap", "backoff-jitter"}} {
		spec, err := submittedBy(t, strings.Fields(fmt.Sprintf("--%s 3 --%s 1m --%s 1.5 --%s 10m --%s 0", names...))...)
		if err != nil || spec.Retry != want {
			t.Errorf("%v: %+v, %v", names, spec.Retry, err)
		}
	}
	if _, err := submittedBy(t, "--backoff-factor", "0.5"); err == nil ||
		!strings.Contains(err.Error(), "retry-factor") {
		t.Errorf("a factor below 1: %v", err)
	}
}

// Days are accepted wherever a duration is: flags, environment, config file, keys of a policy, a tenant's penalty, the
// end of an attestation.
func TestDays(t *testing.T) {
	t.Parallel()
	_, a, err := settled(t, []string{"ROTA_TIMEOUT=1d"}, "job list")
	if err != nil || a.Timeout != 24*time.Hour {
		t.Errorf("environment: %s, %v", a.Timeout, err)
	}
	_, a, err = settled(t, nil, "job list", "--config", configFile(t, "timeout: 2d\n"))
	if err != nil || a.Timeout != 48*time.Hour {
		t.Errorf("file: %s, %v", a.Timeout, err)
	}
	cmd, _, err := settled(t, nil, "server", "--archive-retention", "1d12h")
	if err != nil || cmd.Flags().Lookup("archive-retention").Value.String() != "36h0m0s" {
		t.Errorf("server: %v", err)
	}
	policy, tenant := rota.StandardPolicy(), rota.DefaultTenantLimits()
	if err := policy.Set(rota.Setting{Key: "ttl_abs", Value: "1d"}); err != nil || policy.TTLAbsMs != 24*3_600_000 {
		t.Errorf("policy: %d, %v", policy.TTLAbsMs, err)
	}
	if err := tenant.Set(rota.Setting{Key: "penalty", Value: "0.01d"}); err != nil || tenant.PenaltyMs != 864_000 {
		t.Errorf("penalty: %d, %v", tenant.PenaltyMs, err)
	}
	now := time.Unix(1_000_000, 0)
	if at, err := worker.ParseExpiry("30d", now); err != nil || at != rota.Date(now.Add(30*24*time.Hour).UnixMilli()) {
		t.Errorf("attestation: %d, %v", at, err)
	}
}
