package rota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

// shownBytes is the longest value that Difference shows.
const shownBytes = 64

// Difference returns the JSON name of the first field in which the contents of two job specs differ (SPEC §16.5), with
// both values if they are short; "" if they are equal. Empty lists, maps and payloads equal missing ones; headers are
// not part of the content.
func (s *JobSpec) Difference(other *JobSpec) string { return difference("", *s, *other) }

// Difference returns the first field in which two batch specs differ.
func (s *BatchSpec) Difference(other *BatchSpec) string { return difference("", *s, *other) }

// Difference returns the first field in which two plans differ.
func (p *PlanSpec) Difference(other *PlanSpec) string { return difference("", *p, *other) }

// Difference returns the first field, other than nodes and edges, in which two workflows differ.
func (w *WorkflowSpec) Difference(other *WorkflowSpec) string {
	a, b := *w, *other
	a.Nodes, a.Edges, b.Nodes, b.Edges = nil, nil, nil, nil
	return difference("", a, b)
}

// difference compares two specs of one type; in is the prefix of their field names.
func difference(in string, now, before any) string {
	a, b := reflect.ValueOf(now), reflect.ValueOf(before)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || name == "headers" {
			continue
		}
		name = in + name
		if job, is := a.Field(i).Interface().(JobSpec); is {
			if how := difference(name+".", job, b.Field(i).Interface()); how != "" {
				return how
			}
			continue
		}
		if alike(a.Field(i), b.Field(i)) {
			continue
		}
		was, is := shown(b.Field(i)), shown(a.Field(i))
		if _, blob := a.Field(i).Interface().(Blob); blob || len(was)+len(is) > shownBytes {
			return "its " + name + " was another"
		}
		return fmt.Sprintf("its %s was %q, not %q", name, was, is)
	}
	return ""
}

// shown returns a field as JSON text.
func shown(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		return fmt.Sprint(millis.Of(v))
	case time.Time:
		return DateOf(v).String()
	case *Unique:
		text, _ := json.Marshal(v) // cannot fail
		return string(text)
	case *int32:
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	default:
		return fmt.Sprint(v)
	}
}

func alike(a, b reflect.Value) bool {
	if t, is := a.Interface().(time.Time); is {
		return t.Equal(b.Interface().(time.Time))
	}
	if u, is := a.Interface().(*Unique); is {
		return u.Equal(b.Interface().(*Unique))
	}
	if p, is := a.Interface().(*int32); is {
		q := b.Interface().(*int32)
		return p == q || p != nil && q != nil && *p == *q
	}
	switch a.Kind() {
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 || b.Len() == 0 {
			return a.Len() == b.Len()
		}
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		return reflect.DeepEqual(a.Interface(), b.Interface())
	default:
		return a.Equal(b)
	}
}
