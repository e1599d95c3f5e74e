package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/cli/operator"
	"github.com/rotasched/rota/internal/cli/queue"
	"github.com/rotasched/rota/internal/cli/worker"
)

// Output for people has no figures without a meaning, no texts of libraries, and advice is never cut off.
func TestShownToPeople(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, text string, wanted, unwanted []string) {
		t.Helper()
		for _, w := range wanted {
			if !strings.Contains(text, w) {
				t.Errorf("%q is missing in\n%s", w, text)
			}
		}
		for _, w := range unwanted {
			if strings.Contains(text, w) {
				t.Errorf("%q occurs in\n%s", w, text)
			}
		}
	}
	t.Run("adaptive_score_is_the_double", func(t *testing.T) {
		t.Parallel()
		d := rota.PlacedDecision{Worker: "w1", Decision: rota.Decision{Score: rota.Score(math.Float64bits(2.25)),
			Reasoning: rota.Reasoning{Rule: rota.ReasoningBySeededShuffle, N: 3, Of: 7}}}
		has(t, job.DecisionText(&d), []string{"score      2.25", "SeededShuffle: place 3 of 7"}, []string{"46"})
	})
	t.Run("a_waiting_job_leads_to_why", func(t *testing.T) {
		t.Parallel()
		for state, waits := range map[rota.JobState]bool{rota.JobQueued: true, rota.JobDelayed: true,
			rota.JobBlocked: true, rota.JobRunning: false,
			rota.JobCompleted: false, rota.JobDead: false} {
			text := job.Table(rota.Job{JobSpec: rota.JobSpec{ID: "photo"}, State: state}, false)
			if strings.Contains(text, "rota job why photo") != waits {
				t.Errorf("a job that is %s is shown as\n%s", state, text)
			}
		}
	})
	t.Run("reasons_in_columns", func(t *testing.T) {
		t.Parallel()
		text := job.WhyText(&rota.Explanation{Job: "j", State: rota.JobQueued, Reasons: []rota.Why{
			{Reason: "QUEUE_PAUSED"}, {Reason: "CPU_FULL", Workers: 1, WorkerIDs: []rota.WorkerID{"w7"},
				Detail: "needs 9 millicores"}}}, false)
		has(t, text, []string{"QUEUE_PAUSED\n", "CPU_FULL      1        w7     needs 9"}, []string{"1 workers"})
	})
	t.Run("problems_whole", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("what went wrong ", 9) + "and what to do"
		text := operator.StatusTable(rota.ClusterStatus{Nodes: []rota.NodeStatus{{ID: "n1", Problems: []string{long}}}},
			true)
		has(t, text, []string{"n1: " + long}, []string{strings.Repeat("0", 32)})
	})
	t.Run("certificates_that_end", func(t *testing.T) {
		t.Parallel()
		now := rota.DateOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		node := func(id rota.NodeID, in time.Duration) rota.NodeStatus {
			return rota.NodeStatus{ID: id, CertificateEnds: rota.DateOf(now.Time().Add(in))}
		}
		text := operator.ProblemsText(rota.ClusterStatus{Date: now,
			Nodes: []rota.NodeStatus{node("n1", 13*24*time.Hour), node("n2", 15*24*time.Hour),
				node("n3", -time.Hour), {ID: "n4"}}})
		has(t, text, []string{"n1: its certificate ends 2026-01-14", "n3: its certificate ends",
			"RotaCertificateEnds.md"}, []string{"n2", "n4"})
	})
	t.Run("verdict_on_a_silent_node", func(t *testing.T) {
		t.Parallel()
		v := rota.Verdict{Nodes: []rota.NodeVerdict{{ID: "n1", Error: "no connection"},
			{ID: "n2", Digest: rota.Digest{Hi: 1}}, {ID: "n3", Digest: rota.Digest{Hi: 1}}}}
		has(t, operator.VerdictTable(v), []string{"n1: no connection"}, []string{strings.Repeat("0", 32)})
		if err := cli.VerdictError(v); cli.ExitCode(err) != cli.ExitFailed || strings.Contains(err.Error(), "equal") {
			t.Errorf("a silent node is reported as %v", err)
		}
		v.Nodes[2].Digest = rota.Digest{Hi: 2}
		if err := cli.VerdictError(v); err == nil || !strings.Contains(err.Error(), "not equal") {
			t.Errorf("digests that differ are reported as %v", err)
		}
	})
	t.Run("worker_without_figures", func(t *testing.T) {
		t.Parallel()
		has(t, worker.Table(rota.Worker{}, false), []string{"cpu milli        none"}, []string{"taken", "stake"})
		staked := rota.Worker{WorkerSpec: rota.WorkerSpec{Stake: 900}, AttestedStake: 70, Slashed: 7}
		has(t, worker.Table(staked, false), []string{"stake declared   900\n", "stake attested   70\n",
			"stake left       63\n"}, nil)
	})
	t.Run("policy_with_meaning", func(t *testing.T) {
		t.Parallel()
		for _, c := range [][3]string{{"lease_ms", "60000", "60000 (1m0s)"}, {"ttl_abs_ms", "0", "0 (no limit)"},
			{"renewals_max", "-1", "-1 (no limit)"}, {"reject_threshold_permille", "900", "900 (90.0 %)"},
			{"hold_after_ms", "0", "0 (at once)"}, {"ranking", "fifo", "fifo"}} {
			if got := queue.SettingText(rota.Setting{Key: c[0], Value: c[1]}); got != c[2] {
				t.Errorf("%s is shown as %q, want %q", c[0], got, c[2])
			}
		}
	})
	t.Run("lives_count_from_1", func(t *testing.T) {
		t.Parallel()
		text := job.Table(rota.Job{Life: 2, Retried: rota.Moment{Date: 1_700_000_000_000},
			Attempts: []rota.Attempt{{Worker: "w1"}, {Worker: "w2", Life: 2}}}, false)
		has(t, text, []string{"LIFE", "   1    1  w1", "   3    1  w2", "2×, last 2023-11-14"}, nil)
		has(t, job.Table(rota.Job{Attempts: []rota.Attempt{{Worker: "w1"}}}, false), []string{"TRY"},
			[]string{"LIFE", "retried"})
	})
	t.Run("change_of_nothing", func(t *testing.T) {
		t.Parallel()
		for _, line := range [][]string{{"job", "change", "j"}, {"job", "change", "j", "--label", "a"},
			{"job", "change", "j", "--priority", "11"}, {"job", "change", "j", "--ttl", "-1s"},
			{"job", "change", "j", "--start-by", "-1s"}, {"key", "skip", "order:7"}} {
			if code, _, talk := rotaLine(line...); code != cli.ExitUsage {
				t.Errorf("%v: exit %d, %s", line, code, talk)
			}
		}
	})
	t.Run("help_of_nothing", func(t *testing.T) {
		t.Parallel()
		for line, meant := range map[string]string{"help wrker": "worker", "help job shw": "show", "help job list": "",
			"help": ""} {
			code, shown, talk := rotaLine(strings.Fields(line)...)
			if meant == "" && (code != cli.ExitDone || !strings.Contains(shown, "Usage:")) ||
				meant != "" && (code != cli.ExitUsage || !strings.Contains(talk, "did you mean \""+meant)) {
				t.Errorf("%s: exit %d, %s", line, code, talk)
			}
		}
		if code, _, talk := rotaLine("help", "nope"); code != cli.ExitUsage || !strings.Contains(talk, `"nope"`) {
			t.Errorf("help nope: exit %d, %s", code, talk)
		}
	})
	t.Run("command_elsewhere", func(t *testing.T) {
		t.Parallel()
		for line, meant := range map[string]string{"why j": "rota job why?", "workflow why w/n": "rota job why?",
			"drain w":           "rota worker drain?",
			"worker --queues q": "rota worker run --queues?", "wrker": `"worker"`, "schedule lst": `"list"`,
			"job --nope": "unknown flag: --nope"} {
			code, _, talk := rotaLine(strings.Fields(line)...)
			if code != cli.ExitUsage || !strings.Contains(talk, meant) {
				t.Errorf("%s: exit %d, %s", line, code, talk)
			}
		}
	})
	t.Run("attempt_of_unknown_start", func(t *testing.T) {
		t.Parallel()
		text := cli.RenderList(job.AttemptColumns(&rota.Job{}),
			[]rota.Attempt{{Worker: "w1", End: rota.ReasonProofInvalid}}, false)
		has(t, text, []string{"PROOF_INVALID"}, []string{"+"})
	})
	t.Run("flags_without_strconv", func(t *testing.T) {
		t.Parallel()
		for _, line := range [][]string{{"job", "why", "j", "--at", "abc"}, {"job", "list", "--limit", "x"},
			{"cluster", "status", "--timeout", "soon"}, {"job", "list", "--state", "nope"}} {
			code, _, talk := rotaLine(line...)
			if code != cli.ExitUsage {
				t.Errorf("%v: exit %d", line, code)
			}
			has(t, talk, []string{"use "}, []string{"strconv", "invalid argument", "[", "NONE"})
		}
	})
	t.Run("public_key_does_not_sign", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		_, public, _ := rotaLine("worker", "attest", "--generate-key", filepath.Join(dir, "key.pem"))
		if keys, err := auth.ParsePublicKeys([]byte(public)); err != nil || len(keys) != 1 {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		if _, err := auth.ParseSigningKey([]byte(public)); err == nil {
			t.Error("a public key was accepted as a private one")
		}
	})
}

