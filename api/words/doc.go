// Package words converts the protocol of api/rota/v1 to types of package rota and back, one file per noun. The server
// and the client use the same functions, so both ends agree on the meaning of a message (SPEC §13).
//
// Every pair is lossless: Go value → wire → Go value gives an equal value, where an empty list or byte string equals
// none. Exceptions are named at the function: an error's Cause becomes part of its Text, and in text that is not UTF-8
// the broken bytes are replaced.
//
// To avoid copies, results share memory with their inputs: byte strings, lists, labels and lease ids. Do not change an
// input afterwards.
//
// The messages that a worker's stream carries with every lease are written and read without the generated messages in
// between (hot*.go, fields.go, and codec.go, which both ends pass to gRPC). The bytes are the same, and the generated
// code is the second implementation in the tests. A field added to one of these messages must be added to both.
//
// Enumerations travel as their text. Text that this version does not know is rejected with kind Invalid; the empty text
// is the zero value.
//
// The package never checks whether a value is in range (CheckShape of package rota does), never uses the network, never
// starts a goroutine, and never reads a clock.
package words
