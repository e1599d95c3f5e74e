// Package jsonparts finds the parts of JSON that is valid, in one pass and without copying: encoding/json goes through
// a text once for each level of it that reads itself.
//
// Of JSON that is not valid it makes something or reports false. It never reads beyond the text, and never says what is
// wrong with it: encoding/json does.
package jsonparts
