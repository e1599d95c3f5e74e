package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/server"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "dev"

func main() {
	serve.Version = version
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "dev") {
		server.WakeLate() // first: it may restart the program
	}
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is main with everything it touches handed in, so that tests can call it. Commands that treat a signal as "finish
// properly" (server, dev, worker run) get it as the end of their context; the others end with 128 and its number, as in
// a shell, and print nothing.
func run(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	stderr = &cli.LockedWriter{W: stderr}
	a := &cli.App{Environ: environ, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	root := rootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return cli.ExitDone
	}
	var silent *cli.SilentExit
	if errors.As(err, &silent) {
		return silent.Code
	}
	hint := ""
	if !a.Started {
		err, hint = cli.AsUsage(err), " ("+cmd.CommandPath()+" --help shows the usage)"
	}
	fmt.Fprintln(stderr, cli.ErrorLine(err, a.Addrs)+hint)
	return cli.ExitCode(err)
}

// untilSignal returns a context that ends with a signalError by the first SIGINT or
// SIGTERM. The process does not end by them before stop is called.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-heard:
			cancel(cli.SignalError{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(heard)
		cancel(nil)
	}
}
