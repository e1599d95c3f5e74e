package sched

import (
	"reflect"
	"testing"

	"github.com/rotasched/rota"
)

// Whatever field of a job differs: jobs of two classes are not the same.
func TestSameRequirements(t *testing.T) {
	changed := 0
	for i := range reflect.TypeFor[rota.JobSpec]().NumField() {
		var a, b rota.JobSpec
		field := reflect.ValueOf(&b).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Int32, reflect.Int64:
			field.SetInt(7)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			if e := field.Index(0); e.Kind() == reflect.String {
				e.SetString("x")
			}
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.Zero(field.Type().Elem()))
		default:
			continue
		}
		before, after := RequirementsOf(&a), RequirementsOf(&b)
		if before.Key() == after.Key() {
			continue
		}
		changed++
		if SameRequirements(&a, &b) {
			t.Errorf("%s decides the class, and is not compared", reflect.TypeFor[rota.JobSpec]().Field(i).Name)
		}
		if !SameRequirements(&b, &b) {
			t.Errorf("a job differs from itself with %s", reflect.TypeFor[rota.JobSpec]().Field(i).Name)
		}
	}
	if changed != 11 {
		t.Errorf("%d fields decide the class, 11 were known", changed)
	}
}
