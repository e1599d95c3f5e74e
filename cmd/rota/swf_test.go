package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func TestReadSWF(t *testing.T) {
	t.Parallel()
	log, err := readSWFFile("testdata/lublin_head.swf", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.jobs) != 50 || log.maxNodes != 256 || log.maxProcs != 0 || log.machine() != 256 ||
		log.largest() != 166 {
		t.Fatalf("%d jobs, nodes %d, procs %d, machine %d, largest %d",
			len(log.jobs), log.maxNodes, log.maxProcs, log.machine(), log.largest())
	}
	want := swfJob{number: 4, submit: 7287, run: 9053, allocated: 128, requested: -1, user: -1, queue: 0}
	if got := log.jobs[3]; got != want {
		t.Errorf("job 4 is %+v, want %+v", got, want)
	}
	first, err := readSWFFile("testdata/lublin_head.swf", 3)
	if err != nil || len(first.jobs) != 3 {
		t.Errorf("first three: %d jobs, %v", len(first.jobs), err)
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
	log, err := readSWFFile(path, 0)
	if err != nil || len(log.jobs) != 50 {
		t.Fatalf("%v, %v", log, err)
	}
}

const swfLine = "1 0 -1 60 4 142.00 -1 8 -1 -1 1 7 -1 -1 2 -1 -1 -1"

func TestReadSWF_header(t *testing.T) {
	t.Parallel()
	log, err := readSWF(strings.NewReader("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 430\n;\n; Note: x\n"+
		swfLine+"\n"), 0)
	if err != nil || log.maxNodes != 338 || log.maxProcs != 430 || log.machine() != 430 {
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
		_, err := readSWF(strings.NewReader(c.text), 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzReadSWF(f *testing.F) {
	f.Add("; MaxProcs: 4\n" + swfLine)
	f.Add("1 2 3")
	f.Fuzz(func(t *testing.T, text string) {
		log, err := readSWF(strings.NewReader(text), 100)
		if err == nil && (len(log.jobs) == 0 || log.machine() < 1) {
			t.Errorf("accepted %d jobs on %d processors", len(log.jobs), log.machine())
		}
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	log, err := readSWF(strings.NewReader(swfLine+"\n2 100 -1 -1 -1 -1 -1 16 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n"+
		"3 100 -1 5 0 -1 -1 -1 -1 -1 5 0 -1 -1 22 -1 -1 -1\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{log: log, speedup: 10}
	if r.at(0) != 0 || r.at(1) != 10*time.Second || r.longest() != 6*time.Second {
		t.Errorf("times: %s, %s, %s", r.at(0), r.at(1), r.longest())
	}
	for i, want := range []struct {
		tenant   rota.TenantID
		priority int32
		cpu, run int64
	}{{"u7", 2, 4_000, 6_000}, {rota.DefaultTenant, 5, 16_000, 0}, {"u0", 10, 1_000, 500}} {
		s := r.spec(i, "x")
		if s.Tenant != want.tenant || s.Priority != want.priority || s.CPUMilli != want.cpu ||
			s.SimulateMs != want.run {
			t.Errorf("job %d: %+v, want %+v", i, s, want)
		}
		if err := s.CheckShape(rota.MaxPayloadBytes); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if r.share(1) != 16 || r.share(4) != 16 {
		t.Errorf("shares %d, %d: at least the largest job's is wanted", r.share(1), r.share(4))
	}
	r.log.maxProcs = 64
	if r.share(2) != 32 {
		t.Errorf("share %d of 64 for 2", r.share(2))
	}
	for procs, class := range map[int64]string{1: "serial", 2: "small", 8: "small", 9: "medium", 64: "medium",
		65: "large"} {
		if got := sizeClass(procs); got != class {
			t.Errorf("%d processors are %s", procs, got)
		}
	}
}
