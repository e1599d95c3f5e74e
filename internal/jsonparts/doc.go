// Package jsonparts finds the parts of valid JSON in one pass and without copying: encoding/json scans a text once for
// each nested level with its own reader. Find returns why a valid text cannot be read into a type, by a path and words
// that do not depend on the version of Go.
//
// For invalid JSON its results are unspecified or it reports false. Only Valid and NotJSON check validity, identically
// in every binary, as the state machine requires. It never reads beyond the text.
package jsonparts
