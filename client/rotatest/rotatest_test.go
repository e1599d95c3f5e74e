package rotatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
	"github.com/rotasched/rota/cluster/audit"
)

type mail struct {
	To string `json:"to"`
}

var welcome = client.Define[mail, string]("welcome")

// signUp is the code under test of a library user: it submits a mail.
func signUp(ctx context.Context, c *client.Client, name string) error {
	_, err := welcome.Submit(ctx, c, mail{name}, client.ID(rota.JobID("welcome-"+name)), client.Retry(3))
	return err
}

func send(_ context.Context, _ *client.Job, m mail) (string, error) { return "sent to " + m.To, nil }

// TestRun runs a job on three nodes, and kills the leader in the middle.
func TestRun(t *testing.T) {
	began := time.Now()
	rotatest.Run(t, func(c *rotatest.Cluster) {
		if err := signUp(c.Context(), c.Client(), "ann"); err != nil {
			t.Fatal(err)
		}
		rotatest.RequireSubmitted(c, welcome, func(m mail) bool { return m.To == "ann" })
		if _, err := rotatest.Work(c, welcome, func(context.Context, *client.Job, mail) (string, error) {
			return "", client.RetryAfter(time.Hour, errors.New("greylisted"))
		}); err == nil || !strings.Contains(err.Error(), "greylisted") {
			t.Fatalf("the first attempt: %v", err)
		}
		c.KillLeader()
		c.Restart()
		c.Advance(time.Hour)
		out, err := rotatest.Work(c, welcome, send)
		if err != nil || out != "sent to ann" {
			t.Fatalf("%q, %v", out, err)
		}
		job := rotatest.RequireSubmitted(c, welcome, nil)
		if job.State != rota.JobCompleted || len(job.Attempts) != 2 {
			t.Errorf("the job is %s after %d attempts", job.State, len(job.Attempts))
		}
	}, rotatest.Nodes(3))
	t.Logf("took %s", time.Since(began))
}

// TestRun_logs has handlers log in several clusters of one process, each in its own bubble.
func TestRun_logs(t *testing.T) {
	for range 2 {
		rotatest.Run(t, func(c *rotatest.Cluster) {
			if err := signUp(c.Context(), c.Client(), "ann"); err != nil {
				t.Fatal(err)
			}
			if _, err := rotatest.Work(c, welcome, func(_ context.Context, job *client.Job, m mail) (string, error) {
				fmt.Fprintln(job.Log(), "sending to", m.To)
				return "", nil
			}); err != nil {
				t.Fatal(err)
			}
			l, err := client.JobLog(c.Context(), c.Client(), rota.LogOf{Job: "welcome-ann"})
			if err != nil || len(l.Parts) != 1 || string(l.Parts[0].Text) != "sending to ann\n" {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// TestRun_three creates three nodes and runs a job; the time this takes is logged.
func TestRun_three(t *testing.T) {
	began := time.Now()
	rotatest.Run(t, func(c *rotatest.Cluster) {
		if err := signUp(c.Context(), c.Client(), "ann"); err != nil {
			t.Fatal(err)
		}
		if out, err := rotatest.Work(c, welcome, send); err != nil || out != "sent to ann" {
			t.Fatalf("%q, %v", out, err)
		}
	}, rotatest.Nodes(3))
	t.Logf("took %s", time.Since(began))
}

// TestRun_fails plants mistakes that a test may make: each ends the test with a message that describes it and gives the
// place of the entries.
func TestRun_fails(t *testing.T) {
	if what := os.Getenv("ROTATEST_FAILS"); what != "" {
		rotatest.Run(t, func(c *rotatest.Cluster) {
			switch what {
			case "submitted":
				_ = signUp(c.Context(), c.Client(), "ann")
				rotatest.RequireSubmitted(c, welcome, func(m mail) bool { return m.To == "bob" })
			case "work":
				_, _ = rotatest.Work(c, welcome, send)
			case "majority":
				c.KillLeader()
			}
		})
		return
	}
	for what, want := range map[string]string{
		"submitted": "no job of type welcome was submitted that matches; 1 others were",
		"work":      "no job of type welcome was due within 1m0s: there is none that has not ended",
		"majority":  "would leave 0 of 1 nodes",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRun_fails$", "-test.v")
		cmd.Env = append(os.Environ(), "ROTATEST_FAILS="+what, "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) ||
			!strings.Contains(string(out), "rota operator audit --data ") {
			t.Errorf("%s: %v\n%s", what, err, out)
			continue
		}
		kept := regexp.MustCompile(`--data (\S+?)[` + "`" + `\s]`).FindSubmatch(out)
		report, err := audit.Data(t.Context(), string(kept[1]), slog.New(slog.DiscardHandler))
		if err != nil || report.Difference != nil || what == "submitted" &&
			report.Entries == 0 { // the others may end before the first entry
			t.Errorf("%s: the entries in %s replay as %+v, %v", what, kept[1], report, err)
		}
	}
}
