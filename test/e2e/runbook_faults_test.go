package e2e

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// runbookEnv returns the environment of a page's commands: rota is in the path, plus the given variables.
func runbookEnv(t *testing.T, given ...string) []string {
	t.Helper()
	bin := t.TempDir()
	check(t, os.Symlink(rotaBinary, filepath.Join(bin, "rota")))
	return append(rig.Bare(given...), "PATH="+bin+":"+os.Getenv("PATH"))
}

// runbook reads a page, and skips the test if a tool of its commands is missing.
func runbook(t *testing.T, name string, tools ...string) string {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the commands of %s are left out: %v", name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbooks", name+".md"))
	check(t, err)
	return string(text)
}

// TestCertificateRunbook lets all certificates of a cluster expire, compares the effects with the page, and lets its
// commands bring the cluster back; then it lets them replace the authority.
func TestCertificateRunbook(t *testing.T) {
	t.Parallel()
	page := runbook(t, "CertificatesEnded", "bash", "openssl")
	commands, outputs := blocks(page, "sh"), blocks(page, "text")
	if len(commands) != 5 || len(outputs) != 3 {
		t.Fatalf("the page has %d commands and %d outputs, want five and three", len(commands), len(outputs))
	}
	authority, fresh := newAuthority(t), t.TempDir()
	in := func(name string) string { return filepath.Join(authority.dir, name) }
	c := &nodes{t: t}
	var certs []string
	for _, id := range []string{"n1", "n2", "n3"} {
		c.all = append(c.all, newNode(t, id, append(authority.flags(t, id), "--bootstrap-expect", "3")...))
		certs = append(certs, in(id+".pem"))
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	env := runbookEnv(t, c.env(), "ROTA_TLS_CA="+authority.file, "SECRETS="+authority.dir, "FRESH="+fresh,
		"NODES=n1 n2 n3", "CERTS="+strings.Join(append([]string{authority.file}, certs...), " "))
	if code, said := shell(t, env, "rota job submit --type t --id kept"); code != 0 {
		t.Fatal(said)
	}

	for _, n := range c.all {
		authority.shorten(t, n.ID, 15*time.Second)
		n.Signal(syscall.SIGHUP)
	}
	for _, n := range c.all {
		n.says(t, 10*time.Second, "certificate files were read again")
	}
	eventually(t, time.Minute, "no command gets through", func() error {
		code, said := shell(t, env, commands[0])
		if code != 7 || !shaped(outputs[0], said) {
			return fmt.Errorf("exit %d: %s", code, said)
		}
		return nil
	})
	down := c.all[2]
	down.stop(t, 30*time.Second)
	down.refused(t, "StartCertificate.md")
	if _, said := shell(t, env, commands[1]); !shaped(outputs[1], said) {
		t.Errorf("%s prints\n%s\nand the page\n%s", commands[1], said, outputs[1])
	}

	run := func(command string) {
		t.Helper()
		if code, said := shell(t, env, command); code != 0 {
			t.Fatalf("%s: exit %d\n%s", command, code, said)
		}
	}
	back := func() {
		t.Helper()
		eventually(t, time.Minute, "the cluster is back", func() error {
			code, said := shell(t, env, commands[3])
			if code != 0 || !shaped(outputs[2], said) {
				return fmt.Errorf("exit %d: %s", code, said)
			}
			return nil
		})
		eventually(t, time.Minute, "all nodes are well", func() error {
			if code, said := shell(t, env, "rota operator upgrade check"); code != 0 {
				return errors.New(said)
			}
			return nil
		})
		run("rota job show kept")
	}
	run(commands[2])
	down.start(t)
	back()
	run(commands[4])
	back()
	for _, n := range c.all {
		if !n.Running() {
			t.Errorf("%s has ended", n.ID)
		}
	}
}

// shorten issues a node's certificate once more, with the same key, to end soon.
func (a *authority) shorten(t *testing.T, id string, life time.Duration) {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(a.dir, name))
		check(t, err)
		block, _ := pem.Decode(text)
		if block == nil {
			t.Fatalf("%s is not PEM", name)
		}
		return block.Bytes
	}
	parent, err := x509.ParseCertificate(read("ca.pem"))
	check(t, err)
	key, err := x509.ParsePKCS8PrivateKey(read("ca.key"))
	check(t, err)
	leaf, err := x509.ParseCertificate(read(id + ".pem"))
	check(t, err)
	leaf.NotAfter = time.Now().Add(life)
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, leaf.PublicKey, key)
	check(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	check(t, os.Rename(writeFile(t, filepath.Join(a.dir, "aside"), text), filepath.Join(a.dir, id+".pem")))
}

// TestClockRunbook has a node whose wall clock is seconds ahead, and compares the effects with the page: in the node's
// health, by its command, and gone without a restart once the clock is right.
func TestClockRunbook(t *testing.T) {
	t.Parallel()
	page := runbook(t, "RotaClockOff", "bash", "curl", "grep")
	commands := blocks(page, "sh")
	if len(commands) != 1 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	binary, err := rig.Build(t.TempDir(), "-tags", "testclock")
	check(t, err)
	c := &nodes{t: t}
	clock := filepath.Join(t.TempDir(), "clock")
	var admins []string
	for i := range 3 {
		n := newNode(t, fmt.Sprintf("n%d", i+1), "--bootstrap-expect", "3")
		n.Line = []string{binary}
		c.all, admins = append(c.all, n), append(admins, n.Admin)
	}
	off := c.all[2]
	off.Env = rig.Bare("ROTA_TEST_CLOCK=" + clock)
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	check(t, os.WriteFile(clock, []byte("5000 0 0\n"), 0o600)) // ahead by this many milliseconds
	env := runbookEnv(t, c.env(), "ADMINS="+strings.Join(admins, " "))
	eventually(t, 30*time.Second, "the node reports that its clock is off", func() error {
		said := c.rota(t, "cluster", "status").stdout
		if !strings.Contains(said, off.ID+": wall clock is ") ||
			!strings.Contains(said, "off the median of the voters: synchronise it") {
			return errors.New(said)
		}
		return nil
	})
	_, said := shell(t, env, commands[0])
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		skew, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil || len(fields) != 3 {
			t.Fatalf("%s prints %q", commands[0], line)
		}
		if isOff := skew > 0.5 || skew < -0.5; isOff != (fields[0] == off.Admin) {
			t.Errorf("%s is off by %v s", fields[0], skew)
		}
	}
	found, _ := upgradeFindings(t, c, 1)
	wantFinding(t, found, "clocks "+off.ID+" blocked", "off the voters' median")
	check(t, os.Remove(clock))
	eventually(t, 30*time.Second, "the clock is right again", func() error {
		if r := c.rota(t, "operator", "upgrade", "check"); r.code != 0 {
			return errors.New(r.stdout)
		}
		return nil
	})
}
