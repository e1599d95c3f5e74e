// Package logs adds to log/slog for a node: a limit on lines that strangers cause, a mask over tokens, a file of denied
// calls, and adapters for the lines of the libraries.
//
// It never decides which lines are worth writing.
package logs
