package flowfile

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"
)

func TestParseWorkers(t *testing.T) {
	t.Parallel()
	workers, err := ParseWorkers([]byte(
		"workers:\n- {id: big, count: 2, cpu_milli: 8000}\n- {id: gpu, slots: 3, capabilities: [gpu], memory_bytes: 7}\n"))
	if err != nil || len(workers) != 3 {
		t.Fatalf("%v, %v", workers, err)
	}
	if w := workers[1]; w.ID != "big-2" || w.Slots != 8 || w.CPUMilli != 8000 {
		t.Errorf("the second is %+v", w)
	}
	if w := workers[2]; w.ID != "gpu" || w.Slots != 3 || w.MemoryBytes != 7 || w.Capabilities[0] != "gpu" {
		t.Errorf("the third is %+v", w)
	}
	for _, c := range []struct{ text, want string }{
		{"", "a workers file is empty"},
		{"workers: []", "workers is missing"},
		{"workers:\n- {id: a, colour: 2}", "line 2: unknown field colour"},
		{"workers: [{id: a, count: 10001}]", "count must be at least 1, got 10001"},
		{"workers: [{id: a}, {id: a}]", `worker "a" is there twice`},
		{"workers: [{id: a, slots: -1}]", "slots must be between 1 and 10000, got -1"},
		{"workers: {{", "not YAML: line 1"},
		{"workers: [{id: a}]\n---\nx: 1", "continues after the first"},
	} {
		if got, err := ParseWorkers([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func TestReadTrace(t *testing.T) {
	t.Parallel()
	text := "\n{\"submit_ms\":7,\"run_ms\":60000,\"cpu_milli\":2000,\"tenant\":\"x\",\"expected_ms\":9}\n{\"submit_ms\":8,\"run_ms\":1}"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{text, packed.String()} {
		got, err := ReadTrace(strings.NewReader(in), 10)
		if err != nil || got.SWF != nil || len(got.Timed) != 2 || got.More != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		if j := got.Timed[0]; j.Line != 2 || j.SubmitMs != 7 || j.RunMs != 60_000 || j.Spec.CPUMilli != 2000 ||
			j.Spec.Tenant != "x" ||
			j.Spec.Expected != 9*time.Millisecond {
			t.Errorf("%+v", j)
		}
	}
	if got, err := ReadTrace(strings.NewReader(text), 1); err != nil || len(got.Timed) != 1 || got.More != 3 {
		t.Errorf("one job: %+v, %v", got, err)
	}
	if got, err := ReadTrace(strings.NewReader(" "+swfLine), 1); err != nil || got.SWF == nil {
		t.Errorf("a log: %+v, %v", got, err)
	}
	if _, err := ReadTrace(bytes.NewReader(packed.Bytes()[:packed.Len()-9]), 10); err == nil ||
		!strings.Contains(err.Error(), "cut off after line") {
		t.Errorf("cut gzip: %v", err)
	}
	for _, c := range []struct{ text, want string }{
		{`{"submit_ms":1}`, "line 1: no run_ms"},
		{`{"submit_ms":1,"state":"COMPLETED"}`, "line 1: no run_ms"},
		{`{"submit_ms":1,"run_ms":1,"state":"DONE"}`, `line 1: state must be one of`},
		{`{"submit_ms":1,"run_ms":1,"state":7}`, "line 1: state must be one of"},
		{`{"submit_ms":9,"run_ms":1,"start_ms":8}`, "line 1: start_ms must be at least submit_ms (9), got 8"},
		{`{"submit_ms":9,"run_ms":1,"start_ms":-1}`, "line 1: start_ms must be a whole number"},
		{`{"run_ms":1,"state":"QUEUED"}`, "line 1: no submit_ms"},
		{`{"submit_ms":-1,"run_ms":3}`, "line 1: submit_ms must be a whole number"},
		{`{"submit_ms":1,"run_ms":1.5}`, "line 1: run_ms must be a whole number"},
		{"{\"submit_ms\":5,\"run_ms\":3}\n{\"submit_ms\":4,\"run_ms\":3}", "line 2: submit_ms is 4, before the 5"},
		{"{\"submit_ms\":5,\"run_ms\":3}\n{\"submit_ms\":4,\"ru", "line 2: not a job's object"},
		{`{"submit_ms":1,"run_ms":1,"colour":1}`, `line 1: not a job: unknown field "colour"`},
		{`{"submit_ms":1,"run_ms":1,"priority":11}`, "line 1: priority must be"},
		{"{" + strings.Repeat(" ", maxLine+2), "line 1: longer than"},
	} {
		if got, err := ReadTrace(strings.NewReader(c.text), 10); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %+v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func TestParseLoad_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", "a load is empty"},
		{"for: 1d", "streams is missing"},
		{"for: 1d\nstreams:\n- {run: 5m, per_hours: 10}", "line 3: unknown field per_hours"},
	} {
		if got, err := ParseLoad([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(swfLine)
	f.Add(`{"submit_ms":1,"run_ms":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadTrace(strings.NewReader(text), 5)
		if err == nil && (got.SWF == nil) == (len(got.Timed) == 0) {
			t.Errorf("accepted %+v", got)
		}
	})
}
