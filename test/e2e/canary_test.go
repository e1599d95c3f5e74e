package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// canaries are secrets that no file but their own may contain, by description.
type canaries map[string][]byte

// find fails if a text contains one, in any of the encodings that texts use for secrets.
func (c canaries) find(t *testing.T, where string, text []byte) {
	t.Helper()
	for what, secret := range c {
		all := [][]byte{secret, []byte(hex.EncodeToString(secret))}
		for shift := range 3 { // base64 of the surrounding text
			part := secret[shift:]
			all = append(all, []byte(base64.RawStdEncoding.EncodeToString(part[:len(part)/3*3])))
		}
		for _, as := range all {
			if bytes.Contains(text, as) {
				t.Errorf("%s has %s, as %q", where, what, as)
			}
		}
	}
}

// seenByAll is not a secret: the search must find it, or it does not work.
var seenByAll = []byte("payload-that-everybody-may-see")

// findIn searches all files of a directory, including compressed data in them; it returns how many of either contain
// seenByAll.
func (c canaries) findIn(t *testing.T, dir string) (plainly, packed int) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		c.find(t, path, text)
		for rest := text; ; {
			at := bytes.Index(rest, []byte{0x28, 0xb5, 0x2f, 0xfd}) // a frame of zstd
			if at < 0 {
				break
			}
			plain := framed(rest[at:])
			c.find(t, fmt.Sprintf("%s, unpacked at %d,", path, len(text)-len(rest)+at), plain)
			if bytes.Contains(plain, seenByAll) {
				packed++
			}
			rest = rest[at+4:]
		}
		if bytes.Contains(text, seenByAll) {
			plainly++
		}
		return nil
	}))
	return plainly, packed
}

// framed returns the readable part of a frame; the bytes after it do not matter.
func framed(frame []byte) []byte {
	r, err := zstd.NewReader(bytes.NewReader(frame), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil
	}
	defer r.Close()
	plain, _ := io.ReadAll(io.LimitReader(r, 16<<20))
	return plain
}

// findInCommandLines searches the arguments of processes that the system shows.
func (c canaries) findInCommandLines(t *testing.T, processes ...*process) {
	t.Helper()
	for _, p := range processes {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
		if err != nil {
			t.Skipf("no /proc here: %v", err)
		}
		c.find(t, "the command line of "+p.Name, line)
	}
}

