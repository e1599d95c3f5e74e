package web

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

// TestDecode_namesTheField checks the field and the message of bodies that cannot be read. Neither depends on the
// version of Go.
func TestDecode_namesTheField(t *testing.T) {
	t.Parallel()
	type search struct {
		Kinds []rota.EventKind `json:"kinds"`
	}
	const known = "; GET /openapi.json lists the fields"
	for _, c := range []struct {
		into            any
		raw, field, say string
	}{
		{new(rest.JobIDs), `{"ids":{}}`, "ids", "ids: got an object, want an array"},
		{new(rest.JobIDs), `{"ids":["a",5]}`, "ids[1]", "ids[1]: got a number, want a string"},
		{new(rest.JobIDs), `[]`, "body", "body: got an array, want an object"},
		{new(rest.JobIDs), `{"ids":[],"IDS":[]}`, "IDS", "IDS: given twice, want it once"},
		{new(rest.JobIDs), `{"":[]}`, `""`, `"": unknown field` + known},
		{new(rest.JobIDs), `{"a\"b":[]}`, `"a\"b"`, `"a\"b": unknown field` + known},
		{new(rota.JobSpec), `{"expected_digest":5}`, "expected_digest", "expected_digest: got a number, want a string"},
		{new(search), `{"kinds":[1]}`, "kinds[0]", "kinds[0]: got a number, want a string"},
		{new(rota.JobSpec), `{"type":"a","type":"b"}`, "type", "type: given twice, want it once"},
		{new(rota.JobSpec), `{"tenant":"a","tenant":"b"}`, "tenant", "tenant: given twice, want it once"},
		{new(rota.JobSpec), `{"labels":{"a":"1","a":"2"}}`, "labels.a", "labels.a: given twice, want it once"},
		{new(rota.JobSpec), `{"retry":{"attempts":1,"attempts":2}}`, "retry.attempts",
			"retry.attempts: given twice, want it once"},
		{new(rota.JobSpec), `{"retry":{"attempt":1}}`, "retry.attempt",
			`retry.attempt: unknown field: did you mean "attempts"?` + known},
		{new(rota.JobSpec), `{"payload":{"base64":"AA==","base64":"AQ=="}}`, "payload",
			"payload: got base64 twice; remove one"},
		{new(rota.JobSpec), `{"priority":3000000000}`, "priority",
			"priority: got 3000000000, want an integer from -2147483648 to 2147483647"},
		{new(rota.JobSpec), `{"not_before_at":5}`, "not_before_at", "not_before_at: got a number, want a string"},
		{new(rota.ScheduleSpec), `{"job":{"ttl_ms":"5"}}`, "job.ttl_ms", "job.ttl_ms: got a string, want an integer"},
		{new(rest.Settings), `{"set":{"weight":1,"weight":2}}`, "set.weight", "set.weight: given twice, want it once"},
		{new(rest.LeaseCompletion), `{"token":5}`, "token", "token: got a number, want a string"},
		{new(rest.ProofReport), `{"lease":"xyz"}`, "lease", `"xyz" is not hexadecimal`},
	} {
		err := decode([]byte(c.raw), c.into, "")
		e, _ := err.(*rota.Error)
		if e == nil || e.Kind != rota.KindInvalid || e.Subject != c.field || e.Text != c.say {
			t.Errorf("%s: got %+v, want field %s: %s", c.raw, err, c.field, c.say)
		}
	}
	if err := decode([]byte(`{"payload":{"a":1,"a":2}}`), new(rota.JobSpec), ""); err != nil {
		t.Errorf("a payload is the caller's own: got %v", err)
	}
	if err := decodePart([]byte(`{"type":"a","type":"b"}`), new(rota.JobSpec), "jobs[3]"); err == nil ||
		!strings.Contains(err.Error(), "jobs[3].type: given twice") {
		t.Errorf("a job of a batch with two types: got %v", err)
	}
}

// TestDecode_refusesTwice checks that every type of request body rejects each of its members given twice.
func TestDecode_refusesTwice(t *testing.T) {
	t.Parallel()
	members := 0
	for of := range taken {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			members++
			err := decode([]byte(`{"`+name+`":null,"`+name+`":null}`), reflect.New(of).Interface(), "")
			if e, _ := err.(*rota.Error); e == nil || e.Subject != name {
				t.Errorf("%v: %s twice: got %v", of, name, err)
			}
		}
	}
	if members < 100 {
		t.Errorf("%d members, want more than 100", members)
	}
}
