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
			if f.path == later {
				w.line("if %s != 0 {\ne.Int(%s)\n}", v, f.sent(v))
			} else {
				w.line("e.Int(%s)", f.sent(v))
			}
		case flag: // also says whether headers and later fields follow: a spec without them needs no further byte
			w.line("e.flags(%s, len(headers) > 0, s.%s != 0)", v, later)
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
			w.line("encodeLimits(e, %s)", v)
		case part:
			w.line("encode%s(e, %s)", f.Message.GoIdent.GoName, v)
		}
	}
	w.line("return at\n}\n\nfunc decodeSpec(d *Decoder) *KeptSpec {\nvar s rota.JobSpec\nvar headed, later bool")
	for _, f := range fields {
		v := "s." + f.path
		switch f.form {
		case text:
			w.line("%s = %s", v, back(f, "string", "d.Str()"))
		case number:
			w.line("%s = %s", v, back(f, "int64", "d.Int()"))
		case millis, date:
			if f.path == later {
				w.line("if later {\nif %[1]s = %[2]s; %[1]s == 0 {\nd.Fail()\n}\n}", v, f.taken("d.Int()"))
			} else {
				w.line("%s = %s", v, f.taken("d.Int()"))
			}
		case flag:
			w.line("%s, headed, later = d.flags()", v)
		case blob:
			w.line("%s = d.bytes()", v)
		case texts:
			w.line("%s = d.strs()", v)
		case pairs:
			if own(f, v) != v {
				w.line("if headed {\n%s = decodeHeaders(d)\n}", v)
			} else {
				w.line("%s = decodePairs(d)", v)
			}
		case limits:
			w.line("%s = decodeLimits(d)", v)
		case part:
			w.line("%s = decode%s(d)", v, f.Message.GoIdent.GoName)
		}
	}
	w.line("return d.Specs.Keep(&s)\n}")
}

// later is the field that came with rules version 2: a spec without it has the bytes of version 1.
const later = "StartBy"

// released are the fields whose canonical bytes v0.1.0 wrote: every spec has them, so no field may join them.
var released = strings.Fields(`ID Queue Type Tenant Priority Fee SizeBytes Payload Delay NotBefore TTL MaxRuntime CPUMilli MemoryBytes IOBytesPerS
	Requires RegionsAllow RegionsDeny Zone Domain Worker ExpectedDigest Simulate Units Labels Limits Expected RetryOnInvalidProof DataKeys
	Retry.Attempts Retry.Base Retry.FactorPermille Retry.Cap Retry.JitterPermille Unique Keys Batch Headers`)

// refuseNew returns an error for a field that would change the canonical bytes of specs that do not use it.
func refuseNew(fields []field) error {
	for _, f := range fields {
		if f.path != later && !slices.Contains(released, f.path) {
			return fmt.Errorf(
				"field %s of a job's spec: the canonical form has no place for it, and would change for every job; "+
					"write it after StartBy, under a bit of its own in flags, only where it is set (row in internal/generate/codec/stored.go)",
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
