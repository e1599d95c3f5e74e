package jsonparts

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Fault is the first reason why a valid JSON text cannot be read into a type. Its path and its words depend on the text
// and the type alone, not on the version of Go.
type Fault struct {
	// Path is where the value is, such as jobs[3].labels.team; "" is the whole text.
	Path string
	// Offset is where the value begins in the text.
	Offset int
	// Twice means that the member at Path is given more than once; Unknown that its object has no such member.
	Twice, Unknown bool
	// Name is the unknown member's name, Known the names that its object has, in the type's order.
	Name  string
	Known []string
	// Got and Want are set for a value of another type or out of its type's range: JSON's words for both.
	Got, Want string
	// Cause is what the type's own reader returned. Within means that it read an object: the cause may name a member.
	Cause  error
	Within bool
}

// Error returns the path and the fault there.
func (f *Fault) Error() string {
	problem := "got " + f.Got + ", want " + f.Want
	switch {
	case f.Twice:
		problem = "given twice, want it once"
	case f.Unknown:
		problem = "unknown field"
	case f.Cause != nil:
		problem = f.Cause.Error()
	}
	if f.Path == "" {
		return problem
	}
	return f.Path + ": " + problem
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// ErrMore is the error for a text that continues after its value.
var ErrMore = errors.New("there is more text after the JSON value")

// Read reads the one JSON value of a text. It refuses a member that is given twice where the type reads it, and with
// strict one that a struct does not have. Its error is a *Fault, ErrMore, a *Broken for a text that is not JSON, or
// io.ErrUnexpectedEOF for one that ends too early.
func Read(text []byte, into any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(into)
	if err != nil {
		var value json.RawMessage
		switch syntax := json.NewDecoder(bytes.NewReader(text)).Decode(&value); {
		case errors.Is(syntax, io.EOF):
			return io.ErrUnexpectedEOF
		case syntax != nil:
			return syntaxOf(text, syntax)
		}
		text = value
	} else {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			return ErrMore
		}
		if !MayRepeat(text) {
			return nil
		}
	}
	if fault := Find(text, reflect.TypeOf(into), strict); fault != nil {
		return fault
	}
	return err
}

// syntaxOf returns why a text is not JSON, in place of the error of encoding/json.
func syntaxOf(text []byte, otherwise error) error {
	switch broken := NotJSON(text); {
	case broken == nil:
		return otherwise
	case errors.Is(broken, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	default:
		return broken
	}
}

// Member is a member of a JSON object as a Go type reads it.
type Member struct {
	Name string
	Type reflect.Type
}

// layouts holds, by type, the members of types that have their own reader and read an object. Packages add to it as
// they are initialised.
var layouts = map[reflect.Type]object{}

// object describes the members that a type reads of an object.
type object struct {
	members []Member
	// strict refuses other members. folds accepts a name in another case, as encoding/json does for a struct.
	strict, folds bool
}

// Describe records the members that a struct's own reader accepts; it ignores others until Strict is called. Both are
// called while packages are initialised.
func Describe(t reflect.Type, members []Member) { layouts[t] = object{members: members} }

// Strict records that a described type refuses other members.
func Strict(t reflect.Type) {
	o := layouts[t]
	o.strict = true
	layouts[t] = o
}

// Find returns the first fault of a valid text for a type, in the text's order; nil where there is none. strict refuses
// members that a struct does not have.
func Find(text []byte, t reflect.Type, strict bool) *Fault {
	value := bytes.TrimSpace(text)
	fault := (&finder{strict: strict}).value(value, t, "")
	if fault != nil { // parts of a slice end where its array ends
		fault.Offset += cap(text)
	}
	return fault
}

// finder finds a fault; its Offset counts from the end of the text's array.
type finder struct{ strict bool }

var (
	anyType     = reflect.TypeFor[any]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	ownReader   = reflect.TypeFor[json.Unmarshaler]()
	textReader  = reflect.TypeFor[encoding.TextUnmarshaler]()
	wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)
)

func (f *finder) value(text []byte, t reflect.Type, path string) *Fault {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	o, described := layouts[t]
	own := reflect.PointerTo(t).Implements(ownReader)
	switch {
	case t == rawType: // read later by other code
		return nil
	case t == anyType:
		return f.any(text, path)
	case own && !described:
		return f.own(text, t, path, false)
	case string(text) == "null":
		return nil // leaves a value as it is
	case reflect.PointerTo(t).Implements(textReader) && !described:
		if text[0] != '"' {
			return mistyped(text, path, "a string")
		}
		return f.own(text, t, path, false)
	case described || t.Kind() == reflect.Struct:
		if !described {
			o = object{members: membersOf(t), strict: f.strict, folds: true}
		}
		if fault := f.object(text, &o, path); fault != nil || !own {
			return fault
		}
		return f.own(text, t, path, true)
	}
	return f.plain(text, t, path)
}

// own reads the value with the type's own reader.
func (f *finder) own(text []byte, t reflect.Type, path string, within bool) *Fault {
	if err := json.Unmarshal(text, reflect.New(t).Interface()); err != nil {
		return &Fault{Path: path, Offset: -cap(text), Cause: err, Within: within}
	}
	return nil
}

// any finds members given twice.
func (f *finder) any(text []byte, path string) *Fault {
	switch text[0] {
	case '{':
		return f.members(text, path, func(string) (reflect.Type, bool) { return anyType, true }, nil)
	case '[':
		return f.elements(text, anyType, path)
	default:
		return nil
	}
}

