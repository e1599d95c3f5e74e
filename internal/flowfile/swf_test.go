package flowfile

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
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
	want := SWFJob{Number: 4, Submit: 7287, Run: 9053, Allocated: 128, Requested: -1, User: -1, Queue: 0}
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

const swfLine = "1 0 -1 60 4 142.00 -1 8 -1 -1 1 7 -1 -1 2 -1 -1 -1"

func TestReadSWF_header(t *testing.T) {
	t.Parallel()
	log, err := ReadSWF(strings.NewReader("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 430\n;\n; Note: x\n"+
		swfLine+"\n"), 0)
	if err != nil || log.MaxNodes != 338 || log.MaxProcs != 430 || log.Machine() != 430 {
		t.Fatalf("%+v, %v", log, err)
	}
}

func TestReadSWF_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "; only a header\n", "no jobs"},
		{"short line", swfLine + "\n2 5 1\n", "line 2: 3 fields"},
		{"letters", "; h\n" + strings.Replace(swfLine, "60", "x60", 1), "line 2: field 4"},
		{"letters in a field not used", strings.Replace(swfLine, "142.00", "oops", 1), "line 1: field 6"},
		{"unsorted", strings.Replace(swfLine, "1 0", "1 9", 1) + "\n" + swfLine,
			"line 2: job 1 was submitted before"},
		{"negative time", strings.Replace(swfLine, "1 0", "1 -5", 1), "line 1: field 2"},
		{"endless line", strings.Repeat("1", swfLineMax+1), "line 1:"},
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
