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
	w.head("entry", "github.com/rotasched/rota", "github.com/rotasched/rota/fsm/fsmpb",
		"github.com/rotasched/rota/internal/millis")
	w.convert("fsmpb", fields)
	return nil
}

// stored writes the state machine's functions of a job's spec: the row's canonical bytes in the order of the schema,
// and whether two are equal.
func (w *writer) stored(messages map[string]*protogen.Message) error {
	fields, err := match(storedSpec, messages[storedSpec.name])
	if err != nil {
		return err
	}
	if err := refuseNew(fields); err != nil {
		return err
	}
	w.head("state", "maps", "slices", "", "github.com/rotasched/rota", "github.com/rotasched/rota/internal/millis")
	w.row(fields)
	w.alike(fields)
	return nil
}

// row writes the canonical encoding of a spec and its decoder.
func (w *writer) row(fields []field) {
	w.line("\n// EncodeParts writes a spec, and returns where the payload stands; the parts that are a job's own are passed beside it.")
	w.line("func EncodeParts(e *Encoder, s *KeptSpec, headers, payload []byte) (at int) {")
	for _, f := range fields {
		if line := encodes(f, fields); slices.Contains(later, f.path) {
			w.line("if %s {\n%s\n}", isSet(f), line)
		} else {
			w.line("%s", line)
		}
	}
	w.line("return at\n}\n\nfunc decodeSpec(d *Decoder) *KeptSpec {\nvar s rota.JobSpec\nvar set [%d]bool", 2+len(later))
	for _, f := range fields {
		if at := slices.Index(later, f.path); at >= 0 {
			w.line("if set[%d] {\nif %s; %s {\nd.Fail()\n}\n}", 2+at, decodes(f), isUnset(f))
		} else {
			w.line("%s", decodes(f))
		}
	}
	w.line("return d.Specs.Keep(&s)\n}")
}

// encodes returns the statements that write a field.
func encodes(f field, fields []field) string {
	v := "s." + f.path
	switch f.form {
	case text:
		return fmt.Sprintf("e.Str(%s)", cast(f, "string", v))
	case number:
		return fmt.Sprintf("e.Int(%s)", cast(f, "int64", v))
	case millis, date:
		return fmt.Sprintf("e.Int(%s)", f.sent(v))
	case flag: // also states whether headers and later fields follow: a spec without them needs no further byte
		set := []string{v, "len(headers) > 0"}
		for _, path := range later {
			set = append(set, isSet(fields[slices.IndexFunc(fields, func(f field) bool { return f.path == path })]))
		}
		return fmt.Sprintf("e.flags(%s)", strings.Join(set, ", "))
	case blob:
		if own(f, v) != v {
			return fmt.Sprintf("at = len(e.B)\ne.bytes(%s)", own(f, v))
		}
		return fmt.Sprintf("e.bytes(%s)", v)
	case texts:
		return fmt.Sprintf("e.strs(%s)", v)
	case pairs:
		if own(f, v) != v {
			return "if len(headers) > 0 {\ne.bytes(headers)\n}"
		}
		return fmt.Sprintf("encodePairs(e, %s)", v)
	case limits:
		return fmt.Sprintf("encodeLimits(e, %s)", v)
	case part:
		return fmt.Sprintf("encode%s(e, %s)", f.Message.GoIdent.GoName, v)
	}
	return ""
}

// decodes returns the statements that read a field; one statement if it may be a later one.
func decodes(f field) string {
	v := "s." + f.path
	switch f.form {
	case text:
		return fmt.Sprintf("%s = %s", v, back(f, "string", "d.Str()"))
	case number:
		return fmt.Sprintf("%s = %s", v, back(f, "int64", "d.Int()"))
	case millis, date:
		return fmt.Sprintf("%s = %s", v, f.taken("d.Int()"))
	case flag:
		return fmt.Sprintf("d.flags(set[:])\n%s = set[0]", v)
	case blob:
		return v + " = d.bytes()"
	case texts:
		return v + " = d.strs()"
	case pairs:
		if own(f, v) != v {
			return fmt.Sprintf("if set[1] {\n%s = decodeHeaders(d)\n}", v)
		}
		return v + " = decodePairs(d)"
	case limits:
		return v + " = decodeLimits(d)"
	case part:
		return fmt.Sprintf("%s = decode%s(d)", v, f.Message.GoIdent.GoName)
	}
	return ""
}

// later are the fields that came with rules version 2: a spec without them has the bytes of version 1.
var later = []string{"StartBy", "Costs"}

// laterForms are the forms that a later field may have.
var laterForms = []form{text, number, millis, date, texts, pairs, limits}

// isSet and isUnset return the conditions under which a later field has a value, and has none.
func isSet(f field) string { return condition(f, "!=", ">") }

func isUnset(f field) string { return condition(f, "==", "==") }

func condition(f field, value, length string) string {
	switch f.form {
	case texts, pairs, limits:
		return fmt.Sprintf("len(s.%s) %s 0", f.path, length)
	case text:
		return fmt.Sprintf(`s.%s %s ""`, f.path, value)
	}
	return fmt.Sprintf("s.%s %s 0", f.path, value)
}

// released are the fields whose canonical bytes v0.1.0 wrote: every spec has them, so no field may join them.
var released = strings.Fields(`ID Queue Type Tenant Priority Fee SizeBytes Payload Delay NotBefore TTL MaxRuntime CPUMilli MemoryBytes IOBytesPerS
	Requires RegionsAllow RegionsDeny Zone Domain Worker ExpectedDigest Simulate Units Labels Limits Expected RetryOnInvalidProof DataKeys
	Retry.Attempts Retry.Base Retry.FactorPermille Retry.Cap Retry.JitterPermille Unique Keys Batch Headers`)

// refuseNew returns an error for a field that would change the canonical bytes of specs that do not use it.
func refuseNew(fields []field) error {
	for _, f := range fields {
		if slices.Contains(later, f.path) && !slices.Contains(laterForms, f.form) {
			return fmt.Errorf("field %s of a job's spec: got a form that a later field cannot have; use a text, a number, "+
				"a duration, a date, or a list of them", f.path)
		}
		if !slices.Contains(later, f.path) && !slices.Contains(released, f.path) {
			return fmt.Errorf(
				"field %s of a job's spec: the canonical form has no place for it, and would change for every job; "+
					"add it to later in internal/generate/codec/stored.go, which writes it only where it is set",
				f.path)
		}
	}
	return nil
}

// ownParts are particular to each job: its row has them next to the parts that many jobs share.
var ownParts = []string{"ID", "Payload", "Headers"}

// own returns the place of a field in a row: payload and headers are passed next to the shared parts.
func own(f field, v string) string {
	if slices.Contains(ownParts[1:], f.path) {
		return strings.ToLower(f.path)
	}
	return v
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

// alike writes the comparison of what many jobs share: everything but their own parts.
func (w *writer) alike(fields []field) {
	w.line("\n// saysAlike compares all that a KeptSpec leaves to what it shares.\nfunc saysAlike(a, b *rota.JobSpec) bool {")
	var quick, lists, maps []string
	for _, f := range fields {
		switch {
		case slices.Contains(ownParts, f.path):
		case f.form == part:
			lists = append(lists, fmt.Sprintf("a.%[1]s.Equal(b.%[1]s)", f.path))
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