func (f *finder) object(text []byte, o *object, path string) *Fault {
	if text[0] != '{' {
		return mistyped(text, path, "an object")
	}
	return f.members(text, path, func(name string) (reflect.Type, bool) {
		m := o.find(name)
		if m == nil {
			return anyType, !o.strict
		}
		return m.Type, true
	}, o)
}

// find returns the member of a name, nil for none.
func (o *object) find(name string) *Member {
	for i := range o.members {
		if o.members[i].Name == name {
			return &o.members[i]
		}
	}
	for i := range o.members {
		if o.folds && strings.EqualFold(o.members[i].Name, name) {
			return &o.members[i]
		}
	}
	return nil
}

func (f *finder) members(text []byte, path string, typeOf func(name string) (reflect.Type, bool),
	o *object) (fault *Fault) {
	seen := make(map[string]bool)
	Members(text, func(written, value []byte) {
		if fault != nil {
			return
		}
		name := Name(written)
		at, key := below(path, name), name
		t, known := typeOf(name)
		if o != nil && known {
			if m := o.find(name); m != nil {
				key = m.Name
			}
		}
		switch {
		case seen[key]:
			fault = &Fault{Path: at, Offset: -cap(value), Twice: true}
		case !known:
			fault = &Fault{Path: at, Offset: -cap(value), Unknown: true, Name: name}
			for _, m := range o.members {
				fault.Known = append(fault.Known, m.Name)
			}
		default:
			seen[key] = true
			fault = f.value(value, t, at)
		}
	})
	return fault
}

func (f *finder) elements(text []byte, t reflect.Type, path string) (fault *Fault) {
	i := 0
	Elements(text, func(element []byte) {
		if fault == nil {
			fault = f.value(element, t, path+"["+strconv.Itoa(i)+"]")
		}
		i++
	})
	return fault
}

// plain is value for types that encoding/json reads by their kind.
func (f *finder) plain(text []byte, t reflect.Type, path string) *Fault {
	first := text[0]
	switch t.Kind() {
	case reflect.Bool:
		if first != 't' && first != 'f' {
			return mistyped(text, path, "a boolean")
		}
	case reflect.String:
		if first != '"' {
			return mistyped(text, path, "a string")
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice && first != '[' { // encoding/json reads both
			return bytesOf(text, path)
		}
		if first != '[' {
			return mistyped(text, path, "an array")
		}
		return f.elements(text, t.Elem(), path)
	case reflect.Map:
		if first != '{' {
			return mistyped(text, path, "an object")
		}
		return f.members(text, path, func(string) (reflect.Type, bool) { return t.Elem(), true }, nil)
	case reflect.Float32, reflect.Float64:
		if _, err := strconv.ParseFloat(string(text), t.Bits()); !isNumber(first) || err != nil {
			return mistyped(text, path, "a number")
		}
	default:
		return whole(text, t, path)
	}
	return nil
}

func bytesOf(text []byte, path string) *Fault {
	var s string
	if text[0] != '"' || json.Unmarshal(text, &s) != nil {
		return mistyped(text, path, "a string of base64")
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return &Fault{Path: path, Offset: -cap(text), Got: cut(text), Want: "a string of base64"}
	}
	return nil
}

// whole is plain for the types of whole numbers.
func whole(text []byte, t reflect.Type, path string) *Fault {
	if !isNumber(text[0]) || !wholeNumber.Match(text) {
		return mistyped(text, path, "an integer")
	}
	var err error
	var least, most string
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(string(text), 10, t.Bits())
		least, most = strconv.FormatInt(math.MinInt64>>(64-t.Bits()),
			10), strconv.FormatInt(math.MaxInt64>>(64-t.Bits()), 10)
	default:
		_, err = strconv.ParseUint(string(text), 10, t.Bits())
		least, most = "0", strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10)
	}
	if err != nil {
		return mistyped(text, path, fmt.Sprintf("an integer from %s to %s", least, most))
	}
	return nil
}

func isNumber(first byte) bool { return first == '-' || first >= '0' && first <= '9' }

// mistyped returns the fault of a value of another type: a number is quoted, other values are named by type.
func mistyped(text []byte, path, want string) *Fault {
	got := cut(text)
	switch text[0] {
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "a boolean"
	case 'n':
		got = "null"
	}
	if got == cut(text) && !strings.HasPrefix(want, "an integer") && want != "a number" {
		got = "a number"
	}
	return &Fault{Path: path, Offset: -cap(text), Got: got, Want: want}
}

// cut returns the beginning of a long value.
func cut(text []byte) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:most]), "") + "…"
}

// below returns the path of a member. A name that is not a word is quoted, so that a path is unambiguous.
func below(path, name string) string {
	if !isWord(name) {
		name = strconv.Quote(cut([]byte(name)))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func isWord(name string) bool {
	const most = 80
	return name != "" && len(name) <= most && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// structs holds the members of structs, by type.
var structs sync.Map

// membersOf returns the members that encoding/json reads of a struct.
func membersOf(t reflect.Type) []Member {
	if known, ok := structs.Load(t); ok {
		return known.([]Member)
	}
	var all []Member
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() || f.Anonymous && !tagged {
			continue
		}
		if name == "" {
			name = f.Name
		}
		all = append(all, Member{name, f.Type})
	}
	structs.Store(t, all)
	return all
}