// A call without an answer ends, one with a sign of life continues.
func TestUntilSilent(t *testing.T) {
	t.Parallel()
	err := operator.UntilSilent(t.Context(), 1, func(ctx context.Context, _ func()) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if cli.ExitCode(err) != cli.ExitUnavailable {
		t.Errorf("a call without an answer ends with %v", err)
	}
	if err := operator.UntilSilent(t.Context(), time.Hour, func(_ context.Context, heard func()) error {
		heard()
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Events are JSON as a whole, name their subject, and leave no blanks at the end.
func TestEventPrinter(t *testing.T) {
	t.Parallel()
	events := []rota.ServedEvent{{Event: rota.Event{Kind: rota.EventQueueChanged, Queue: "images"}},
		{Event: rota.Event{Kind: rota.EventTenantChanged, Tenant: "acme"}},
		{Event: rota.Event{Kind: rota.EventJobEnqueued, Job: "j-<1>", Queue: "images"}}}
	show := func(format string, batch []rota.ServedEvent) string {
		var out bytes.Buffer
		p := operator.NewEventPrinter(format, &out, false)
		printed := func(yield func(rota.ServedEvent, error) bool) {
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
			}
		}
		if err := p.Print(printed, func() {}); err != nil {
			t.Fatal(err)
		}
		if err := p.End(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for n := range len(events) + 1 {
		var whole struct{ Events []rota.ServedEvent }
		if err := json.Unmarshal([]byte(show("json", events[:n])), &whole); err != nil || len(whole.Events) != n {
			t.Errorf("%d events come back as %d, %v", n, len(whole.Events), err)
		}
	}
	events = append(events, rota.ServedEvent{Event: rota.Event{Kind: rota.EventLeadershipBegan, Text: "n3"}},
		rota.ServedEvent{Event: rota.Event{Kind: rota.EventProviderRegistered, Worker: "w", Status: rota.WorkerActive,
			Date: 1_800_000_000_123}},
		rota.ServedEvent{Event: rota.Event{Kind: rota.EventJobAssigned, Job: "j", Worker: "w", Date: 1_800_000_000_123,
			Payload: `{"reasoning":{"rule":"SeededShuffle","worker_id":"w","position":1},"score":7}`}})
	text := show("table", events)
	for _, want := range []string{"queue images\n", "tenant acme\n", "j-<1>\n", "node n3\n",
		"rule=SeededShuffle position=1 score=7\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	// Each cell begins in its heading's column.
	lines := strings.Split(text, "\n")
	for _, c := range []struct {
		line       int
		head, cell string
	}{{5, "ABOUT", "worker w"}, {5, "DETAIL", "ACTIVE"}, {5, "DATE", "2027-"}, {6, "WORKER", "w "}, {6, "KIND",
		"jobAssigned"}, {6, "DETAIL", "rule="}} {
		if at := strings.Index(lines[0], c.head); at < 0 || at >= len(lines[c.line]) ||
			!strings.HasPrefix(lines[c.line][at:], c.cell) {
			t.Errorf("%q is not in the column of %s:\n%s", c.cell, c.head, text)
		}
	}
	if wide := show("wide", events); !strings.Contains(wide, `"worker_id":"w"`) {
		t.Errorf("-o wide lacks the payload:\n%s", wide)
	}
}
