package flowfile

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

func readAll(t *testing.T, text io.Reader) []JobLine {
	t.Helper()
	f := NewJobs(text)
	var lines []JobLine
	for {
		line, err := f.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func TestJobsFile(t *testing.T) {
	t.Parallel()
	lines := readAll(t, strings.NewReader(strings.Join([]string{
		`{"id":"a","queue":"q","type":"t","payload":"hello","priority":0}`,
		``,
		`{"type":"t"}`,
		`{"type":"t","colour":"red"}`,
		`{"type":"t"} {"type":"u"}`,
		`[1]`,
		`{"type":`,
		`{"type":"t","payload":{"base64":"/w=="},"priority":10}`,
	}, "\n")))
	want := []struct {
		number   int
		priority int32
		payload  string
		refused  string
	}{
		{1, 0, "hello", ""}, {3, 5, "", ""}, {4, 5, "", "colour"}, {5, 5, "", "after the job's object"},
		{6, 5, "", "object"}, {7, 5, "", "not a job"}, {8, 10, "\xff", ""},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, w := range want {
		l := lines[i]
		if l.Number != w.number {
			t.Errorf("line %d has number %d", w.number, l.Number)
		}
		if w.refused != "" {
			if l.Err == nil || l.Err.Kind != rota.KindInvalid || !strings.Contains(l.Err.Text, w.refused) {
				t.Errorf("line %d: %v, want a refusal with %q", w.number, l.Err, w.refused)
			}
			continue
		}
		if l.Err != nil || l.Spec.Priority != w.priority || string(l.Spec.Payload) != w.payload {
			t.Errorf("line %d: %v, %+v", w.number, l.Err, l.Spec)
		}
	}
	if lines[1].Spec.Queue != rota.DefaultQueue || lines[1].Spec.Tenant != rota.DefaultTenant {
		t.Errorf("defaults are missing: %+v", lines[1].Spec)
	}
}

func TestJobsFile_refuses_a_long_line_and_goes_on(t *testing.T) {
	t.Parallel()
	long := io.MultiReader(strings.NewReader(`{"type":"t","payload":"`),
		io.LimitReader(endless('x'), 5<<20), strings.NewReader("\"}\n{\"type\":\"u\"}\n"))
	f := NewJobs(long)
	first, err := f.Next()
	if err != nil || first.Err == nil || first.Number != 1 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	if cap(f.line) > 2*maxLine {
		t.Errorf("%d bytes are held", cap(f.line))
	}
	second, err := f.Next()
	if err != nil || second.Err != nil || second.Spec.Type != "u" || second.Number != 2 {
		t.Fatalf("second: %+v, %v", second, err)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}
