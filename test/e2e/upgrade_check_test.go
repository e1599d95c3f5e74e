package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// upgradeFindings runs `operator upgrade check`, and returns its findings by check, node and result.
func upgradeFindings(t *testing.T, c *nodes, exit int,
	args ...string) (found map[string]string, report map[string]any) {
	t.Helper()
	said := c.rota(t, append([]string{"operator", "upgrade", "check", "-o", "json"}, args...)...).want(t, exit)
	check(t, json.Unmarshal([]byte(said.stdout), &report))
	if report["ready"] != (exit == 0) {
		t.Errorf("exit %d and ready %v", exit, report["ready"])
	}
	found = make(map[string]string)
	for _, one := range list(t, report, "findings") {
		node, _ := one["node"].(string)
		found[strings.TrimSpace(one["check"].(string)+" "+node)+" "+one["result"].(string)] = one["text"].(string)
	}
	return found, report
}

// wantFinding fails the test if a finding is missing or has another text.
func wantFinding(t *testing.T, found map[string]string, key, text string) {
	t.Helper()
	if said, there := found[key]; !there || !strings.Contains(said, text) {
		t.Errorf("%q does not contain %q: %v", key, text, found)
	}
}

// TestUpgradeCheck checks a sound cluster, one with planted faults, and new binaries, one of which is fine and others
// are not.
func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.leader(t)
	formats := object(t, command(t, nil, "", "version", "-o", "json").want(t, 0))["formats"].(map[string]any)
	newest := formats["rules_version"]
	eventually(t, 20*time.Second, "the newest rules are in force", func() error {
		if in := object(t, c.rota(t, "cluster", "status", "-o", "json").want(t, 0))["rules_version"]; in != newest {
			return fmt.Errorf("version %v is in force, known is %v", in, newest)
		}
		return nil
	})
	found, report := upgradeFindings(t, c, 0, "--to", rotaBinary)
	wantFinding(t, found, "members ok", "all 3 answer")
	wantFinding(t, found, "quorum ok", "3 voters")
	wantFinding(t, found, "rules ok", fmt.Sprintf("version %v is in force", newest))
	wantFinding(t, found, "backup warning", "no backup")
	wantFinding(t, found, "formats ok", "reads what the nodes write")
	order := list(t, report, "nodes")
	if last := order[len(order)-1]; len(order) != 3 || last["id"] != leader.ID || last["leader"] != true {
		t.Errorf("the leader %s is not last: %v", leader.ID, order)
	}
	table := c.rota(t, "operator", "upgrade", "check").want(t, 0)
	contains(t, "the table", table.stdout, "CHECK", "what to do", "backup: rota operator backup now", "ORDER")

	binary := func(name, says string) string {
		path := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+says+"\n"), 0o700))
		return path
	}
	formats["snapshot"] = 0
	olderSnapshots, err := json.Marshal(map[string]any{"version": "0.1.0", "formats": formats})
	check(t, err)
	other, _ := upgradeFindings(t, c, 1, "--to", binary("other", "echo '"+string(olderSnapshots)+"'"))
	wantFinding(t, other, "formats blocked", "snapshots and backups of format 1 are written")
	old, _ := upgradeFindings(t, c, 1, "--to", binary("old", `echo '{"version":"0.1.0"}'`))
	wantFinding(t, old, "formats blocked", "does not report which formats")
	for _, bad := range []string{binary("bad", "echo no such command >&2; exit 2"), binary("mute", "true"),
		filepath.Join(t.TempDir(), "none")} {
		contains(t, "the refusal", c.rota(t, "operator", "upgrade", "check", "--to", bad).want(t, 1).stderr, bad,
			"a rota binary")
	}

	c.rota(t, "mode", "set", "READ_ONLY", "--reason", "new rack").want(t, 0)
	down := c.followers(t)[0]
	down.Kill()
	broken, _ := upgradeFindings(t, c, 1)
	wantFinding(t, broken, "members "+down.ID+" blocked", "does not answer")
	wantFinding(t, broken, "quorum blocked", "none can be spared")
	wantFinding(t, broken, "mode warning", "READ_ONLY: new rack")
	down.start(t)
	down.awaitReady(t)
	eventually(t, 20*time.Second, "it is ready again", func() error {
		if r := c.rota(t, "operator", "upgrade", "check"); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
}

// TestUpgradeCheck_few: one node or two cannot be upgraded without a pause, and having no node to ask has a different
// exit status.
func TestUpgradeCheck_few(t *testing.T) {
	t.Parallel()
	one, _ := upgradeFindings(t, newCluster(t, 1), 1)
	wantFinding(t, one, "quorum blocked", "with one of 1 voter down no majority is left")
	two, _ := upgradeFindings(t, newCluster(t, 2), 1)
	wantFinding(t, two, "quorum blocked", "with one of 2 voters down no majority is left")
	command(t, nil, "", "operator", "upgrade", "check", "--addr", freeAddress(t)).want(t, 7)
}

// TestUpgradeCheck_rolls takes a cluster from one version to the next in the order that the check lists, and runs it
// before each step: it never blocks, and reports the finished steps.
func TestUpgradeCheck_rolls(t *testing.T) {
	t.Parallel()
	long(t)
	binary := func(version string) string {
		path, err := rig.Build(t.TempDir(), "-ldflags", "-X main.version="+version)
		check(t, err)
		return path
	}
	older, newer := binary("0.3.1"), binary("0.5.0")
	c := &nodes{t: t}
	for i := range 3 {
		n := newNode(t, fmt.Sprintf("n%d", i+1), "--bootstrap-expect", "3")
		n.Line = []string{older}
		c.all = append(c.all, n)
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	c.leader(t)
	tooNew := writeFile(t, filepath.Join(t.TempDir(), "rota"),
		"#!/bin/sh\n"+older+" version -o json | sed s/0.3.1/0.6.0/\n")
	check(t, os.Chmod(tooNew, 0o700))
	far, _ := upgradeFindings(t, c, 1, "--to", tooNew)
	wantFinding(t, far, "versions n1 blocked", "0.3.1 to 0.6.0 is more than 2 minor versions")
	for done := range 4 {
		found, report := upgradeFindings(t, c, 0, "--to", newer)
		if mixed := found["versions warning"]; strings.Contains(mixed, "0.3.1 on ") != (done > 0 && done < 3) {
			t.Errorf("after %d nodes the versions are %v", done, found)
		}
		var next *node
		for i, one := range list(t, report, "nodes") {
			if one["done"] == true {
				done--
			} else if next == nil {
				next = c.byID(one["id"].(string))
				if one["leader"] == true && i != 2 {
					t.Errorf("the leader %s comes before others", next.ID)
				}
			}
		}
		if done != 0 {
			t.Fatalf("%d nodes more are called done: %v", -done, report["nodes"])
		}
		if next == nil {
			break
		}
		next.stop(t, 15*time.Second)
		next.Line = []string{newer}
		next.start(t)
		next.awaitReady(t)
		eventually(t, 20*time.Second, "nothing blocks the upgrade of the next", func() error {
			if r := c.rota(t, "operator", "upgrade", "check", "--to", newer); r.code != 0 {
				return errors.New(r.stdout)
			}
			return nil
		})
	}
}
