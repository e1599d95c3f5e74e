package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// refusedStart is a node that does not start.
type refusedStart struct {
	// settings are its flags, data its directory.
	settings []string
	data     string
	// env are the additional variables of its page.
	env []string
	// before comes before its command line.
	before string
}

// startTroubles cause the trouble of each page of docs/runbooks on a node that was started once and has ended.
var startTroubles = map[string]func(*testing.T, *node, *refusedStart){
	"StartDataInUse": func(t *testing.T, n *node, r *refusedStart) {
		n.start(t)
		n.awaitReady(t)
		others, err := rig.FreeAddrs()
		check(t, err)
		r.settings = append(r.settings, "--api", others.API, "--raft", others.Raft, "--admin", others.Admin, "--gossip",
			others.Gossip)
	},
	"StartOtherNode": func(_ *testing.T, _ *node, r *refusedStart) { r.settings = append(r.settings, "--node", "n9") },
	"StartCopiedData": func(t *testing.T, n *node, r *refusedStart) {
		copyTree(t, n.Dir, n.Dir+"-copy")
		r.data = n.Dir + "-copy"
		r.settings = append(r.settings, "--data", r.data)
	},
	"StartOldData": func(t *testing.T, n *node, _ *refusedStart) {
		old := n.Dir + "-old"
		copyTree(t, n.Dir, old)
		n.start(t)
		n.awaitReady(t)
		n.stop(t, 15*time.Second)
		for _, name := range []string{"raft.db", "log"} { // in place
			check(t, os.RemoveAll(filepath.Join(n.Dir, name)))
			check(t, os.Rename(filepath.Join(old, name), filepath.Join(n.Dir, name)))
		}
	},
	"StartDamagedData": func(t *testing.T, n *node, _ *refusedStart) {
		check(t, os.Truncate(filepath.Join(n.Dir, "raft.db"), 1000))
	},
	"StartDamagedHistory": func(t *testing.T, n *node, _ *refusedStart) {
		check(t, os.Truncate(filepath.Join(n.Dir, "archive.db"), 1000))
	},
	"StartOtherFormat": func(t *testing.T, n *node, _ *refusedStart) {
		rewrite(t, n, func(text string) string { return anyFormat.ReplaceAllString(text, `"format": 9`) })
	},
	"StartRecoveryUnfinished": func(t *testing.T, n *node, _ *refusedStart) {
		// A recovery whose note, which is removed last, is still there.
		if code, said := shell(t, rig.Bare(), rotaBinary+" operator recover --data "+n.Dir+
			" --yes-lose-quorum"); code != 0 {
			t.Fatal(said)
		}
		rewrite(t, n, func(text string) string {
			const note = "  \"recovery\": {\n    \"aside\": \"before-recovery-1\",\n    \"placing\": true\n  },\n  \"sum\""
			return resummed(t, strings.Replace(text, "  \"sum\"", note, 1))
		})
	},
	"StartDiskFull": func(t *testing.T, n *node, r *refusedStart) {
		disk := smallDisk(t, "8m")
		other := fill(t, filepath.Join(disk, "other"))
		r.data = disk
		r.settings = append(r.settings, "--data", disk)
		r.env = append(r.env, "OTHER="+other)
	},
	"StartPortTaken": func(t *testing.T, _ *node, r *refusedStart) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		t.Cleanup(func() { _ = taken.Close() })
		_, port, err := net.SplitHostPort(taken.Addr().String())
		check(t, err)
		r.settings = append(r.settings, "--admin", taken.Addr().String())
		r.env = append(r.env, "PORT="+port)
	},
	"StartOpenFiles": func(_ *testing.T, _ *node, r *refusedStart) { r.before = "ulimit -n 300; " },
	"StartSecretOpen": func(t *testing.T, _ *node, r *refusedStart) {
		dir := certified(t, r)
		check(t, os.Chmod(filepath.Join(dir, "n1.key"), 0o644))
	},
	"StartCertificate": func(t *testing.T, _ *node, r *refusedStart) {
		dir := certified(t, r)
		for _, end := range []string{".pem", ".key"} {
			other, err := os.ReadFile(filepath.Join(dir, "n9"+end))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(dir, "n1"+end), other, 0o600))
		}
		r.env = append(r.env, "NODE=n1")
	},
	"StartExposed": func(_ *testing.T, _ *node, r *refusedStart) {
		r.settings = append(r.settings, "--api", "0.0.0.0:0")
	},
	"StartAlone": func(t *testing.T, n *node, r *refusedStart) {
		// As a node whose first start waited without success, and the lost flags.
		r.data = n.Dir + "-fresh"
		r.settings = append(r.settings, "--data", r.data, "--bootstrap-expect", "0")
	},
	"StartSettings": func(_ *testing.T, _ *node, r *refusedStart) {
		r.settings = append(r.settings, "--cluster", "a_b!", "--join", "nowhere")
	},
	"StartKnownId": func(t *testing.T, _ *node, r *refusedStart) {
		c := newCluster(t, 3)
		n := c.followers(t)[0]
		n.Kill()
		check(t, os.RemoveAll(n.Dir))
		r.settings, r.data = n.Args(), n.Dir
		r.env = append(r.env, c.env())
		r.env = append(r.env, "NODE="+n.ID)
	},
}

// certified gives the node certificates, and returns their directory, which has another node's too.
func certified(t *testing.T, r *refusedStart) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"tls", "ca", "--dir", dir}, {"tls", "issue", "node", "n1", "--dir", dir},
		{"tls", "issue", "node", "n9", "--dir", dir}} {
		if said, err := exec.Command(rotaBinary, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, said)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	r.settings = append(r.settings, "--tls-cert", in("n1.pem"), "--tls-key", in("n1.key"), "--node-ca", in("ca.pem"))
	r.env = append(r.env, "CERT="+in("n1.pem"), "KEY="+in("n1.key"), "SECRETS="+dir)
	return dir
}

