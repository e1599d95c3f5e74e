package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is main with everything it touches handed in, so that tests can call it.
// Commands that treat a signal as "finish properly" (server, dev, worker run)
// get it as the end of their context; for the others that end is a failure.
func run(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	stderr = &lockedWriter{w: stderr}
	a := &app{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var silent *silentExit
	if errors.As(err, &silent) {
		return silent.code
	}
	hint := ""
	if !a.started {
		err, hint = asUsage(err), " ("+cmd.CommandPath()+" --help tells the usage)"
	}
	fmt.Fprintln(stderr, errorLine(err, a.addrs)+hint)
	return exitCode(err)
}
