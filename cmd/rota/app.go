package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
)

// app is one run of the binary: what it reads and writes, and the flags that
// every command has. A group of commands is a type of its own around it, such as
// jobCommands.
type app struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer

	// started says that the command's own work began: errors before it are
	// wrong usage.
	started bool
	// toldRetry: it was said that the cluster cannot be reached.
	toldRetry atomic.Bool

	addrs      []string
	output     string
	timeout    time.Duration
	timeoutSet bool
	// patience bounds each call of a command where --timeout says nothing; 0 for none.
	patience time.Duration
	config   string
	stale    bool
	saw      rota.ReadAt
	by       string // whose things a list shows; all where empty
	tls      tlsFiles
	// tokenFile names the file of the access token to show.
	tokenFile string
	// unsettled are faults of the environment and the config file that `server --check` says
	// with all others.
	unsettled startFaults
	// unknown has no token shown: the caller has none yet, or one that has ended.
	unknown bool
}

// defaultTimeout bounds a call of a client command.
const defaultTimeout = 30 * time.Second

// group puts commands under a parent that does nothing itself: calling it
// without one, or with an unknown one, is wrong usage.
func (a *app) group(parent *cobra.Command, children ...*cobra.Command) *cobra.Command {
	parent.AddCommand(children...)
	names := make([]string, len(children))
	for i, c := range children {
		names[i] = c.Name()
	}
	parent.Args = cobra.ArbitraryArgs
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if paths := namesakes(cmd.Root(), args[0]); len(paths) > 0 {
				return usagef("%s: command %q is unknown: did you mean %s?", cmd.CommandPath(), args[0], strings.Join(paths, " or "))
			}
			return unknown("command", cmd.CommandPath()+": command", args[0], names)
		}
		return usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return parent
}

// namesakesMost is how many commands of one name make a guess: beyond it is a word that most
// groups have, such as list.
const namesakesMost = 3

// namesakes returns the commands of that very name, wherever they are: none where there are many.
func namesakes(under *cobra.Command, name string) (paths []string) {
	for _, c := range under.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, namesakes(c, name)...)
	}
	if len(paths) > namesakesMost {
		return nil
	}
	return paths
}

// does wraps a command's work: from here on an error is no usage error.
func (a *app) does(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started = true
		return work(cmd.Context(), args)
	}
}

// talk says something to people, on stderr.
func (a *app) talk(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}
