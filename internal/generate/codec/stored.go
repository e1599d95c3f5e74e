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
		v := "s." + f.path
		switch f.form {
		case text:
			w.line("e.Str(%s)", cast(f, "string", v))
		case number:
			w.line("e.Int(%s)", cast(f, "int64", v))
		case millis, date:
			if slices.Contains(later, f.path) {
				w.line("if %s {\ne.Int(%s)\n}", isSet(f), f.sent(v))
			} else {
				w.line("e.Int(%s)", f.sent(v))
			}
		case flag: // also states whether headers and later fields follow: a spec without them needs no further byte
			set := []string{v, "len(headers) > 0"}
			for _, path := range later {
				set = append(set, isSet(fields[slices.IndexFunc(fields, func(f field) bool { return f.path == path })]))
			}
			w.line("e.flags(%s)", strings.Join(set, ", "))
		case blob:
			if own(f, v) != v {
				w.line("at = len(e.B)")
			}
			w.line("e.bytes(%s)", own(f, v))
		case texts:
			w.line("e.strs(%s)", v)
		case pairs:
			if own(f, v) != v {
				w.line("if len(headers) > 0 {\ne.bytes(headers)\n}")
			} else {
				w.line("encodePairs(e, %s)", v)
			}
		case limits:
			if slices.Contains(later, f.path) {
				w.line("if %s {\nencodeLimits(e, %s)\n}", isSet(f), v)
			} else {
				w.line("encodeLimits(e, %s)", v)
			}
		case part:
			w.line("encode%s(e, %s)", f.Message.GoIdent.GoName, v)
		}
	}
	w.line("return at\n}\n\nfunc decodeSpec(d *Decoder) *KeptSpec {\nvar s rota.JobSpec\nvar set [%d]bool", 2+len(later))
	for _, f := range fields {
		v := "s." + f.path
		switch f.form {
		case text:
			w.line("%s = %s", v, back(f, "string", "d.Str()"))
		case number:
			w.line("%s = %s", v, back(f, "int64", "d.Int()"))
		case millis, date:
			if at := slices.Index(later, f.path); at >= 0 {
				w.line("if set[%[3]d] {\nif %[1]s = %[2]s; %[1]s == 0 {\nd.Fail()\n}\n}", v, f.taken("d.Int()"), 2+at)
			} else {
				w.line("%s = %s", v, f.taken("d.Int()"))
			}
		case flag:
			w.line("d.flags(set[:])\n%s = set[0]", v)
		case blob:
			w.line("%s = d.bytes()", v)
		case texts:
			w.line("%s = d.strs()", v)
		case pairs:
			if own(f, v) != v {
				w.line("if set[1] {\n%s = decodeHeaders(d)\n}", v)
			} else {
				w.line("%s = decodePairs(d)", v)
			}
		case limits:
			if at := slices.Index(later, f.path); at >= 0 {
				w.line("if set[%[2]d] {\nif %[1]s = decodeLimits(d); len(%[1]s) == 0 {\nd.Fail()\n}\n}", v, 2+at)
			} else {
				w.line("%s = decodeLimits(d)", v)
			}
		case part:
			w.line("%s = decode%s(d)", v, f.Message.GoIdent.GoName)
		}
	}
	w.line("return d.Specs.Keep(&s)\n}")
}

// later are the fields that came with rules version 2: a spec without them has the bytes of version 1.
var later = []string{"StartBy", "Costs"}

// isSet returns the condition under which a later field has a value.
func isSet(f field) string {
	if f.form == limits {
		return "len(s." + f.path + ") > 0"
	}
	return "s." + f.path + " != 0"
}

// released are the fields whose canonical bytes v0.1.0 wrote: every spec has them, so no field may join them.
var released = strings.Fields(`ID Queue Type Tenant Priority Fee SizeBytes Payload Delay NotBefore TTL MaxRuntime CPUMilli MemoryBytes IOBytesPerS
	Requires RegionsAllow RegionsDeny Zone Domain Worker ExpectedDigest Simulate Units Labels Limits Expected RetryOnInvalidProof DataKeys
	Retry.Attempts Retry.Base Retry.FactorPermille Retry.Cap Retry.JitterPermille Unique Keys Batch Headers`)

// refuseNew returns an error for a field that would change the canonical bytes of specs that do not use it.
func refuseNew(fields []field) error {
	for _, f := range fields {
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
