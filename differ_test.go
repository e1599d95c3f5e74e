package rota

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDifference changes every field by itself: each must be named.
func TestDifference(t *testing.T) {
	t.Parallel()
	base := NewJobSpec("work", []byte("p"))
	same := base
	same.Requires, same.Labels, same.ExpectedDigest, same.Minted = []string{}, map[string]string{}, Hex{}, true
	if how := base.Difference(&same); how != "" {
		t.Fatalf("the same content differs: %s", how)
	}
	kind := reflect.TypeFor[JobSpec]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		other := base
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int32, reflect.Int64:
			f.SetInt(f.Int() + 1)
		case reflect.Struct:
			f.Set(reflect.ValueOf(time.UnixMilli(1)))
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.Uint8 {
				f.SetBytes([]byte("other"))
			} else {
				f.Set(reflect.ValueOf([]string{"x"}))
			}
		case reflect.Map:
			m := reflect.MakeMap(f.Type())
			m.SetMapIndex(reflect.ValueOf("x"), reflect.New(f.Type().Elem()).Elem())
			f.Set(m)
		default:
			t.Fatalf("field %s is of a kind that Difference does not know", name)
		}
		if how := other.Difference(&base); !strings.Contains(how, "its "+name+" was ") {
			t.Errorf("another %s: %q", name, how)
		}
	}
	other := base
	other.Type = "else"
	if how := other.Difference(&base); how != `its type was "work", not "else"` {
		t.Errorf("got %s", how)
	}
}
