package codec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// form is how a field is encoded, and its type in words.
type form int

const (
	noForm form = iota
	// text, blob, number and flag are a string, bytes, an integer and a bool on both sides.
	text
	blob
	number
	flag
	// millis and date are an integer of milliseconds, in words a Duration and a Time.
	millis
	date
	// texts, pairs and limits are a list of strings, and maps of strings to strings and to numbers.
	texts
	pairs
	limits
	// enumText is a name on the wire; enumNumber is a number of which not all are known.
	enumText
	enumNumber
	// leaseID is bytes of one length, token a text of one format.
	leaseID
	token
	// refusal and refusalError are a message of its own, an *Error or an error in words.
	refusal
	refusalError
	// nested is another message of the table; part is one that may be missing, nil in words.
	nested
	part
)

// field is a field of a message and its place in words.
type field struct {
	*protogen.Field
	form form
	// path leads from the words to the value, such as Started.Clock; typ is its type.
	path string
	typ  reflect.Type
}

func (f field) number() int { return int(f.Desc.Number()) }

// match finds the place of every field of a message, in the order of the schema.
func match(m message, in *protogen.Message) ([]field, error) {
	var fields []field
	var faults []error
	used := make(map[string]bool)
	for _, f := range in.Fields {
		path, typ := place(m, string(f.Desc.Name()))
		if path == "" {
			faults = append(faults, fmt.Errorf("%s.%s has no field in %v: add one, or its place to the table", m.name,
				f.Desc.Name(), m.words))
			continue
		}
		form := formOf(f.Desc, typ)
		if form == noForm {
			faults = append(faults, fmt.Errorf("%s.%s cannot be a %v", m.name, f.Desc.Name(), typ))
		}
		used[path], used[strings.Split(path, ".")[0]] = true, true
		fields = append(fields, field{f, form, path, typ})
	}
	for i := range m.words.NumField() {
		if name := m.words.Field(i).Name; !used[name] && !slices.Contains(m.unsent, name) {
			faults = append(faults, fmt.Errorf("%v.%s is not a field of %s: add it to the schema", m.words, name, m.name))
		}
	}
	return fields, errors.Join(faults...)
}

// place finds the words for a field: by the table, or by its spelling, where _ms and _clock_ms may be implied by the
// type.
func place(m message, name string) (path string, typ reflect.Type) {
	if path, ok := m.places[name]; ok {
		return path, follow(m.words, path)
	}
	if f, ok := spelled(m.words, name); ok {
		return f.Name, f.Type
	}
	for _, s := range []struct{ suffix, part string }{{"_clock_ms", ".Clock"}, {"_ms", ".Date"}, {"_id", ""}} {
		short, cut := strings.CutSuffix(name, s.suffix)
		f, ok := spelled(m.words, short)
		switch {
		case !cut || !ok:
		case f.Type == reflect.TypeFor[rota.Moment]():
			return f.Name + s.part, follow(m.words, f.Name+s.part)
		default:
			return f.Name, f.Type
		}
	}
	return "", nil
}

// follow returns the type at the end of a path, nil if there is none.
func follow(t reflect.Type, path string) reflect.Type {
	for name := range strings.SplitSeq(path, ".") {
		f, ok := t.FieldByName(name)
		if !ok {
			return nil
		}
		t = f.Type
	}
	return t
}

func spelled(t reflect.Type, name string) (reflect.StructField, bool) {
	name = strings.ReplaceAll(name, "_", "")
	return t.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
}

// special are the types of words that are not treated like their underlying types.
var special = map[reflect.Type]struct {
	form form
	wire protoreflect.Kind
}{
	reflect.TypeFor[time.Duration]():      {millis, protoreflect.Int64Kind},
	reflect.TypeFor[time.Time]():          {date, protoreflect.Int64Kind},
	reflect.TypeFor[rota.JobState]():      {enumText, protoreflect.StringKind},
	reflect.TypeFor[rota.LeaseState]():    {enumText, protoreflect.StringKind},
	reflect.TypeFor[rota.Reason]():        {enumText, protoreflect.StringKind},
	reflect.TypeFor[rota.ReasoningRule](): {enumText, protoreflect.StringKind},
	reflect.TypeFor[rota.LeaseVerb]():     {enumNumber, protoreflect.EnumKind},
	reflect.TypeFor[peer.FailKind]():      {enumNumber, protoreflect.EnumKind},
	reflect.TypeFor[rota.LeaseID]():       {leaseID, protoreflect.BytesKind},
	reflect.TypeFor[rota.Token]():         {token, protoreflect.StringKind},
	reflect.TypeFor[*rota.Error]():        {refusal, protoreflect.MessageKind},
	reflect.TypeFor[error]():              {refusalError, protoreflect.MessageKind},
}

// formOf returns how a field is encoded that is typ in words.
func formOf(d protoreflect.FieldDescriptor, typ reflect.Type) form {
	if typ == nil {
		return noForm
	}
	if s, ok := special[typ]; ok {
		if d.Kind() == s.wire && !d.IsList() {
			return s.form
		}
		return noForm
	}
	switch kind := d.Kind(); {
	case d.IsMap() && typ == reflect.TypeFor[map[string]string](), // as such in the protocol, as sorted lists in the log
		d.IsList() && kind == protoreflect.MessageKind && typ == reflect.TypeFor[map[string]string]():
		return pairs
	case (d.IsMap() || d.IsList() && kind == protoreflect.MessageKind) &&
		typ.ConvertibleTo(reflect.TypeFor[map[string]int64]()):
		return limits
	case d.IsList() && kind == protoreflect.StringKind && typ == reflect.TypeFor[[]string]():
		return texts
	case d.IsList():
		return noForm
	case kind == protoreflect.StringKind && typ.Kind() == reflect.String:
		return text
	case kind == protoreflect.BytesKind && typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8:
		return blob
	case kind == protoreflect.BoolKind && typ.Kind() == reflect.Bool:
		return flag
	case numberKinds[kind] != "" && numberKinds[kind] == typ.Kind().String():
		return number
	case kind == protoreflect.MessageKind && typ.Kind() == reflect.Struct:
		return nested
	case kind == protoreflect.MessageKind && typ.Kind() == reflect.Pointer && typ.Elem().Kind() == reflect.Struct:
		return part
	}
	return noForm
}

// numberKinds are the kinds of integers that are encoded as varints without zigzag.
var numberKinds = map[protoreflect.Kind]string{protoreflect.Int32Kind: "int32", protoreflect.Int64Kind: "int64",
	protoreflect.Uint64Kind: "uint64"}

// sent and taken return the conversion of words to their integer, and its inverse; only millis and date have one.
func (f field) sent(v string) string {
	if f.form == date {
		return fmt.Sprintf("int64(rota.DateOf(%s))", v)
	}
	return fmt.Sprintf("millis.Of(%s)", v)
}

func (f field) taken(v string) string {
	if f.form == date {
		return fmt.Sprintf("rota.Date(%s).Time()", v)
	}
	return fmt.Sprintf("millis.Duration(%s)", v)
}

// plain reports whether a type is one of Go's own.
func plain(t reflect.Type) bool { return t.PkgPath() == "" }
