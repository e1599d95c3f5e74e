package workload

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// TestServedEvent makes the raw watcher read an event with all fields: a field that it left out would look, in every
// run, like a difference from the events of the client's watcher.
func TestServedEvent(t *testing.T) {
	t.Parallel()
	w := &rotav1.ServedEvent{EventId: "1.2.3", ParentEventId: "1.2.2", Kind: rota.EventJobAssigned.String(),
		Reason: rota.ReasonTimedOut.String(), Status: rota.WorkerActive.String(),
		LeaseId:        make([]byte, len(rota.LeaseID{})),
		PriorStateHash: strings.Repeat("ab", 16), PostStateHash: strings.Repeat("cd", 16)}
	w.LeaseId[0] = 1
	m := w.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if m.Has(f) {
			continue
		}
		switch f.Kind() {
		case protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(string(f.Name())))
		case protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte{7}))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(7))
		case protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(7))
		case protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(7))
		default:
			t.Fatalf("field %s is a %s: specify its possible values", f.Name(), f.Kind())
		}
	}
	e, err := servedEvent(w)
	if err != nil {
		t.Fatal(err)
	}
	for v, i := reflect.ValueOf(e.Event), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not read", v.Type().Field(i).Name)
		}
	}
	if e.PayloadHash == nil || e.Prior == (rota.Digest{}) || e.Post == (rota.Digest{}) {
		t.Errorf("the hashes are not read: %+v", e)
	}
}

// TestServedEvent_firstOfAll makes the raw watcher read the very first event, whose state before it is empty.
func TestServedEvent_firstOfAll(t *testing.T) {
	t.Parallel()
	w := &rotav1.ServedEvent{EventId: "1.3.0", ParentEventId: "0.0.0", Kind: rota.EventQueueChanged.String(),
		Reason: rota.ReasonNone.String(), PostStateHash: strings.Repeat("cd", 16)}
	e, err := servedEvent(w)
	if err != nil || e.Prior != (rota.Digest{}) || e.Post == (rota.Digest{}) {
		t.Errorf("%+v, %v", e, err)
	}
	w.PriorStateHash = "00"
	if _, err := servedEvent(w); err == nil {
		t.Error("half a hash is read")
	}
}
