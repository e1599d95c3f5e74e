package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
)

// at is a moment of the clock on a cluster that began in November 2023.
func at(c rota.Clock) rota.Moment { return rota.Moment{Date: 1_700_000_000_000}.At(c) }

func sampleJob() rota.Job {
	j := rota.Job{State: rota.JobCompleted, Attempt: 1, Submitted: at(5), Enqueued: at(5),
		FirstLease: at(10), Finished: at(30), Output: rota.Blob("true"), OutputDigest: rota.Hex{0xab, 0x01}}
	j.JobSpec = rota.NewJobSpec("resize", []byte("a: <b>\x01 é"))
	j.ID, j.Tenant, j.Fee = "j-1", "acme", 9_007_199_254_740_993
	j.Attempts = []rota.Attempt{{Number: 0, Worker: "w1", Started: at(10), Ended: at(30), End: rota.ReasonDone}}
	return j
}

func printed(t *testing.T, format string, of rota.Job) string {
	t.Helper()
	var out bytes.Buffer
	a := &cli.App{Stdout: &out, Output: format}
	if err := (job.Commands{App: a}).Print(of); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrintOne(t *testing.T) {
	t.Parallel()
	job := sampleJob()
	t.Run("json_is_the_struct", func(t *testing.T) {
		t.Parallel()
		text := printed(t, "json", job)
		var back rota.Job
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, job) {
			t.Errorf("came back as\n%+v, was\n%+v", back, job)
		}
		for _, want := range []string{`"state": "COMPLETED"`, `"fee": 9007199254740993`,
			`"output_digest": "ab01"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is missing in\n%s", want, text)
			}
		}
	})
	t.Run("jsonl_is_one_line", func(t *testing.T) {
		t.Parallel()
		text := printed(t, "jsonl", job)
		if strings.Count(text, "\n") != 1 || !json.Valid([]byte(text)) {
			t.Errorf("want one line of JSON: %q", text)
		}
	})
	t.Run("yaml_says_the_same_as_json", func(t *testing.T) {
		t.Parallel()
		var fromYAML, fromJSON map[string]any
		text := printed(t, "yaml", job)
		if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		d := json.NewDecoder(strings.NewReader(printed(t, "json", job)))
		d.UseNumber()
		if err := d.Decode(&fromJSON); err != nil {
			t.Fatal(err)
		}
		if fromYAML["fee"] != 9_007_199_254_740_993 || fromYAML["priority"] != 5 {
			t.Errorf("numbers changed: fee %v, priority %v", fromYAML["fee"], fromYAML["priority"])
		}
		if fromYAML["payload"] != fromJSON["payload"] || fromYAML["output"] != "true" {
			t.Errorf("texts changed: %q, %v", fromYAML["payload"], fromYAML["output"])
		}
		if len(fromYAML) != len(fromJSON) || !strings.HasPrefix(text, "id: j-1\n") {
			t.Errorf("fields or their order changed:\n%s", text)
		}
	})
	t.Run("name_is_the_id", func(t *testing.T) {
		t.Parallel()
		if text := printed(t, "name", job); text != "j-1\n" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("table_shows_no_control_characters", func(t *testing.T) {
		t.Parallel()
		text := printed(t, "table", job)
		if strings.ContainsAny(text, "\x01\x1b") || !strings.Contains(text, "COMPLETED") {
			t.Errorf("got\n%s", text)
		}
		for _, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("line is longer than 100: %q", line)
			}
		}
	})
}

func TestPrintList(t *testing.T) {
	t.Parallel()
	list := func(format string, jobs ...rota.Job) string {
		var out bytes.Buffer
		l := cli.Listing[rota.Job]{Whole: rota.JobPage{Jobs: jobs}, Items: jobs, Name: job.Name, Columns: job.Columns()}
		if err := l.Print(&cli.App{Stdout: &out, Output: format}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	job := sampleJob()
	if got := list("name", job, job); got != "j-1\nj-1\n" {
		t.Errorf("name: %q", got)
	}
	if got := list("jsonl", job, job); strings.Count(got, "\n") != 2 {
		t.Errorf("jsonl: %q", got)
	}
	var page struct{ Jobs []rota.Job }
	if err := json.Unmarshal([]byte(list("json", job)), &page); err != nil || len(page.Jobs) != 1 {
		t.Errorf("json: %v, %d jobs", err, len(page.Jobs))
	}
	table, wide := list("table", job), list("wide", job)
	if !strings.HasPrefix(table, "ID ") || strings.Contains(table, "TENANT") || !strings.Contains(wide,
		"TENANT") {
		t.Errorf("table:\n%s\nwide:\n%s", table, wide)
	}
}

// TestPrint_controlCharacters prints the log of an attempt that writes commands for terminals: no format passes them
// on, JSON and YAML contain the text, and tabs stay in the log.
func TestPrint_controlCharacters(t *testing.T) {
	t.Parallel()
	text := "\x1b[2J\x9b2J \u009b31m\u0085\x7f\ta b\n"
	l := rota.AttemptLog{Job: "j-1", Parts: []rota.LogPart{{Text: []byte(text)}}}
	shown := job.LogText(&l, 0)
	if want := "·[2J�2J ·31m··\ta b\n"; shown != want {
		t.Errorf("the log is shown as %q, not %q", shown, want)
	}
	value := map[string]string{"text": strings.ToValidUTF8(text, "?")}
	for format, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "jsonl": json.Unmarshal,
		"yaml": yaml.Unmarshal} {
		var out bytes.Buffer
		if err := cli.WriteValue(&out, format, value); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && unicode.IsControl(r)
		}); i >= 0 {
			t.Errorf("%s passes on a control character at %d: %q", format, i, out.String())
		}
		var back map[string]string
		if err := read(out.Bytes(), &back); err != nil || back["text"] != value["text"] {
			t.Errorf("%s: %v, came back as %q, was %q", format, err, back["text"], value["text"])
		}
	}
}
