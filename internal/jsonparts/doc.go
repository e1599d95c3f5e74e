// Package jsonparts finds the parts of JSON that is valid, in one pass and without copying: encoding/json goes through
// a text once for each level of it that reads itself. Find returns why a valid text cannot be read into a type, by a
// path and words that do not depend on the version of Go.
//
// Of JSON that is not valid it makes something or reports false; Valid alone tells valid from not, the same in every
// binary, as the state machine asks it. It never reads beyond the text, and never says why a text is not JSON:
// encoding/json does.
package jsonparts
