package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cron"
)

// checks runs `rota server --check` in this process.
func checks(t *testing.T, args ...string) (code int, said, talk string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"server", "--check", "--dumpable", "--disk-low", "0", "--disk-critical", "0", "--api",
		"127.0.0.1:0", "--raft", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--gossip", "127.0.0.1:0"}, args...)
	code = run(args, nil, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// summed returns the names of a directory with the hashes of their contents.
func summed(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			all += path + "\n"
			return err
		}
		text, err := os.ReadFile(path)
		all += fmt.Sprintf("%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestServerCheck prints all faults at once, each on its line, exits as a start would, and changes no file.
func TestServerCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"tls", "ca", "--dir", dir}, {"tls", "issue", "node", "n1", "--dir", dir}} {
		if code := run(args, nil, strings.NewReader(""), io.Discard, io.Discard); code != 0 {
			t.Fatal(args, code)
		}
	}
	in := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, open, short := in("gossip.key", "0123456789abcdef", 0o600), in("open.key", "0123456789abcdef",
		0o644), in("short.key", "0123", 0o600)
	wrong := in("wrong.yaml", "bootstrap-expect: 77\nnod: n1\nsnapshot-every: x\n", 0o600)
	late := in("late.yaml", "snapshot-every: 1ms\n", 0o600)
	data := filepath.Join(dir, "data")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	certificates := []string{"--tls-cert", filepath.Join(dir, "n1.pem"), "--tls-key", filepath.Join(dir, "n1.key"),
		"--node-ca", filepath.Join(dir, "ca.pem")}
	before := summed(t, dir)
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // one per line of stderr
	}{
		{"all is well", []string{"--node", "n1", "--data", data, "--bootstrap-expect", "1"}, 0, nil},
		{"with certificates and a key", append([]string{"--node", "n1", "--data", data, "--bootstrap-expect", "1",
			"--gossip-key-file", key}, certificates...), 0, nil},
		{"nothing given", nil, 2, []string{"--node is missing", "--data is missing"}},
		{"a fresh node alone", []string{"--node", "n1", "--data", data}, 1,
			[]string{"neither --bootstrap-expect nor --join"}},
		{"flags, files, settings, addresses and data together",
			[]string{"--node", "n1", "--data", key, "--cluster", "a b", "--bootstrap-expect", "1",
				"--gossip-key-file", open, "--tls-cert", "none.pem", "--tls-key", "none.key", "--node-ca", key,
				"--client-ca", "none.ca",
				"--join", "x", "--config", late, "--admin", taken.Addr().String(), "--log-level", "loud"}, 2,
			[]string{"--snapshot-every", `"loud"`, "--cluster", `--join: got "x"`, "none.pem",
				key + " has no certificate", "none.ca", "chmod 600 " + open, key + " is not a directory",
				"--admin " + taken.Addr().String()}},
		{"beyond loopback", []string{"--node", "n1", "--data", data, "--bootstrap-expect", "1", "--api", "0.0.0.0:0",
			"--gossip-key-file", short}, 1, []string{"--api 0.0.0.0:0 is no loopback", short + ": line 1: got"}},
		{"the config file", []string{"--config", wrong}, 2, []string{"unknown keys: nod", "bootstrap-expect",
			"snapshot-every", "--node is missing", "--data is missing"}},
		{"backups that no place takes", []string{"--node", "n1", "--data", data, "--bootstrap-expect", "1",
			"--backup-to", filepath.Join(dir, "absent"),
			"--backup-recipient", "nonsense"}, 1, []string{`backup-recipient: got "nonsense"`,
			"make the directory first"}},
		{"an endpoint that is none", []string{"--node", "n1", "--data", data, "--bootstrap-expect", "1",
			"--backup-endpoint", "http://s3.example.org"}, 1,
			[]string{"by https:// only"}},
		{"another node's certificate", append([]string{"--node", "n2", "--data", data, "--bootstrap-expect", "1"},
			certificates...), 1, []string{"it is node n1's, this is node n2"}},
	} {
		code, said, talk := checks(t, c.args...)
		zones := fmt.Sprintf("time zone data: release %s of %s\n", cron.Release, cron.Embedded().Released())
		lines := strings.Split(strings.TrimSuffix(talk, "\n"), "\n")
		if talk == "" {
			lines = nil
		}
		if code != c.code || len(lines) != len(c.want) || (code == 0) != (said == "node n1 of cluster rota can start: "+
			data+" will be made\n"+zones) {
			t.Errorf("%s: exit %d, %q and %d lines:\n%s", c.name, code, said, len(lines), talk)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], "rota: ") || !strings.Contains(lines[i], want) {
				t.Errorf("%s: line %d is %q, want %q", c.name, i, lines[i], want)
			}
		}
	}
	if after := summed(t, dir); after != before {
		t.Errorf("the directory was\n%s\nand is\n%s", before, after)
	}
	if _, said, _ := checks(t, "--node", "n1", "--data", data, "--bootstrap-expect", "1", "-o",
		"jsonl"); said != `{"node":"n1","cluster":"rota","data":"`+data+
		`","last_index":0,"snapshot_index":0,"tzdata":"`+cron.Release+`","tzdata_released_ms":`+
		fmt.Sprint(int64(cron.Embedded().Released()))+"}\n" {
		t.Errorf("as JSON: %s", said)
	}
}
