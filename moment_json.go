package rota

import (
	"cmp"
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/jsonparts"
)

// layout is how the JSON of a struct is laid out: as encoding/json does it, but that
//
//   - a Moment tagged "x" is x_ms, x_at and x_clock_ms,
//   - a Date or a time.Time tagged "x_ms" is x_ms and x_at,
//   - a time.Duration tagged "x_ms" is x_ms, its whole milliseconds, and one tagged "x_us" its microseconds,
//   - neither is written before it is reached, and x_at is taken for x_ms,
//   - a string with the option "raw" that is a JSON object or array as json.Marshal writes
//     them is written as it is, so that no encoder changes a byte of it; any other text is
//     a string, so that each is read back unchanged.
//
// Every type with such a field has a layout and its methods below; an embedded struct is part of the one around it.
type layout struct {
	// of is the type, name its name.
	of     reflect.Type
	name   string
	fields []layoutField
	// slots are the positions of the names of members; those of one field are adjacent.
	slots map[string]int
	// places is how many there are.
	places int
	// strict rejects unknown fields, as people write such JSON.
	strict bool
}

type layoutField struct {
	// name is the name of the field; for a Moment or a Date, without the ending.
	name  string
	index []int
	kind  fieldKind
	// plain is the kind of a plain field whose type has no JSON encoding of its own, otherwise 0.
	plain reflect.Kind
	// empty and zero are omitempty and omitzero.
	empty, zero bool
	// slot is the first of the places of its names.
	slot int
	// most is the longest duration that users may set, in ms or, of one in µs, in µs.
	most int64
}

type fieldKind uint8

const (
	plainField fieldKind = iota
	momentField
	dateField
	timeField
	durationField
	rawField
)

func layoutOf[T any]() *layout {
	l := &layout{of: reflect.TypeFor[T](), name: reflect.TypeFor[T]().Name(), slots: make(map[string]int)}
	l.add(l.of, nil)
	for i := range l.fields {
		f := &l.fields[i]
		f.slot = l.places
		for _, name := range f.names() {
			if _, before := l.slots[name]; !before {
				l.slots[name] = l.places
			}
			l.places++
		}
	}
	jsonparts.Describe(l.of, l.members())
	return l
}

// members are the members of the layout's JSON, with the types as which they are parsed.
func (l *layout) members() (all []jsonparts.Member) {
	for i := range l.fields {
		f := &l.fields[i]
		whole, text := reflect.TypeFor[int64](), reflect.TypeFor[string]()
		types := []reflect.Type{whole, text, whole}
		switch f.kind {
		case plainField:
			types[0] = l.of.FieldByIndex(f.index).Type
		case rawField:
			types[0] = reflect.TypeFor[json.RawMessage]()
		}
		for i, name := range f.names() {
			all = append(all, jsonparts.Member{Name: name, Type: types[i]})
		}
	}
	return all
}

// names are the names of the members from which a field is read.
func (f *layoutField) names() []string {
	switch f.kind {
	case momentField:
		return []string{f.name + "_ms", f.name + "_at", f.name + "_clock_ms"}
	case dateField, timeField:
		return []string{f.name + "_ms", f.name + "_at"}
	default:
		return []string{f.name}
	}
}

// shortest has the durations whose limit is less than MaxDuration, in ms.
var shortest = map[string]int64{"Gate.timeout_ms": MaxGateTimeout.Milliseconds(),
	"Unique.keep_ms": MaxUniqueKeep.Milliseconds()}

// strictly returns the layout of a type that people write.
func strictly(l *layout) *layout {
	l.strict = true
	jsonparts.Strict(l.of)
	return l
}

func (l *layout) add(t reflect.Type, path []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(path), i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged:
			l.add(f.Type, index)
			continue
		case !f.IsExported() || tag == "-":
			continue
		}
		kind, plain := plainField, reflect.Invalid
		switch {
		case f.Type == reflect.TypeFor[Moment]():
			kind = momentField
		case f.Type == reflect.TypeFor[Date]():
			kind, name = dateField, strings.TrimSuffix(name, "_ms")
		case f.Type == reflect.TypeFor[time.Time]():
			kind, name = timeField, strings.TrimSuffix(name, "_ms")
		case f.Type == reflect.TypeFor[time.Duration]():
			kind = durationField
		case hasOption(options, "raw"):
			kind = rawField
		case !ownJSON(f.Type):
			plain = f.Type.Kind()
		}
		most := int64(math.MaxInt64 / time.Microsecond)
		if !strings.HasSuffix(name, "_us") {
			most = cmp.Or(shortest[l.name+"."+name], maxMs)
		}
		l.put(layoutField{name: name, index: index, kind: kind, plain: plain, most: most,
			empty: hasOption(options, "omitempty"), zero: hasOption(options, "omitzero")})
	}
}

// width is how many names it has.
func (f *layoutField) width() int {
	switch f.kind {
	case momentField:
		return 3
	case dateField, timeField:
		return 2
	default:
		return 1
	}
}

// ownJSON reports whether a type has its own JSON encoding or decoding.
func ownJSON(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// put adds a field; of two with one name the outer one counts, as with Go's own.
func (l *layout) put(f layoutField) {
	i := slices.IndexFunc(l.fields, func(o layoutField) bool { return o.name == f.name && o.kind == f.kind })
	switch {
	case i < 0:
		l.fields = append(l.fields, f)
	case len(f.index) < len(l.fields[i].index):
		l.fields[i] = f
	}
}

func hasOption(options, name string) bool {
	return slices.Contains(strings.Split(options, ","), name)
}
