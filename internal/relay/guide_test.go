package relay

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The programs around the guide's code: each reads messages, one a line, and prints for each whether it verifies.
const (
	aroundGo = `package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			Secret, Body string
			Headers      map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		h := make(http.Header)
		for name, value := range m.Headers {
			h.Set(name, value)
		}
		fmt.Println(Verify(m.Secret, h, []byte(m.Body), time.Now()))
	}
}

`
	aroundPython = `
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    print(str(verify(m["secret"], m["headers"], m["body"].encode())).lower())
`
)

// TestGuide_verify checks that the receiver code in docs/guides/webhooks.md, unchanged, accepts the relay's signatures,
// even during a rotation, and rejects everything else without crashing.
func TestGuide_verify(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, rest, _ := strings.Cut(string(guide), "```"+language+"\n")
		text, _, found := strings.Cut(rest, "\n```")
		if !found {
			t.Fatalf("the guide shows nothing in %s", language)
		}
		return text + "\n"
	}
	input, want := signed(t)
	for _, c := range []struct {
		tool, file, text string
		args             []string
	}{
		{"go", "main.go", aroundGo + block("go"), []string{"run", "main.go"}},
		{"python3", "main.py", block("python") + aroundPython, []string{"main.py"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("%s is not installed: the guide's code in it is not run: %v", c.tool, err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(c.tool, c.args...)
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			if got := strings.Fields(string(said)); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// signed returns messages, one a line, and whether each verifies.
func signed(t *testing.T) (lines []byte, verifies []string) {
	t.Helper()
	key, w, now := Key(strings.Repeat("k", 32)), hook("https://example.com/"), time.Now()
	old := key.Secrets(w, now)[0].Text()
	w.Generation, w.Rotated = 2, w.Rotated+1
	secrets := key.Secrets(w, time.UnixMilli(int64(w.Rotated)))
	if len(secrets) != 2 {
		t.Fatalf("%d secrets during a rotation", len(secrets))
	}
	const id, body = "1.9.0", `{"type":"jobDead","data":{"text":"ü"}}`
	add := func(secret string, verified bool, text string, change map[string]string, without ...string) {
		at := strconv.FormatInt(now.Unix(), 10)
		if other, ok := change["signed at"]; ok {
			at = other
		}
		headers := map[string]string{"webhook-id": id, "webhook-timestamp": at,
			"webhook-signature": Signature(secrets, id, at, []byte(body))}
		for name, value := range change {
			headers[name] = value
		}
		for _, name := range without {
			delete(headers, name)
		}
		line, err := json.Marshal(map[string]any{"secret": secret, "body": text, "headers": headers})
		if err != nil {
			t.Fatal(err)
		}
		lines, verifies = append(append(lines, line...), '\n'), append(verifies, strconv.FormatBool(verified))
	}
	newer := secrets[0].Text()
	add(newer, true, body, nil)
	add(old, true, body, nil) // a receiver that does not know of the rotation yet
	add(Key(strings.Repeat("l", 32)).Secrets(w, now)[0].Text(), false, body, nil)
	add(newer, false, body+" ", nil)
	add(newer, false, body, map[string]string{"webhook-id": "1.9.1"})
	for _, far := range []time.Duration{-time.Hour, time.Hour} {
		add(newer, false, body, map[string]string{"signed at": strconv.FormatInt(now.Add(far).Unix(), 10)})
	}
	for _, value := range []string{"", "now", "1e9", "9999999999999999999999", "ü", "v1,", " , "} {
		add(newer, false, body, map[string]string{"webhook-timestamp": value})
		add(newer, false, body, map[string]string{"webhook-signature": value})
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		add(newer, false, body, nil, name)
	}
	return lines, verifies
}
