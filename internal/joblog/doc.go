// Package joblog is the log of an attempt: lines of which the first and the last are kept
// (SPEC §22.1).
//
// A worker's [Writer] makes lines of what a handler writes. A [Buffer] keeps them, at the worker and, while the attempt
// is open, at the worker's node; [rota.LogPart] is sent from one to the other. [Log] holds the kept lines of an attempt
// that has ended.
//
// The package knows no clock and no connection, and what it holds never grows beyond limits.
package joblog
