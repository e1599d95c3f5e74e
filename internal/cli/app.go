package cli

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

// App is one run of the binary: what it reads and writes, and the flags that
// every command has. A group of commands is a type of its own around it, such as
// job.Commands.
type App struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Started says that the command's own work began: errors before it are
	// wrong usage.
	Started bool
	// toldRetry: it was said that the cluster cannot be reached.
	toldRetry atomic.Bool

	Addrs      []string
	Output     string
	Timeout    time.Duration
	TimeoutSet bool
	// patience bounds each call of a command where --timeout says nothing; 0 for none.
	patience time.Duration
	Config   string
	stale    bool
	saw      rota.ReadAt
	by       string // whose things a list shows; all where empty
	TLS      TLSFiles
	// TokenFile names the file of the access token to show.
	TokenFile string
	// Unsettled are faults of the environment and the config file that `server --check` says
	// with all others.
	Unsettled StartFaults
	// Unknown has no token shown: the caller has none yet, or one that has ended.
	Unknown bool
}

// DefaultTimeout bounds a call of a client command.
const DefaultTimeout = 30 * time.Second

// Group puts commands under a parent that does nothing itself: calling it
// without one, or with an unknown one, is wrong usage.
func (a *App) Group(parent *cobra.Command, children ...*cobra.Command) *cobra.Command {
	parent.AddCommand(children...)
	names := make([]string, len(children))
	for i, c := range children {
		names[i] = c.Name()
	}
	parent.Args = cobra.ArbitraryArgs
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if paths := namesakes(cmd.Root(), args[0]); len(paths) > 0 {
				return Usagef("unknown command %q of %s: did you mean %s?", args[0], cmd.CommandPath(),
					strings.Join(paths, " or "))
			}
			return UnknownCommand(cmd.CommandPath(), args[0], names)
		}
		return Usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return parent
}

// maxNamesakes is how many commands an error suggests at most. A name that more groups have, such as list, suggests none.
const maxNamesakes = 3

// namesakes returns the commands with exactly that name, in any group, or none if there are more than maxNamesakes.
func namesakes(under *cobra.Command, name string) (paths []string) {
	for _, c := range under.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, namesakes(c, name)...)
	}
	if len(paths) > maxNamesakes {
		return nil
	}
	return paths
}

// Does wraps a command's work: from here on an error is no usage error.
func (a *App) Does(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.Started = true
		return work(cmd.Context(), args)
	}
}

// Talk says something to people, on stderr.
func (a *App) Talk(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}
