package codec

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// logged writes the conversion between a job's spec and the log's message of it.
func (w *writer) logged(messages map[string]*protogen.Message) error {
	fields, err := match(storedSpec, messages[storedSpec.name])
	if err != nil {
		return err
	}
	w.head("entry", "github.com/rotasched/rota", "github.com/rotasched/rota/fsm/fsmpb", "github.com/rotasched/rota/internal/millis")
	w.convert("fsmpb", fields)
	return nil
}

// stored writes what the state machine makes of a job's spec: the row's canonical bytes
// in the order of the schema, and whether two say alike.
func (w *writer) stored(messages map[string]*protogen.Message) error {
	fields, err := match(storedSpec, messages[storedSpec.name])
	if err != nil {
		return err
	}
	w.head("fsm", "maps", "slices", "", "github.com/rotasched/rota", "github.com/rotasched/rota/internal/millis")
	w.row(fields)
	w.alike(fields)
	return nil
}

// row writes the canonical encoding of a spec and its decoder.
func (w *writer) row(fields []field) {
	w.line("\nfunc encodeSpec(e *encoder, s *keptSpec) {")
	for _, f := range fields {
		v := "s." + f.path
		switch f.form {
		case text:
			w.line("e.str(%s)", cast(f, "string", v))
		case number:
			w.line("e.int(%s)", cast(f, "int64", v))
		case millis, date:
			w.line("e.int(%s)", f.sent(v))
		case flag:
			w.line("e.bool(%s)", v)
		case blob:
			w.line("e.bytes(%s)", v)
		case texts:
			w.line("e.strs(%s)", v)
		case pairs:
			w.line("encodePairs(e, %s)", v)
		case limits:
			w.line("encodeLimits(e, %s)", v)
		}
	}
	w.line("}\n\nfunc decodeSpec(d *decoder) *keptSpec {\nvar s rota.JobSpec")
	for _, f := range fields {
		v := "s." + f.path
		switch f.form {
		case text:
			w.line("%s = %s", v, back(f, "string", "d.str()"))
		case number:
			w.line("%s = %s", v, back(f, "int64", "d.int()"))
		case millis, date:
			w.line("%s = %s", v, f.taken("d.int()"))
		case flag:
			w.line("%s = d.bool()", v)
		case blob:
			w.line("%s = d.bytes()", v)
		case texts:
			w.line("%s = d.strs()", v)
		case pairs:
			w.line("%s = decodePairs(d)", v)
		case limits:
			w.line("%s = decodeLimits(d)", v)
		}
	}
	w.line("return d.specs.keep(&s)\n}")
}

// cast converts words to one of Go's types, back the other way.
func cast(f field, to, v string) string {
	if f.typ.String() == to {
		return v
	}
	return fmt.Sprintf("%s(%s)", to, v)
}

func back(f field, from, v string) string {
	if f.typ.String() == from {
		return v
	}
	return fmt.Sprintf("%v(%s)", f.typ, v)
}

// alike writes the comparison of what many jobs share: all but id and payload.
func (w *writer) alike(fields []field) {
	w.line("\n// saysAlike compares all that a keptSpec leaves to what it shares.\nfunc saysAlike(a, b *rota.JobSpec) bool {")
	var quick, lists, maps []string
	for _, f := range fields {
		switch {
		case slices.Contains([]string{"ID", "Payload"}, f.path):
		case f.form == date:
			quick = append(quick, fmt.Sprintf("a.%[1]s.Equal(b.%[1]s)", f.path))
		case f.typ.Comparable():
			quick = append(quick, fmt.Sprintf("a.%[1]s == b.%[1]s", f.path))
		case f.form == pairs || f.form == limits:
			maps = append(maps, fmt.Sprintf("maps.Equal(a.%[1]s, b.%[1]s)", f.path))
		default:
			lists = append(lists, fmt.Sprintf("slices.Equal(a.%[1]s, b.%[1]s)", f.path))
		}
	}
	w.line("return %s\n}", strings.Join(slices.Concat(quick, lists, maps), " &&\n"))
}
