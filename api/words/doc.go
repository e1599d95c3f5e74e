// Package words turns the protocol of api/rota/v1 into the words of package
// rota and back, one file a noun. The server and the client use the same
// functions, so both ends agree on what a message means (SPEC §13).
//
// Every pair loses nothing: words → wire → words gives equal words, where an
// empty list or byte string and none are the same. What the wire cannot carry
// is named at the function: an error's Cause becomes part of its Text, and text
// that is not UTF-8 has the broken bytes replaced.
//
// To spare copies the results share memory with what went in: byte strings,
// lists, labels and lease ids. Hand over what will not be changed any more.
//
// What a worker's stream carries with every lease is written and read without the
// generated messages between (hot*.go, fields.go, and codec.go, which both ends give
// gRPC): the bytes are the same, the generated way is the second implementation in the
// tests. A field added to one of these messages stands in both.
//
// Enumerations travel as their text. Text that this version does not know is
// refused with kind Invalid; the empty text is the zero value.
//
// The package never checks whether a value is in range (CheckShape of package
// rota does), never talks to a network, never starts a goroutine, and never
// reads a clock.
package words
