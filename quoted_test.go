package rota

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/jsonparts"
)

// numbersOf adds the paths of the whole numbers and dates in a type's JSON, such as job.retry.base_ms.
func numbersOf(t reflect.Type, at string, into map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		of := f.Type
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case f.Anonymous && !tagged:
			numbersOf(of, at, into)
		case !f.IsExported() || tag == "-":
		case of == reflect.TypeFor[time.Time]():
			into[at+strings.TrimSuffix(name, "_ms")+"_ms"] = true
		case of == reflect.TypeFor[[]Date]():
			into[at+name+"[]"] = true
		case of == reflect.TypeFor[map[string]int64]():
			into[at+name+".x"] = true
		case of.Kind() == reflect.Int32 || of.Kind() == reflect.Int64:
			into[at+name] = true
		case of.Kind() == reflect.Struct:
			numbersOf(of, at+name+".", into)
		}
	}
}

// textOf returns the JSON of a value at a path.
func textOf(path, value string) string {
	name, rest, more := strings.Cut(path, ".")
	if more {
		value = textOf(rest, value)
	}
	if list, ok := strings.CutSuffix(name, "[]"); ok {
		name, value = list, "["+value+"]"
	}
	return `{"` + name + `":` + value + `}`
}

// TestCheckShape_quotesWhatWasSent checks that every number and date that users set is rejected outside its range with
// a message that has the number as sent, and a limit.
func TestCheckShape_quotesWhatWasSent(t *testing.T) {
	t.Parallel()
	digits := regexp.MustCompile(`[0-9]+`)
	fields := 0
	for _, c := range []struct {
		name  string
		of    reflect.Type
		check func(text string) error
	}{
		{"job", reflect.TypeFor[JobSpec](), func(text string) error {
			s := NewJobSpec("t", nil)
			s.ID, s.Queue, s.Tenant = "j", DefaultQueue, DefaultTenant
			if strings.Contains(text, `"unique"`) {
				s.Unique = &Unique{Key: "k", Keep: time.Hour, Scope: []string{UniqueCompleted}}
			}
			if err := jsonparts.Read([]byte(text), &s, true); err != nil {
				return err
			}
			return s.CheckShape(1000)
		}},
		{"node", reflect.TypeFor[NodeSpec](), func(text string) error {
			n := NewNodeSpec("n", "", nil)
			if err := jsonparts.Read([]byte(text), &n, true); err != nil || n.Gate == nil {
				return err
			}
			n.Type, n.JobSpec.ID = GateType, "n"
			return n.CheckGate(n.Gate)
		}},
		{"schedule", reflect.TypeFor[ScheduleSpec](), func(text string) error {
			s := NewScheduleSpec("s", NewJobSpec("t", nil))
			if !strings.Contains(text, `"every_ms"`) && !strings.Contains(text, `"dates_ms"`) {
				s.Cron = "1 * * * *"
			}
			if err := jsonparts.Read([]byte(text), &s, true); err != nil {
				return err
			}
			s.Job.NotBefore, s.Job.Queue, s.Job.Tenant = time.Time{}, DefaultQueue, DefaultTenant
			return s.CheckShape(1000)
		}},
		{"worker", reflect.TypeFor[WorkerSpec](), func(text string) error {
			w := WorkerSpec{ID: "w", Queues: []QueueName{"q"}, Slots: 1}
			if err := jsonparts.Read([]byte(text), &w, true); err != nil {
				return err
			}
			return w.CheckShape()
		}},
		{"rule", reflect.TypeFor[KeyRule](), func(text string) error {
			r := KeyRule{Name: "k", Rate: 1, PeriodMs: 1000}
			if err := jsonparts.Read([]byte(text), &r, true); err != nil {
				return err
			}
			return r.Check()
		}},
	} {
		paths := make(map[string]bool)
		numbersOf(c.of, "", paths)
		for path := range paths {
			if c.name == "node" && !strings.HasPrefix(path, "gate.") || strings.HasPrefix(path, "job.not_before") ||
				strings.HasPrefix(path, "job.unique.") {
				continue // a job's, or rejected whatever it is
			}
			fields++
			for _, value := range []string{"9223372036854775807", "-9223372036854775808", "9223372036854775", "-3"} {
				err := c.check(textOf(path, value))
				if err == nil {
					if value != "9223372036854775" { // within the range of some sizes
						t.Errorf("%s %s: %s is accepted", c.name, path, value)
					}
					continue
				}
				text := err.Error()
				if !strings.Contains(text, value) || !digits.MatchString(strings.Replace(text, value, "", 1)) {
					t.Errorf("%s %s: sent %s, got %q, want the number sent and a limit", c.name, path, value, text)
				}
			}
		}
	}
	if fields < 45 {
		t.Errorf("%d fields, want 45 or more", fields)
	}
	var far ScheduleSpec
	if err := json.Unmarshal([]byte(`{"every_ms":1000}`), &far); err != nil || far.Every != time.Second {
		t.Errorf("a second: got %v, %v", far.Every, err)
	}
	if got := quoted("every_ms", 9223372036854); got != "9223372036854 or more" {
		t.Errorf("a duration that was cut is quoted as %q", got)
	}
}
