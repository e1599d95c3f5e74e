// Package cli is what every command of the binary uses: the app with its flags and settings, the connection to a
// cluster, tables, exit codes and errors. The commands are in the packages below it, a group of them in each; cmd/rota
// puts them together.
//
// It decides nothing, never prints what a command has to say, and never retries what the client would not.
package cli
