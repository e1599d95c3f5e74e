package filter

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rotasched/rota"
)

func aJob() *rota.Job {
	j := &rota.Job{State: rota.JobDead, Error: "smtp: 451 try later",
		Fingerprint: rota.Hex("\x01\x02\x03\x04\x05\x06\x07\x08")}
	j.ID, j.Queue, j.Tenant, j.Type, j.Priority = "nightly/fetch", "mail", "acme", "send", 2
	j.Labels = map[string]string{"team": "film", "stage.x": "a b", "odd": "50*"}
	j.Submitted.Clock = 10_000
	j.Lease, j.Attempts = &rota.Lease{Worker: "gpu-17"}, []rota.Attempt{{Worker: "gpu-3"}}
	j.Batch, j.Keys = "b-7", []string{"acct:5", "disk:1"}
	return j
}

// Every term is passed and failed by one job, at 70 s.
func TestFilter(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"": true, "  ": true,
		"queue=mail": true, "queue=a,mail": true, "queue=mai": false, "queue=mai*": true, "-queue=mail": false,
		"-queue=a,b": true, "tenant=acme": true, "tenant=b": false, "type=send": true, "type=sends": false,
		"state=DEAD": true, "state=dead,queued": true, "-state=DEAD": false, "state=QUEUED": false,
		"id=nightly/fetch": true, "id=night*": true, "id=night": false, "id=*": true, `id="night*"`: false,
		"workflow=nightly": true, "workflow=fetch": false, "-workflow=*": false,
		"batch=b-7": true, "batch=b*": true, "batch=b": false, "-batch=*": false, "key=acct:5": true,
		"key=acct:*": true, "key=disk:1,x:y": true, "key=acct": false,
		"schedule=*": false, "worker=gpu-17": true, "worker=gpu-3": true, "worker=gpu-*": true, "worker=gpu-1": false,
		"-worker=gpu-3":   false,
		"label.team=film": true, "label.team=f*": true, "label.team=tv": false, "label.none=*": false,
		"-label.none=*": true, "label.team=*": true,
		`label.stage.x="a b"`: true, `label.odd="50*"`: true, `label.odd="5*"`: false,
		"error=0102030405060708": true, "error=0102030405060709,0102030405060708": true,
		"error=0102030405060709": false,
		"error~smtp":             true, `error~"451 try"`: true, "error~refused": false, "-error~refused": true,
		"priority<=2": true, "priority<=1": false, "priority>=2": true, "priority=2": true, "priority=0,2": true,
		"age>59s": true, "age>60s": false, "age<61s": true, "age<1m": false,
		"queue=mail state=DEAD age>1s": true, "queue=mail state=QUEUED": false, "queue=mail\t-tenant=b\n": true,
	} {
		f, err := Parse(line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if got := f.Early(aJob()) && f.Late(aJob(), 70_000); got != want {
			t.Errorf("%q passes the job: %v", line, got)
		}
	}
}

// Runs of a schedule are known by their ids, which callbacks of batches look like.
func TestFilter_schedules(t *testing.T) {
	t.Parallel()
	f, err := Parse("schedule=nightly")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[rota.JobID]bool{"nightly@2031-01-01T00:00:00Z": true, "nightly@+x": true,
		"nightly@done": false, "nightly": false, "n@+x": false} {
		j := aJob()
		if j.ID = id; f.Early(j) != want {
			t.Errorf("%s is of the schedule: %v", id, !want)
		}
	}
	for _, line := range []string{"schedule=nightly*", "webhook=nightly*"} { // nodes may have any name
		f, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		j := aJob()
		if j.ID = "nightly-7/mail@1.9.0"; f.Early(j) {
			t.Errorf("%s selects a node of a workflow", line)
		}
	}
}

// A text that is not a filter is refused with the position and the expected input.
func TestParse_refuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"que=a": `at 1: unknown term "que": use queue= `, "queue=a tenan=b": "at 9: ", "-": "at 2: ",
		"queue": "at 6: queue: use =", "queue~a": "at 6: queue: use =",
		"queue=": "at 7: ", "queue=a,": "at 9: ", "queue=,a": "at 7: ", "state=GONE": `at 7: state: got "GONE"`,
		"state=D*": "at 7", "error=12": "at 7: ", "error~": "at 7",
		"priority<=x": "at 11: ", "priority>2": "at 9: ", "age>x": "at 5: ", "age>-1s": "at 5",
		"age=1s":   "at 4: age: use > or <",
		"label.=a": "at 1: ", `queue="a`: "at 7: the quotes are not closed", `queue="a"b`: "at 10: ",
		`queue=a"b"`: "at 8: ", "queue=\xff": "at 7: ",
		strings.Repeat("queue=a ", 33):            "at 257: too many terms: maximum 32",
		"queue=" + strings.Repeat("a,", 64) + "a": "more than 64 values", strings.Repeat(" ", 4097): "4097 bytes",
	} {
		if _, err := Parse(line); rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(), want) ||
			rota.ErrorOf(err).Subject != "filter" {
			t.Errorf("%.40q: %v, wanted %q", line, err, want)
		}
	}
}

// The fields of a list are terms, used as they are.
func TestOf(t *testing.T) {
	t.Parallel()
	f, err := Of(&rota.JobFilter{Where: "id=n*", Queue: "mail", Tenant: "acme", Type: "send", State: rota.JobDead})
	if err != nil || !f.Early(aJob()) || f.NeedsMore() || f.May(rota.JobQueued) ||
		!f.May(rota.JobQueued, rota.JobDead) {
		t.Errorf("%+v, %v", f, err)
	}
	for _, other := range []rota.JobFilter{{Queue: "mai*"}, {Tenant: "b"}, {Type: "b"}, {State: rota.JobQueued}} {
		if f, err := Of(&other); err != nil || f.Early(aJob()) {
			t.Errorf("%+v passes: %v", other, err)
		}
	}
	if _, err := Of(&rota.JobFilter{Where: "?"}); err == nil {
		t.Error("no error")
	}
}

// No line breaks it, and a job that passes a filter fails its negation.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"queue=mail", `error~"a b" -state=DEAD`, "age>1h priority<=3", "label.a.b=c*",
		"\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		its, err := Parse(line)
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("%q", err)
			}
			return
		}
		if len(its.terms) != 1 || its.terms[0].negate {
			return
		}
		not, err := Parse("-" + strings.TrimLeft(line, " \t\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		j := aJob()
		if pass, fail := its.Early(j) && its.Late(j, 1), not.Early(j) && not.Late(j, 1); pass == fail {
			t.Errorf("%q passes %v, and its negation %v", line, pass, fail)
		}
	})
}
