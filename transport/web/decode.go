package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
)

// In is a body that comes, in a field of what a call takes: as it came, until the call has returned. The library of
// HTTP has no hand in it.
type In[T any] struct{ raw []byte }

// taker is an In of any type.
type taker interface {
	describe(huma.Registry) *huma.Schema
}

func (In[T]) describe(r huma.Registry) *huma.Schema { return schemaOf[T](r) }

// Resolve implements huma.Resolver.
func (b *In[T]) Resolve(ctx huma.Context) []error {
	came, _ := ctx.Context().Value(bodyKey{}).(*body)
	if came == nil {
		return nil
	}
	raw, err := came.whole()
	if err != nil {
		return []error{err}
	}
	b.raw = raw
	return nil
}

// describeBody returns the schema of the body that a call takes, nil where it takes none.
func describeBody[I any](r huma.Registry) *huma.Schema {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[I]()) {
		if in, ok := reflect.Zero(f.Type).Interface().(taker); ok {
			return in.describe(r)
		}
	}
	return nil
}

// read reads the body; none is a T that says nothing.
func (b *In[T]) read() (v T, err error) {
	if len(b.raw) == 0 {
		return v, nil
	}
	err = decode(b.raw, &v, "")
	return v, err
}

// decode reads JSON and refuses what it does not know, naming the field beneath a place. null, which encoding/json takes
// for anything that says nothing, is refused: it is what a client sends whose own value is missing.
func decode(raw []byte, into any, place string) error {
	if err := cmp.Or(notNull(raw, place), isText(raw, place)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return rota.Refusef(rota.KindInvalid, at(place, "body"), "there is more behind the JSON of %s: one object is wanted", at(place, "body"))
		}
		return nil
	}
	return misread(err, place)
}

// decodePart is decode for a part of JSON that was read already.
func decodePart(raw json.RawMessage, into json.Unmarshaler, place string) error {
	if err := notNull(raw, place); err != nil {
		return err
	}
	if err := into.UnmarshalJSON(raw); err != nil {
		return misread(err, place)
	}
	return nil
}

// isText refuses what is not UTF-8, as JSON is: encoding/json makes something else of it, and a payload would not be what was sent.
func isText(raw []byte, place string) error {
	if utf8.Valid(raw) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, at(place, "body"), "%s is not in UTF-8, as JSON is: give bytes as {\"base64\":\"…\"}", at(place, "the body"))
}

func notNull(raw []byte, place string) error {
	if string(bytes.TrimSpace(raw)) == "null" {
		return rota.Refusef(rota.KindInvalid, at(place, "body"), "%s is null: an object is wanted", at(place, "the body"))
	}
	return nil
}

// misread refuses what encoding/json did not take, naming the field beneath a place.
func misread(err error, place string) error {
	if e, ok := errors.AsType[*rota.Error](err); ok {
		own := *e
		own.Subject = within(place, e.Subject)
		return &own
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := within(place, e.Field)
		article := "a"
		if strings.HasPrefix(e.Value, "object") || strings.HasPrefix(e.Value, "array") {
			article = "an"
		}
		return rota.Refusef(rota.KindInvalid, field, "%s is %s %s: %s is wanted", field, article, e.Value, wanted(e))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field := within(place, head(strings.Trim(name, `"`)))
		return rota.Refusef(rota.KindInvalid, field, "field %q is unknown: GET /openapi.json has those that are taken", field)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return rota.Refusef(rota.KindInvalid, at(place, "body"), "the JSON of the body ends too early")
	}
	return rota.Refusef(rota.KindInvalid, at(place, "body"), "the body is not JSON: %s", head(err.Error()))
}

// within names a field beneath a place.
func within(place, field string) string {
	switch {
	case place == "":
		return at(field, "body")
	case field == "":
		return place
	}
	return place + "." + field
}

func at(place, otherwise string) string {
	if place == "" {
		return otherwise
	}
	return place
}

// wanted says in JSON's words what a field takes.
func wanted(e *json.UnmarshalTypeError) string {
	switch name := e.Type.Kind().String(); {
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "a whole number within " + name
	case name == "bool":
		return "true or false"
	case name == "slice", name == "array":
		return "a list"
	case name == "map", name == "struct":
		return "an object"
	default:
		return "a " + name
	}
}
