package rota

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDifference changes every field separately: each must be named.
func TestDifference(t *testing.T) {
	t.Parallel()
	base := NewJobSpec("work", []byte("p"))
	same := base
	same.Requires, same.Labels, same.ExpectedDigest, same.Minted = []string{}, map[string]string{}, Hex{}, true
	same.Headers = map[string]string{"traceparent": "00-1"} // no content
	if how := base.Difference(&same); how != "" {
		t.Fatalf("the same content differs: %s", how)
	}
	kind := reflect.TypeFor[JobSpec]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name == "-" || name == "headers" {
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
			f.Set(map[reflect.Type]reflect.Value{
				reflect.TypeFor[time.Time]():   reflect.ValueOf(time.UnixMilli(1)),
				reflect.TypeFor[RetryPolicy](): reflect.ValueOf(RetryPolicy{Attempts: 3}),
			}[f.Type()])
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
		case reflect.Pointer:
			f.Set(reflect.ValueOf(&Unique{Key: "x"}))
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

// TestDifference_inside names the fields of a spec inside another one.
func TestDifference_inside(t *testing.T) {
	t.Parallel()
	five, six := int32(5), int32(6)
	batch := BatchSpec{ID: "b", Size: 2, Callback: NewJobSpec("work", []byte("p"))}
	other := batch
	other.Callback.Labels = map[string]string{"a": "b"}
	plan := PlanSpec{ID: "p", Verb: PlanCancel, Filter: "id=*"}
	for _, c := range []struct{ got, want string }{
		{batch.Difference(&batch), ""},
		{other.Difference(&batch), `its callback.labels was "map[]", not "map[a:b]"`},
		{(&BatchSpec{ID: "b", Size: 3, Callback: batch.Callback}).Difference(&batch), `its size was "2", not "3"`},
		{(&PlanSpec{ID: "p", Verb: PlanCancel, Filter: "id=*", Priority: &five}).Difference(&plan),
			`its priority was "", not "5"`},
		{(&PlanSpec{Priority: &five}).Difference(&PlanSpec{Priority: &six}), `its priority was "6", not "5"`},
		{(&PlanSpec{Priority: &five}).Difference(&PlanSpec{Priority: func() *int32 { n := int32(5); return &n }()}),
			""}, {(&PlanSpec{Filter: strings.Repeat("x", 99)}).Difference(&PlanSpec{}), "its filter was another"},
		{(&WorkflowSpec{ID: "w", Nodes: []NodeSpec{{ID: "a"}}}).Difference(&WorkflowSpec{ID: "w"}), ""},
		{(&WorkflowSpec{ID: "w", OnFailure: FailureContinue}).Difference(&WorkflowSpec{ID: "w"}),
			`its on_failure was "fail_fast", not "continue"`},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
