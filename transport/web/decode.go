package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/nearest"
)

// In is a raw request body, in a field of a call's input: it stays unparsed until the call has returned. The HTTP
// library does not touch it.
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

// describeBody returns the schema of the body of a call, nil for a call without one.
func describeBody[I any](r huma.Registry) *huma.Schema {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[I]()) {
		if in, ok := reflect.Zero(f.Type).Interface().(taker); ok {
			return in.describe(r)
		}
	}
	return nil
}

// read decodes the body; an empty body gives a zero T.
func (b *In[T]) read() (v T, err error) {
	if len(b.raw) == 0 {
		return v, nil
	}
	err = decode(b.raw, &v, "")
	return v, err
}

// decode decodes JSON and rejects unknown fields, naming the field within place. null, which encoding/json accepts as
// an empty value, is rejected: a client sends it when its own value is missing.
func decode(raw []byte, into any, place string) error {
	if err := cmp.Or(notNull(raw, place), isText(raw, place)); err != nil {
		return err
	}
	if err := jsonparts.Read(raw, into, true); err != nil {
		return misread(err, place)
	}
	return nil
}

// decodePart is decode for a part of JSON that was read already.
func decodePart(raw json.RawMessage, into json.Unmarshaler, place string) error {
	if err := notNull(raw, place); err != nil {
		return err
	}
	if err := into.UnmarshalJSON(raw); err != nil || jsonparts.MayRepeat(raw) {
		if fault := jsonparts.Find(raw, reflect.TypeOf(into), true); fault != nil {
			return misread(fault, place)
		}
		return misread(err, place)
	}
	return nil
}

// isText rejects text that is not UTF-8, as JSON requires: encoding/json would change it, and a payload would differ
// from the one sent.
func isText(raw []byte, place string) error {
	if utf8.Valid(raw) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, at(place, "body"), "%s is not UTF-8: send other bytes as {\"base64\":\"…\"}",
		at(place, "the body"))
}

func notNull(raw []byte, place string) error {
	if string(bytes.TrimSpace(raw)) == "null" {
		return rota.Refusef(rota.KindInvalid, at(place, "body"), "%s: got null, want an object", at(place, "the body"))
	}
	return nil
}

// misread rejects the input on which jsonparts.Read failed, naming the field within place; it returns nil for nil.
func misread(err error, place string) error {
	if err == nil {
		return nil
	}
	refuse := func(path, format string, args ...any) error {
		return rota.Refusef(rota.KindInvalid, at(path, "body"), format, args...)
	}
	fault, found := errors.AsType[*jsonparts.Fault](err)
	if found {
		own := *fault
		own.Path = within(place, fault.Path)
		fault = &own
	}
	switch ours, refused := errors.AsType[*rota.Error](err); {
	case refused:
		own := *ours
		switch {
		case !found:
			own.Subject = within(place, own.Subject)
		case fault.Within: // the type's reader names the member
			own.Subject = within(fault.Path, own.Subject)
		default:
			own.Subject = fault.Path
		}
		return &own
	case found && fault.Unknown:
		return refuse(fault.Path, "%v%s; GET /openapi.json lists the fields", fault,
			nearest.Question(fault.Name, fault.Known))
	case found:
		return refuse(fault.Path, "%v", fault)
	case errors.Is(err, jsonparts.ErrMore):
		return refuse(place, "got more data after the JSON of %s: send one object", at(place, "body"))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(place, "the JSON of the body ends too early")
	}
	return refuse(place, "the body is not JSON: %s", head(err.Error()))
}

// within returns the name of a field inside place.
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
