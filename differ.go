package rota

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

// shownBytes is the longest value that Difference shows.
const shownBytes = 64

// Difference names the first field, as JSON has it, in which two specs of a job are not
// the same content (SPEC §16.5), with both values where they are short; "" where there is
// none. Empty lists, maps and payloads are as good as none.
func (s *JobSpec) Difference(other *JobSpec) string {
	a, b := reflect.ValueOf(*s), reflect.ValueOf(*other)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || alike(a.Field(i), b.Field(i)) {
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

// shown returns a field as JSON has it.
func shown(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		return fmt.Sprint(millis.Of(v))
	case time.Time:
		return DateOf(v).String()
	default:
		return fmt.Sprint(v)
	}
}

func alike(a, b reflect.Value) bool {
	if t, is := a.Interface().(time.Time); is {
		return t.Equal(b.Interface().(time.Time))
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