// TestCanaries: planted secrets are in no file of a data directory, in no backup, event, log or command line: neither
// after work nor after refusals, crashes, snapshots and archives.
func TestCanaries(t *testing.T) {
	t.Parallel()
	ca, files := newAuthority(t), t.TempDir()
	planted := canaries{
		"the gossip key":          []byte("canary-gossip-key-0123456789abcd"),
		"the worker's secret":     []byte("canary-worker-secret-0123456"),
		"the secret of takeovers": []byte("canary-takeover-secret-01234"),
		"an unknown token":        []byte("canaryunknowntoken234567canaryunknowntoken234567abcd"),
		"a foreign JWT":           []byte("eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOiJ5ZXMifQ.Y2FuYXJ5c2lnbmF0dXJl"),
	}
	file := func(name string, text []byte) string { return writeFile(t, filepath.Join(files, name), string(text)) }
	gossip := file("gossip.key", planted["the gossip key"])
	worker, old := file("worker.secret", planted["the worker's secret"]), file("takeover.secret",
		planted["the secret of takeovers"])
	unknown := file("unknown.token", append([]byte("rota_canarycanary_"), planted["an unknown token"]...))

	c := &nodes{t: t}
	for _, id := range []string{"n1", "n2", "n3"} {
		n := newNode(t, id, append(ca.flags(t, id), "--client-ca", ca.file, "--gossip-key-file", gossip,
			"--bootstrap-expect", "3", "--snapshot-entries", "64", "--snapshot-every", "1s", "--log-level", "debug")...)
		c.all = append(c.all, n)
		planted["the TLS key of "+id] = keyIn(t, filepath.Join(ca.dir, id+".key"))
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	root := ca.client(t, "root", "ann")
	planted["the TLS key of a client"] = keyIn(t, filepath.Join(ca.dir, "root-ann.key"))
	var said []*result
	ask := func(who []string, args ...string) *result {
		t.Helper()
		r := c.rota(t, append(args, who...)...)
		said = append(said, r)
		return r
	}

	// A token, whose secret is its own.
	made := c.rota(t, append(root, "auth", "token", "create", "--role", "operator,worker", "--expires",
		"1h")...).want(t, 0)
	text := strings.TrimSpace(made.stdout)
	planted["a token"] = []byte(text[strings.LastIndex(text, "_")+1:])
	token := []string{"--tls-ca", ca.file, "--token-file", file("token", []byte(text))}
	stranger := []string{"--tls-ca", ca.file, "--token-file", unknown}

	// A browser's session: the code of its link, and the secret that replaces the code.
	said = append(said, c.signIn(t, ca, token, planted))
	c.rota(t, append(token, "auth", "whoami")...).want(t, 0)

	// Work, failures and refusals.
	w := launch(t, "worker", []string{c.env()}, append(token, "worker", "run", "--id", "w1", "--secret-file", worker,
		"--queues", "default", "--exec", "tr '\\0' ' ' </proc/self/cmdline; env; exit $((ROTA_ATTEMPT == 0))")...)
	w.says(t, 20*time.Second, "connected to")
	for i := range 6 {
		ask(token, "job", "submit", "--type", "x", "--id", fmt.Sprint("j", i), "--payload", string(seenByAll)).want(t,
			0)
	}
	for i := range 6 {
		ask(token, "job", "wait", fmt.Sprint("j", i))
		shown := ask(token, "job", "show", fmt.Sprint("j", i), "-o", "json").want(t, 0)
		contains(t, "the job", shown.stdout, "COMPLETED", `"attempt": 1`)
	}
	for range 3 {
		ask(stranger, "job", "list").want(t, 8)
		ask(token, "auth", "token", "list").want(t, 8)
	}
	thief := launch(t, "a thief of ids", []string{c.env()}, append(token, "worker", "run", "--id", "w1",
		"--takeover-secret-file", old, "--takeover", "--queues", "default", "--exec", "true")...)
	planted.findInCommandLines(t, w, thief, c.all[0].process, c.all[1].process, c.all[2].process)
	thief.Wait(5 * time.Second)
	thief.Kill()
	for _, n := range c.all {
		foreign(t, n, string(planted["a foreign JWT"]))
	}

	// Crashes, snapshots, events.
	c.all[0].Kill()
	c.all[0].start(t)
	c.all[0].awaitReady(t)
	ask(root, "operator", "snapshot", "save", filepath.Join(files, "kept.rota")).want(t, 0)
	events := ask(root, "events", "tail", "-o", "jsonl")
	for _, n := range c.all {
		eventually(t, 30*time.Second, n.ID+" has a snapshot", func() error {
			if len(snapshots(t, n.Dir)) == 0 {
				return fmt.Errorf("there is none")
			}
			return nil
		})
	}
	w.Signal(15)
	w.Wait(20 * time.Second)
	for _, n := range c.all {
		n.stop(t, 20*time.Second)
	}

	if events.code != 0 || !strings.Contains(events.stdout, "actor") {
		t.Errorf("events: %d, %s %s", events.code, clip(events.stdout), events.stderr)
	}
	for _, r := range said {
		planted.find(t, "the output of rota "+strings.Join(r.args, " "), []byte(r.stdout+r.stderr))
	}
	for _, p := range []*process{w, thief, c.all[0].process, c.all[1].process, c.all[2].process} {
		planted.find(t, "the log of "+p.Name, []byte(p.Stdout.String()+p.Stderr.String()))
	}
	backup, err := os.ReadFile(filepath.Join(files, "kept.rota"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.all[0].Dir, "kept.rota"), backup, 0o600))
	all := 0
	for _, n := range c.all {
		plainly, packed := planted.findIn(t, n.Dir)
		if all += packed; plainly == 0 {
			t.Errorf("no file in %s contains a payload: the search finds nothing", n.Dir)
		}
	}
	if all == 0 {
		t.Error("no compressed file contains a payload: the search finds nothing")
	}
}

// keyIn returns the secret number of a key.
func keyIn(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s is not a key", path)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		private, err = x509.ParseECPrivateKey(block.Bytes)
	}
	check(t, err)
	number, err := private.(*ecdsa.PrivateKey).Bytes()
	check(t, err)
	return number
}

// foreign presents a bearer to a node that is not a token of rota's.
func foreign(t *testing.T, n *node, jwt string) {
	t.Helper()
	asking := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test asks a loopback address
	req, err := http.NewRequest(http.MethodGet, "https://"+n.API+"/v1/events", nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+jwt)
	answer, err := asking.Do(req)
	check(t, err)
	check(t, answer.Body.Close())
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a foreign bearer gets %s", answer.Status)
	}
}
