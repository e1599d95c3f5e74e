package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// firstSettings are the settings of the packages' configuration: one node by itself, on loopback.
var firstSettings = map[string]string{"node": "n1", "bootstrap-expect": "1"}

// forCallers are flags of every command that do not apply to a server; the unit sets the paths of the data and of this
// file, and a node that is only checked serves no calls.
var forCallers = map[string]bool{"addr": true, "output": true, "timeout": true, "token-file": true, "config": true,
	"help": true, "data": true,
	"check": true}

// TestReference_configuration compares deploy/packages/server.yaml with the flags of `rota server`: it has every
// setting, with its purpose and its default.
func TestReference_configuration(t *testing.T) {
	t.Parallel()
	holdPage(t, filepath.Join("..", "..", "deploy", "packages", "server.yaml"),
		configuration(t, rootCommand(&cli.App{})))
}

// configuration returns a file for --config with every setting of a server.
func configuration(t *testing.T, root *cobra.Command) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(
		"# Settings of `rota server`: remove the # before one to change it from its default, which is shown.\n" +
			"# ROTA_NAME in the environment and --name on the command line go before what stands here.\n" +
			"# As it is, this is one node by itself that listens on loopback. Three nodes: docs/operations/run.md.\n")
	server, _, err := root.Find([]string{"server"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(flag *pflag.Flag) {
		if flag.Hidden || forCallers[flag.Name] {
			return
		}
		_, usage := pflag.UnquoteUsage(flag)
		fmt.Fprintf(&b, "\n# %s\n", sentence(usage))
		if value, set := firstSettings[flag.Name]; set {
			fmt.Fprintf(&b, "%s: %s\n", flag.Name, value)
			return
		}
		value := flag.DefValue
		if value == "" || flag.Value.Type() == "string" && strings.ContainsAny(value, ":#[]{}") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, "#%s: %s\n", flag.Name, value)
	}
	server.LocalNonPersistentFlags().VisitAll(write)
	root.PersistentFlags().VisitAll(write)
	return b.String()
}
