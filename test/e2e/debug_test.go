package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// debugFiles reads an archive of `operator debug`: its files by name, and its manifest. Files that are compressed
// again, as profiles are, are decompressed.
func debugFiles(t *testing.T, path string) (files map[string]string, missing map[string]string) {
	t.Helper()
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	check(t, err)
	files, missing = make(map[string]string), make(map[string]string)
	for from := tar.NewReader(plain); ; {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		text, err := io.ReadAll(from)
		check(t, err)
		if inner, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(inner)
			check(t, err)
		}
		_, name, _ := strings.Cut(head.Name, "/")
		files[name] = string(text)
	}
	var list struct{ Missing []struct{ Name, Why string } }
	check(t, json.Unmarshal([]byte(files["MANIFEST"]), &list))
	for _, m := range list.Missing {
		missing[m.Name] = m.Why
	}
	return files, missing
}

// TestOperatorDebug collects from a cluster of three with one node down, and looks for planted data: secrets, which
// must never be in an archive, and payloads, which are in it only with --payloads.
func TestOperatorDebug(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const gossipKey, payload, failure = "planted-gossip-key-0123456789abc", "planted-payload", "planted-failure"
	key := writeFile(t, filepath.Join(dir, "gossip.key"), gossipKey)
	c := newCluster(t, 3, "--gossip-key-file", key)
	c.all[0].stop(t, 15*time.Second)
	c.all[0].Flags = append(c.all[0].Flags, "--pprof")
	c.all[0].start(t)
	c.awaitReady()
	c.rota(t, "queue", "set", "default", "--set", "attempt_max=1").want(t, 0)
	worker := c.worker(t, "--queues", "default", "--exec", "echo "+failure+" >&2; exit 1")
	c.rota(t, "job", "submit", "--type", "t", "--id", "shown", "--payload", payload).want(t, 0)
	eventually(t, 20*time.Second, "the job has failed", func() error {
		if said := c.rota(t, "job", "show", "shown", "-o", "json").stdout; !strings.Contains(said, `"DEAD"`) {
			return errors.New(said)
		}
		return nil
	})
	worker.stop(t, 15*time.Second)
	token := strings.TrimSpace(command(t, nil, "", "auth", "init", "--data", c.all[0].Dir).want(t, 0).stdout)
	_, secret, _ := strings.Cut(strings.TrimPrefix(token, "rota_"), "_")
	tokenFile := writeFile(t, filepath.Join(dir, "token"), token)
	const pem, password = "planted-pem", "planted-password"
	log := writeFile(t, filepath.Join(dir, "rota.log"), strings.Repeat("a line of a log\n",
		300_000)+c.all[0].Stderr.String()+"level=WARN msg=odd token="+token+
		" gossip_key="+gossipKey+"\n-----BEGIN PRIVATE KEY-----\n"+pem+"\n-----END PRIVATE KEY-----\nto=postgres://u:"+
		password+"@db/x\nthe last line\n")
	settings := writeFile(t, filepath.Join(dir, "server.yaml"),
		"node: n1\nbootstrap-expect: 3\ngossip-key-file: "+gossipKey+"\ntoken-file: "+tokenFile+
			"\ntls-key: "+password+"\nmine: "+password+"\n")
	down := c.all[2]
	down.Kill()
	args := []string{"operator", "debug", "--token-file", tokenFile, "--interval", "1s", "--log", log,
		"--server-config", settings, "--data", c.all[0].Dir, "-o", "json"}
	for _, n := range c.all {
		args = append(args, "--admin", n.Admin)
	}
	planted := map[string]string{"the token": secret, "the gossip key": gossipKey, "a private key": pem,
		"a password": password}
	users := map[string]string{"a payload": payload, "a handler's error": failure}
	collect := func(name string, more ...string) (map[string]string, map[string]string) {
		out := filepath.Join(dir, name)
		c.rota(t, append(append(slices.Clone(args), "--out", out), more...)...).want(t, 0)
		if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", out, info.Mode(), err)
		}
		files, missing := debugFiles(t, out)
		for what, text := range planted {
			for file, holds := range files {
				if strings.Contains(holds, text) {
					t.Errorf("%s: %s has %s", name, file, what)
				}
			}
		}
		return files, missing
	}

	files, missing := collect("plain.tar.gz")
	at := func(n *node) string { return "admin/" + strings.ReplaceAll(n.Admin, ":", "_") + "/" }
	for name, part := range map[string]string{
		"version.json": `"version"`, "status.json": `"leader"`, "nodes/n1/status.json": `"cluster_id"`,
		"nodes/n2/peers.json": `"voter": true`, "queues.json": `"default"`,
		at(c.all[0]) + "metrics-1.txt": "rota_raft_commit_index",
		at(c.all[0]) + "metrics-2.txt": "rota_raft_commit_index", at(c.all[1]) + "readyz.txt": "ready",
		at(c.all[0]) + "heap.pprof": "", at(c.all[0]) + "cpu.pprof": "",
		at(c.all[0]) + "goroutines.txt": "goroutine 1 [", "events.jsonl": `"jobDead"`,
		"settings.json": `"bootstrap-expect": "3"`, "node.json": `"node": "n1"`, "data.json": `"raft.db"`,
		"logs/1-rota.log": "the last line",
	} {
		if text, there := files[name]; !there || !strings.Contains(text, part) {
			t.Errorf("%s lacks %q: %s", name, part, clip(text))
		}
	}
	for what, text := range users {
		for file, holds := range files {
			if strings.Contains(holds, text) {
				t.Errorf("%s has %s", file, what)
			}
		}
	}
	for name, part := range map[string]string{at(down): "refused", "nodes/" + down.ID + "/status.json": "",
		at(c.all[1]) + "heap.pprof": "--pprof"} {
		if why, there := missing[name]; !there && missing["nodes/"+down.ID+"/"] == "" || !strings.Contains(why, part) {
			t.Errorf("the manifest does not explain why %s is missing: %q", name, why)
		}
	}
	whole, _ := collect("payloads.tar.gz", "--payloads")
	if !strings.Contains(whole["events.jsonl"], failure) {
		t.Errorf("with --payloads the events do not explain why the job failed: %s", clip(whole["events.jsonl"]))
	}
	small, cut := collect("small.tar.gz", "--max-bytes", "1048576")
	bytes := 0
	for _, text := range small {
		bytes += len(text)
	}
	if bytes > 1<<20 || !strings.Contains(small["logs/1-rota.log"], "the last line") ||
		!strings.Contains(small["MANIFEST"], `"cut"`) {
		t.Errorf("%d bytes, missing %v", bytes, cut)
	}
	_, running := collect("running.tar.gz", "--audit")
	contains(t, "why there is no audit of a node that runs", running["audit.json"], "snapshot save")
	down.start(t)
	down.awaitReady(t)
	c.all[0].stop(t, 15*time.Second)
	audited, _ := collect("stopped.tar.gz", "--audit")
	contains(t, "the audit", audited["audit.json"], `"proved"`, `"first_difference": null`)
	for what, text := range users {
		if strings.Contains(audited["audit.json"], text) {
			t.Errorf("the audit has %s", what)
		}
	}
	refused := c.rota(t, append(args, "--out", filepath.Join(dir, "small.tar.gz"))...).want(t, 1)
	contains(t, "the refusal", refused.stderr, "is there already")
}

// TestOperatorDebug_silent: if no node answers and none is named there is no archive.
func TestOperatorDebug_silent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := freeAddress(t)
	command(t, nil, "", "operator", "debug", "--addr", addr, "--admin", addr, "--interval", "1s", "--out",
		filepath.Join(dir, "x.tar.gz")).want(t, 7)
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("it left %v, %v", names, err)
	}
}
