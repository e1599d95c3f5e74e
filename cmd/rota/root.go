package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/cli/lab"
	"github.com/rotasched/rota/internal/cli/operator"
	"github.com/rotasched/rota/internal/cli/queue"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/cli/worker"
	"github.com/rotasched/rota/internal/cli/workflow"
	"github.com/rotasched/rota/internal/nearest"
)

// rootCommand builds the whole tree. Each command is made in its own file.
func rootCommand(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "A replicated job scheduler in one binary",
		Long: `rota schedules jobs on workers and replicates every decision on three or five nodes.

Every flag has an environment twin (ROTA_ and its name in capitals, - as _) and a
config-file twin (its name, in the YAML file of --config). A flag beats the
environment, the environment beats the file, the file beats the default.

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused by admission, or submitted under
the id of another job, 5 timed out, 6 the job or workflow ended otherwise than COMPLETED, 7
cluster unreachable or without leader, 8 denied or unauthenticated, 130 and 143 ended by SIGINT
and SIGTERM.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       serve.Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.Settle(cmd)
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringSliceVar(&a.Addrs, "addr", []string{"127.0.0.1:6470"},
		"`host:port` of any nodes, separated by commas")
	flags.StringP("output", "o", "table", cli.OutputUsage)
	cli.DurationVar(flags, &a.Timeout, "timeout", cli.DefaultTimeout,
		"maximum time of a call; by default, reads fail after "+
			fmt.Sprintf("%s without an answer, cluster status after 5s, and waiting commands never", cli.MaxRead))
	cli.Within(flags, time.Millisecond, rota.MaxDuration, "timeout")
	flags.StringVar(&a.Config, "config", "", "YAML `file` with settings, named like the flags")
	flags.StringVar(&a.TLS.CA, "tls-ca", "",
		"`file` with the certificates (PEM) that other ends are checked against")
	flags.StringVar(&a.TLS.Cert, "tls-cert", "", "`file` with this end's certificate (PEM)")
	flags.StringVar(&a.TLS.Key, "tls-key", "", "`file` with its key (PEM)")
	flags.StringVar(&a.TokenFile, cli.TokenFlag, "",
		"`file` with the access token, readable by its owner only; ROTA_TOKEN may have the token itself")
	jobs, workflows, workers, queues, tenants := job.Commands{App: a}, workflow.Commands{App: a}, worker.Commands{App: a}, queue.Commands{App: a}, queue.TenantCommands{App: a}
	a.Group(root, serve.ServerCommands{App: a}.Command(), serve.DevCommands{App: a}.Command(), jobs.Command(), jobs.Cost(),
		workflows.Command(),
		workers.Command(), queues.Command(), tenants.Command(), queue.KeyCommands{App: a}.Command(),
		queue.BudgetCommands{App: a}.Command(),
		queue.ScheduleCommands{App: a}.Command(), job.BatchCommands{App: a}.Command(),
		job.PlanCommands{App: a}.Command(), queue.WebhookCommands{App: a}.Command(),
		queue.RelayCommands{App: a}.Command(), queue.ModeCommands{App: a}.Command(),
		auth.Commands{App: a}.Command(), auth.ConsoleCommands{App: a}.Command(),
		operator.EventCommands{App: a}.Command(), operator.ClusterCommands{App: a}.Command(),
		operator.StatusCommands{App: a}.Command(), queue.TzdataCommands{App: a}.Command(),
		operator.Commands{App: a}.Command(), lab.BenchCommands{App: a}.Command(), lab.SimulateCommand(a),
		lab.WhatIfCommand(a), lab.DemoCommands{App: a}.Command(),
		serve.Certifier{App: a}.Command(), serve.VersionCommands{App: a}.Command(),
		a.Shortcut("jobs", "job", jobs.List()), a.Shortcut("workflows", "workflow", workflows.List()),
		a.Shortcut("workers", "worker", workers.List()), a.Shortcut("queues", "queue", queues.List()),
		a.Shortcut("tenants", "tenant", tenants.List()))
	root.InitDefaultCompletionCmd()
	refuseUnknownHelp(root)
	a.AddCompletions(root)
	addRights(root)
	root.SetUsageTemplate(root.UsageTemplate() + "{{with index .Annotations \"" + rightsKey +
		"\"}}\nRights:\n  {{.}}\n{{end}}")
	return root
}

// refuseUnknownHelp has help of an unknown command be wrong usage, as the command is.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		if len(rest) > 0 && of.HasAvailableSubCommands() {
			var names []string
			for _, c := range of.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return cli.UnknownCommand(of.CommandPath(), rest[0], names)
		}
		show(cmd, args)
		return nil
	}
}

// flagError adds the flag that is meant to one that is not there: that of a command of the
// group, or one of a name like it.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	for _, c := range cmd.Commands() {
		if c.LocalFlags().Lookup(missing.GetSpecifiedName()) != nil && c.IsAvailableCommand() {
			return cli.Usagef("%w: did you mean %s --%s?", err, c.CommandPath(), missing.GetSpecifiedName())
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(missing.GetSpecifiedName(), names); near != "" && len(missing.GetSpecifiedName()) > 1 {
		return cli.Usagef("%w: did you mean --%s?", err, near)
	}
	return err
}
