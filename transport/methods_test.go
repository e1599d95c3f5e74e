package transport

import (
	"maps"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// TestMethods checks by reflection over a server's services that the table of calls and rights has every call and no
// other, and that each states exactly one rule.
func TestMethods(t *testing.T) {
	t.Parallel()
	s, err := NewServer(Options{Self: "n1", Core: &fakeCore{}, ReadyEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var served []string
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			served = append(served, "/"+service+"/"+m.Name)
		}
	}
	for _, r := range s.site.Routes() {
		served = append(served, r.Name)
		if want, known := methods[r.Call]; r.Call != "" && (!known || methods[r.Name] != want) {
			t.Errorf("%s needs %+v, and the call that it is, %s, %+v", r.Name, methods[r.Name], r.Call, want)
		}
	}
	for _, m := range rotav1.Node_ServiceDesc.Methods {
		served = append(served, "/rota.v1.Node/"+m.MethodName)
	}
	for _, m := range rotav1.Node_ServiceDesc.Streams {
		served = append(served, "/rota.v1.Node/"+m.StreamName)
	}
	for _, method := range served {
		if _, ok := methods[method]; !ok {
			t.Errorf("%s is served and not in the table: say what right it needs", method)
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if !slices.Contains(served, method) {
			t.Errorf("%s is in the table and not served", method)
		}
		says := 0
		for _, is := range []bool{methods[method].anybody, methods[method].members, methods[method].known,
			methods[method].right != rota.RightNone} {
			if is {
				says++
			}
		}
		if says != 1 {
			t.Errorf("%s has %d of a right, anybody, known and members: want one", method, says)
		}
	}
}
