package fsm

import (
	"reflect"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestSpecs_keepEveryField checks that a row keeps every field of a spec: one forgotten in keep or in the comparison is
// lost here. The hash is the same whether the encoding is available or not.
func TestSpecs_keepEveryField(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[rota.JobSpec]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Minted" {
			continue // not part of the job
		}
		var s rota.JobSpec
		field := reflect.ValueOf(&s).Elem().Field(i)
		setSomething(t, field)
		for _, last := range []*rota.JobSpec{nil, {}, {Fee: 77}, {Priority: 3, Fee: 1}} {
			var k state.Specs
			for i := range k.Shared { // wherever it looks
				if last != nil {
					k.Shared[i].Take(&k.Enc, last)
				}
			}
			kept := k.Keep(&s)
			if got := kept.Words(); !reflect.DeepEqual(got, s) {
				t.Errorf("%s is lost after %+v: %+v", name, last, got)
			}
			if got, want := k.Hash(&state.Encoder{}, kept), state.HashSpec(&state.Encoder{}, kept); got != want {
				t.Errorf("with %s, after %+v, the hash is %s, want that of all fields, %s", name, last, got, want)
			}
		}
		var none *state.Specs
		if got := none.Keep(&s).Words(); !reflect.DeepEqual(got, s) {
			t.Errorf("%s is lost where nothing is shared: %+v", name, got)
		}
	}
}

func setSomething(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.String:
		f.SetString("a")
	case reflect.Int32, reflect.Int64:
		f.SetInt(1)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Struct:
		if f.Type() == reflect.TypeFor[time.Time]() {
			f.Set(reflect.ValueOf(rota.Date(1).Time()))
			return
		}
		for i := range f.NumField() {
			setSomething(t, f.Field(i))
		}
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		setSomething(t, f.Elem())
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		if e := f.Index(0); e.Kind() == reflect.String {
			e.SetString("a")
		}
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		v := reflect.New(f.Type().Elem()).Elem()
		setSomething(t, v)
		f.SetMapIndex(reflect.ValueOf("k"), v)
	default:
		t.Fatalf("a field of kind %s is new: specify a value for it", f.Kind())
	}
}

// TestSpecs_share checks that equal specs are shared, and a different one is not.
func TestSpecs_share(t *testing.T) {
	t.Parallel()
	var k state.Specs
	a := k.Keep(&rota.JobSpec{ID: "a", CPUMilli: 5, Labels: map[string]string{"k": "v"}})
	b := k.Keep(&rota.JobSpec{ID: "b", CPUMilli: 5, Labels: map[string]string{"k": "v"}, Payload: []byte("p")})
	c := k.Keep(&rota.JobSpec{ID: "c", CPUMilli: 6})
	d, e := k.Keep(&rota.JobSpec{ID: "d", Tenant: "x"}), k.Keep(&rota.JobSpec{ID: "e", Tenant: "y"})
	f, g := k.Keep(&rota.JobSpec{ID: "f", Tenant: "x"}), k.Keep(&rota.JobSpec{ID: "g", Tenant: "y"})
	if a.SharedSpec != b.SharedSpec || b.SharedSpec == c.SharedSpec || d.SharedSpec != f.SharedSpec ||
		e.SharedSpec != g.SharedSpec ||
		d.SharedSpec == e.SharedSpec {
		t.Error("equal specs do not share, or different ones do")
	}
	h := k.Keep(&rota.JobSpec{ID: "h", Tenant: "y", Payload: []byte("p"),
		Headers: map[string]string{"traceparent": "1"}})
	i := k.Keep(&rota.JobSpec{ID: "i", Tenant: "y", Headers: map[string]string{"traceparent": "2"}})
	if h.SharedSpec == g.SharedSpec || h.SharedSpec != i.SharedSpec {
		t.Error("jobs with headers do not share their other fields, or share them with jobs without headers")
	}
	if w := h.Words(); w.Headers["traceparent"] != "1" || string(w.Payload) != "p" ||
		h.SharedSpec.JobSpec.Headers != nil {
		t.Errorf("h came back as %+v", w)
	}
	if w := b.Words(); w.ID != "b" || string(w.Payload) != "p" || w.CPUMilli != 5 || w.Labels["k"] != "v" {
		t.Errorf("b came back as %+v", w)
	}
}

// TestSpecs_check checks that a spec is refused for its own faults, whichever specs were found sound before.
func TestSpecs_check(t *testing.T) {
	t.Parallel()
	var k state.Specs
	check := func(change func(*rota.JobSpec)) {
		s := jobSpec("j")
		change(s)
		k.Keep(s)
		got, want := k.Check(s, 10), s.CheckShape(10)
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("%+v is refused with %v, want %v", s, got, want)
		}
	}
	changes := []func(*rota.JobSpec){
		func(*rota.JobSpec) {},
		func(s *rota.JobSpec) { s.ID = "no id" },
		func(s *rota.JobSpec) { s.Type = "no type" },
		func(s *rota.JobSpec) { s.Fee = -1 },
		func(s *rota.JobSpec) { s.Labels = map[string]string{"": "no name"} },
		func(s *rota.JobSpec) { s.Payload = make([]byte, 100) },
		func(s *rota.JobSpec) { s.Headers = map[string]string{"no name": ""} },
		func(s *rota.JobSpec) { s.Headers = map[string]string{"a": "b"} },
	}
	for _, before := range changes {
		for _, change := range changes {
			check(before)
			check(change)
		}
	}
}
