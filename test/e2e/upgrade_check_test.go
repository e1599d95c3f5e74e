package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// upgradeFindings runs `operator upgrade check`, and returns what it found by check, node and result.
func upgradeFindings(t *testing.T, c *nodes, exit int, args ...string) (found map[string]string, report map[string]any) {
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

// wantFinding fails the test where a finding is missing or says something else.
func wantFinding(t *testing.T, found map[string]string, key, text string) {
	t.Helper()
	if said, there := found[key]; !there || !strings.Contains(said, text) {
		t.Errorf("%q does not say %q: %v", key, text, found)
	}
}

// TestUpgradeCheck asks a sound cluster, one with faults that were planted, and new binaries of which
// one is fine and others are not.
func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.leader(t)
	found, report := upgradeFindings(t, c, 0, "--to", rotaBinary)
	wantFinding(t, found, "members ok", "all 3 answer")
	wantFinding(t, found, "quorum ok", "3 voters")
	wantFinding(t, found, "rules ok", "version 1 is in force")
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
	other, _ := upgradeFindings(t, c, 1, "--to", binary("other", `echo '{"version":"0.1.0","formats":{"draft":1,"rules_version":1,"node":1,"snapshot":1,"history":1}}'`))
	wantFinding(t, other, "formats n1 blocked", "draft 1")
	old, _ := upgradeFindings(t, c, 1, "--to", binary("old", `echo '{"version":"0.1.0"}'`))
	wantFinding(t, old, "formats blocked", "does not say which formats")
	for _, bad := range []string{binary("bad", "echo no such command >&2; exit 2"), binary("mute", "true"), filepath.Join(t.TempDir(), "none")} {
		contains(t, "the refusal", c.rota(t, "operator", "upgrade", "check", "--to", bad).want(t, 1).stderr, bad, "a rota binary")
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

// TestUpgradeCheck_few: one node or two cannot be upgraded without a pause, and nobody to ask is
// another exit status.
func TestUpgradeCheck_few(t *testing.T) {
	t.Parallel()
	one, _ := upgradeFindings(t, newCluster(t, 1), 1)
	wantFinding(t, one, "quorum blocked", "with one of 1 voter down no majority is left")
	two, _ := upgradeFindings(t, newCluster(t, 2), 1)
	wantFinding(t, two, "quorum blocked", "with one of 2 voters down no majority is left")
	command(t, nil, "", "operator", "upgrade", "check", "--addr", freeAddress(t)).want(t, 7)
}
