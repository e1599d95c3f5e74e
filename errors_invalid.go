package rota

import (
	"strconv"
	"strings"

	"github.com/rotasched/rota/internal/nearest"
)

// maxShown is how many bytes of a refused value an error shows.
const maxShown = 80

// shorten cuts a value for a message to maxShown bytes of whole UTF-8 characters. A cut value ends with "…".
func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

// OutOfRange returns an error of kind KindInvalid for a number outside low to high, both included. The numbers have the
// unit that the field's name ends with, such as _ms or _bytes.
//
//	priority must be between 0 and 10, got 11
func OutOfRange(field string, got, low, high int64) *Error {
	return Refusef(KindInvalid, field, "%s must be between %d and %d, got %s", field, low, high, quoted(field, got))
}

// TooMany returns an error of kind KindInvalid for a list or map with got entries, where at most most are allowed.
//
//	too many labels: got 65, maximum 64
func TooMany(field string, got, most int) *Error {
	return Refusef(KindInvalid, field, "too many %s: got %d, maximum %d", field, got, most)
}

// TooLong returns an error of kind KindInvalid for a value of got bytes, where at most most are allowed.
//
//	filter too long: got 5000 bytes, maximum 4096
func TooLong(field string, got, most int) *Error {
	return Refusef(KindInvalid, field, "%s too long: got %d bytes, maximum %d", field, got, most)
}

// NotOneOf returns an error of kind KindInvalid for a value that is not one of a fixed set of names. It shows at most 80
// bytes of the value, and suggests the option that is most similar, if there is one.
//
//	scope must be one of tenant, cluster, got "clutser"; did you mean "cluster"?
func NotOneOf(field, got string, options ...string) *Error {
	text := ""
	if best := nearest.Name(got, options); best != "" {
		text = "; did you mean " + strconv.Quote(best) + "?"
	}
	return Refusef(KindInvalid, field, "%s must be one of %s, got %q%s", field, strings.Join(options, ", "), shorten(got), text)
}

// Malformed returns an error of kind KindInvalid for a value that cannot be parsed. It shows at most 80 bytes of the
// value. The hint is a clause that names the syntax, with an example where that helps.
//
//	duration: got "5"; use a value such as 300ms or 30s
func Malformed(field, got, hint string) *Error {
	return Refusef(KindInvalid, field, "%s: got %q; %s", field, shorten(got), hint)
}
