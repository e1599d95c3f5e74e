package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secretPart is the part of aToken that no file may contain.
const (
	secretPart = "secretsecretsecretsecretsecretsecretsecretsecretsecr"
	aToken     = "rota_abcdefghijkl_" + secretPart
)

// readDenials returns the lines of the previous file and of the current one.
func readDenials(t *testing.T, path string) (lines []denialLine, sizes [2]int) {
	t.Helper()
	for i, name := range []string{path + ".1", path} {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		sizes[i] = len(text)
		for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			var d denialLine
			if err := json.Unmarshal(line, &d); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			lines = append(lines, d)
		}
	}
	return lines, sizes
}

// TestDenials_flood checks that a second has a limited number of lines, and that the next line gives the number of
// those missing.
func TestDenials_flood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), deniedName)
	d, err := openDenials(path, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	const calls = 5_000
	for range calls {
		d.addAt(Denial{Method: "m", Principal: "unknown", Peer: "p", Reason: aToken, Request: "r"}, at)
	}
	d.addAt(Denial{Method: "after"}, at.Add(time.Second))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.Add(Denial{Method: "too late"})
	lines, _ := readDenials(t, path)
	dropped := 0
	for i, l := range lines {
		if dropped += int(l.Dropped); i > deniedRate || strings.Contains(l.Reason, secretPart) {
			t.Fatalf("line %d: %+v", i, l)
		}
	}
	// The disk may be behind; then some of the hundred are dropped too, and the last line with them.
	if last := lines[len(lines)-1]; last.Method == "after" && dropped+len(lines) != calls+1 {
		t.Errorf("%d lines and %d dropped are not %d calls", len(lines), dropped, calls+1)
	}
}

// TestDenials_size checks that the two files together are at most twice the limit, and have the newest lines.
func TestDenials_size(t *testing.T) {
	t.Parallel()
	const most = 4 << 10
	path := filepath.Join(t.TempDir(), deniedName)
	for start := range 2 { // the second continues where the first ended
		d, err := openDenials(path, most, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			for range deniedRate / 2 {
				d.addAt(Denial{Method: fmt.Sprint(start, "-", i), Reason: strings.Repeat("x", 2*maxText)},
					time.Unix(int64(100*start+i), 0))
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lines, sizes := readDenials(t, path)
	if sizes[0] == 0 || sizes[0] > most || sizes[1] == 0 || sizes[1] > most {
		t.Errorf("the files have %v bytes, want at most %d each", sizes, most)
	}
	if len(lines) < 2 || !strings.HasPrefix(lines[0].Method, "1-") {
		t.Errorf("%d lines, the first is %+v", len(lines), lines[0])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// failing is an error that wraps another.
type failing struct{ err error }

func (f failing) Error() string { return "refused: " + f.err.Error() }

// TestMasking checks that no handler writes a token's secret, wherever it occurs.
func TestMasking(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(Masking(b), nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(Masking(b), nil) },
	} {
		var out bytes.Buffer
		log := slog.New(handler(&out))
		log.Info("a message with " + aToken + ", and more")
		log.Info("an attribute", "header", "Bearer "+aToken, aToken, 1)
		log.With("kept", aToken).WithGroup(aToken).Info("with", slog.Group("group", slog.Group("inner", "t", aToken)))
		log.Error("an error", "error", fmt.Errorf("call: %w", failing{errors.New(aToken)}))
		log.Warn("any", "value", struct{ Token []string }{[]string{aToken}}, "bytes", []byte(aToken), "cut",
			aToken[:30])
		text := out.String()
		if strings.Contains(text, "secretsecret") || strings.Count(text, "rota_abcdefghijkl_…") < 7 {
			t.Errorf("%s: %s", name, text)
		}
		if strings.Count(text, "\n") != 5 || !strings.Contains(text, "and more") {
			t.Errorf("%s: lines are missing: %s", name, text)
		}
	}
}
