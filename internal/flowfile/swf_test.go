package flowfile

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readFile(path string, most int) (*SWFLog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadSWF(file, most)
}

func TestReadSWF(t *testing.T) {
	t.Parallel()
	log, err := readFile("testdata/lublin_head.swf", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Jobs) != 50 || log.MaxNodes != 256 || log.MaxProcs != 0 || log.Machine() != 256 ||
		log.Largest() != 166 {
		t.Fatalf("%d jobs, nodes %d, procs %d, machine %d, largest %d",
			len(log.Jobs), log.MaxNodes, log.MaxProcs, log.Machine(), log.Largest())
	}
	want := SWFJob{Number: 4, Submit: 7287, Run: 9053, Allocated: 128, Requested: -1, User: -1, Queue: 0, Estimate: -1}
	if got := log.Jobs[3]; got != want {
		t.Errorf("job 4 is %+v, want %+v", got, want)
	}
	first, err := readFile("testdata/lublin_head.swf", 3)
	if err != nil || len(first.Jobs) != 3 {
		t.Errorf("first three: %d jobs, %v", len(first.Jobs), err)
	}
}

func TestReadSWF_gzip(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/lublin_head.swf")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.swf.gz")
	if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := readFile(path, 0)
	if err != nil || len(log.Jobs) != 50 {
		t.Fatalf("%v, %v", log, err)
	}
}

// TestReadSWF_damaged cuts a gzip'd log at every byte, and changes one.
func TestReadSWF_damaged(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 300 {
		if _, err := z.Write([]byte(swfLine + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := packed.Bytes()
	for n := 2; n < len(whole); n++ {
		_, err := ReadSWF(bytes.NewReader(whole[:n]), 0)
		if err == nil || !strings.Contains(err.Error(), "cut off after line") {
			t.Fatalf("cut at byte %d of %d: %v", n, len(whole), err)
		}
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 1
	if _, err := ReadSWF(bytes.NewReader(damaged), 0); err == nil ||
		!strings.Contains(err.Error(), "is damaged (gzip: invalid checksum) after line 300") {
		t.Errorf("with a wrong checksum: %v", err)
	}
}

// endlessLog is a log that never ends; read counts its bytes.
type endlessLog struct{ read int }

func (e *endlessLog) Read(p []byte) (int, error) {
	n := 0
	for n+len(swfLine)+1 <= len(p) {
		n += copy(p[n:], swfLine+"\n")
	}
	e.read += n
	return n, nil
}

// TestReadSWF_most reads the given number of jobs of a log of any length, and no further.
func TestReadSWF_most(t *testing.T) {
	t.Parallel()
	in := &endlessLog{}
	log, err := ReadSWF(in, 10_000)
	if err != nil || len(log.Jobs) != 10_000 || log.More != 10_001 || in.read > 2*10_000*len(swfLine) {
		t.Fatalf("%v, %d jobs, more at line %d, %d bytes read", err, len(log.Jobs), log.More, in.read)
	}
	log, err = ReadSWF(strings.NewReader(swfLine+"\n"+swfLine+"\n; the end\n"), 2)
	if err != nil || log.More != 0 {
		t.Errorf("a log of exactly the maximum number of jobs: %v, more at line %d", err, log.More)
	}
}

const swfLine = "1 0 -1 60 4 142.00 -1 8 -1 -1 1 7 -1 -1 2 -1 -1 -1"

func TestReadSWF_header(t *testing.T) {
	t.Parallel()
	log, err := ReadSWF(strings.NewReader(
		"; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 430\n;\n; Note: x\n"+
			swfLine+"\n"), 0)
	if err != nil || log.MaxNodes != 338 || log.MaxProcs != 430 || log.Machine() != 430 {
		t.Fatalf("%+v, %v", log, err)
	}
}

func TestReadSWF_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "; only a header\n", "no jobs"},
		{"no byte", "", "no jobs in 0 lines"},
		{"no machine", "; Note: x\n; MaxProcs: 99999999999999999999\n" + swfLine,
			"line 2: MaxProcs: got 99999999999999999999"},
		{"a table with commas", "id,submit,run\n1,0,60\n", "line 1: got 1 fields, want 18"},
		{"a column more", swfLine + " 7\n", "line 1: got 19 fields, want 18"},
		{"a last line that is cut", swfLine + "\n" + swfLine[:9], "line 2: got 4 fields, want 18: is the line cut"},
		{"a time too large for a number", strings.Replace(swfLine, "1 0", "1 99999999999999999999", 1),
			"line 1: field 2"},
		{"a time beyond all machines", strings.Replace(swfLine, "1 0", "1 9999999999", 1),
			"line 1: field 2 (submit time) must be at most"},
		{"an endless run", strings.Replace(swfLine, " 60 ", " 9999999999 ", 1), "line 1: field 4 (run time)"},
		{"processors of no machine", strings.Replace(swfLine, " 60 4 ", " 60 4000000 ", 1),
			"line 1: too many processors: got 4000000"}, {"short line", swfLine + "\n2 5 1\n", "line 2: got 3 fields"},
		{"letters", "; h\n" + strings.Replace(swfLine, "60", "x60", 1), "line 2: field 4"},
		{"letters in a field not used", strings.Replace(swfLine, "142.00", "oops", 1), "line 1: field 6"},
		{"unsorted", strings.Replace(swfLine, "1 0", "1 9", 1) + "\n" + swfLine,
			"line 2: job 1 was submitted before"},
		{"negative time", strings.Replace(swfLine, "1 0", "1 -5", 1), "line 1: field 2"},
		{"endless line", strings.Repeat("1", swfLineMax+1), "line 1 too long"},
	} {
		_, err := ReadSWF(strings.NewReader(c.text), 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzReadSWF(f *testing.F) {
	f.Add("; MaxProcs: 4\n" + swfLine)
	f.Add("1 2 3")
	f.Fuzz(func(t *testing.T, text string) {
		log, err := ReadSWF(strings.NewReader(text), 100)
		if err == nil && (len(log.Jobs) == 0 || log.Machine() < 1) {
			t.Errorf("accepted %d jobs on %d processors", len(log.Jobs), log.Machine())
		}
	})
}