// rewrite changes node.json.
func rewrite(t *testing.T, n *node, change func(string) string) {
	t.Helper()
	path := filepath.Join(n.Dir, "node.json")
	whole, err := os.ReadFile(path)
	check(t, err)
	if change(string(whole)) == string(whole) {
		t.Fatalf("%s is not changed: %s", path, whole)
	}
	check(t, os.WriteFile(path, []byte(change(string(whole))), 0o600))
}

// anyFormat is the format in a node.json.
var anyFormat = regexp.MustCompile(`"format": \d+`)

// resummed returns a node.json with its checksum, which docs/reference/formats.md describes.
func resummed(t *testing.T, text string) string {
	t.Helper()
	var compact bytes.Buffer
	check(t, json.Compact(&compact, []byte(text)))
	front, old, _ := strings.Cut(compact.String(), `,"sum":"`)
	sum := fmt.Sprintf("%08x", crc32.Checksum([]byte(front+"}"), crc32.MakeTable(crc32.Castagnoli)))
	return strings.Replace(text, strings.TrimSuffix(old, `"}`), sum, 1)
}

// TestStartRunbooks causes the trouble of each page about a refused start, and compares the node's message and status
// with the page, the message of --check with the same and the directory with its earlier state, the output of the
// page's command with the page, and checks that its remedy helps.
func TestStartRunbooks(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "grep", "ps", "ss", "openssl", "df"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the runbooks of refusals to start are left out: %v", err)
		}
	}
	pages, err := filepath.Glob("../../docs/runbooks/Start*.md")
	check(t, err)
	if len(pages) != len(startTroubles) {
		t.Errorf("%d pages and %d faults", len(pages), len(startTroubles))
	}
	bin := t.TempDir()
	check(t, os.Symlink(rotaBinary, filepath.Join(bin, "rota")))
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trouble := startTroubles[name]
			if trouble == nil {
				t.Fatalf("no test causes the fault of %s", path)
			}
			text, err := os.ReadFile(path)
			check(t, err)
			holdStartPage(t, name, string(text), bin, trouble)
		})
	}
}

// holdStartPage is TestStartRunbooks for one page.
func holdStartPage(t *testing.T, name, page, bin string, trouble func(*testing.T, *node, *refusedStart)) {
	commands, outputs := blocks(page, "sh"), blocks(page, "text")
	if len(outputs) != 2 || len(commands) < 1 || len(commands) > 2 {
		t.Fatalf("got %d outputs and %d commands, want two and one or two", len(outputs), len(commands))
	}
	n := newNode(t, "n1", "--bootstrap-expect", "1")
	n.start(t)
	n.awaitReady(t)
	n.stop(t, 15*time.Second)
	r := &refusedStart{data: n.Dir, settings: n.Args()}
	trouble(t, n, r)
	settings := strings.TrimPrefix(strings.Join(r.settings, " "), "server ")
	env := append(rig.Bare(append(r.env, "SETTINGS="+settings, "DATA="+r.data)...), "PATH="+bin+":"+os.Getenv("PATH"))
	code, said := shell(t, env, r.before+"rota server $SETTINGS")
	at := strings.LastIndex("\n"+said, "\nrota: ")
	if at < 0 {
		t.Fatalf("it ended with %d and printed\n%s", code, said)
	}
	last, _, _ := strings.Cut(said[at:], "\n")
	if !strings.Contains(page, fmt.Sprintf("exit status %d ", code)) || !shaped(outputs[0], last) {
		t.Errorf("it ended with %d and printed\n%s\nand the page\n%s", code, last, outputs[0])
	}
	contains(t, "the refusal", last, "(runbook: https://github.com/rotasched/rota/blob/main/docs/runbooks/"+name+".md)")
	if name != "StartKnownId" && name != "StartDataInUse" { // other nodes know it, or it is not a fault
		before := digestOf(t, r.data)
		checkedCode, checked := shell(t, env, r.before+"rota server $SETTINGS --check")
		if checkedCode != code || !strings.Contains(checked, "/"+name+".md)") {
			t.Errorf("--check ended with %d and printed\n%s", checkedCode, checked)
		}
		if after := digestOf(t, r.data); after != before {
			t.Errorf("--check changed\n%s\nto\n%s", before, after)
		}
	}
	if _, said := shell(t, env, r.before+commands[0]); !shaped(outputs[1], said) {
		t.Errorf("%s prints\n%s\nand the page\n%s", commands[0], said, outputs[1])
	}
	if len(commands) == 1 {
		return
	}
	if code, said := shell(t, env, commands[1]); code != 0 {
		t.Fatalf("%s: exit %d\n%s", commands[1], code, said)
	}
	if name == "StartDataInUse" {
		n.end(t, 15*time.Second)
	}
	if name != "StartCopiedData" && name != "StartKnownId" { // their remedies change nothing here
		if code, said := shell(t, env, "rota server $SETTINGS --check"); code != 0 {
			t.Errorf("after %s --check ends with %d and prints\n%s", commands[1], code, said)
		}
	}
}

// shell runs a command of a page.
func shell(t *testing.T, env []string, command string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Env = env
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// digestOf returns the names in a directory with sizes, times of change and checksums.
func digestOf(t *testing.T, dir string) string {
	t.Helper()
	_, said := shell(t, rig.Bare(), "cd "+dir+
		" && find . -printf '%p %m %s %T@ %i\\n' | sort && find . -type f -exec sha256sum {} + | sort")
	if said == "" {
		t.Fatalf("no sign of %s", dir)
	}
	return said
}
