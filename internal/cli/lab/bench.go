package lab

import (
	"context"
	"crypto/tls"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/loadgen"
	"github.com/rotasched/rota/internal/server"
)

// BenchCommands are the commands that put load on a cluster and measure it.
type BenchCommands struct{ *cli.App }

// Command returns `rota bench` and the commands below it.
func (a BenchCommands) Command() *cobra.Command {
	cmd := a.Group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a running cluster",
		Long: `Measure a running cluster. Submitters and workers run in this process. Lost and duplicate jobs
are counted from the answers; the cluster is asked about jobs that are unaccounted for. A run
that ends early prints how far it came and how to cancel the rest.`,
	}, a.jobs(), a.fill(), a.trace(), a.workflow())
	cmd.PersistentFlags().StringP("output", "o", "json", cli.OutputUsage)
	return cmd
}

// labOf is where measurements are made: this process, and a client's connection.
func labOf(a *cli.App, c *client.Client) *loadgen.Lab {
	return &loadgen.Lab{
		Client: c, Addrs: a.Addrs, Dial: a.DialTo, Talk: a.Talk,
		AdminTLS: func(addr string) (*tls.Config, error) {
			if server.Loopback(addr) || a.TLS == (cli.TLSFiles{}) {
				return nil, nil
			}
			config, err := a.TLS.Client()
			if err != nil {
				return nil, err
			}
			return config()
		},
		Watch: func(what string, total int64, value func() int64) (stop func()) {
			return a.Watch(what, total, value).Stop
		},
	}
}

// benchGCPercent is how much garbage a measurement's own process lets stand beside what lives. Workers are each a process in
// life; 10,000 in this one kept both processors for two seconds with each collection at the runtime's own 100 %, and were late with
// what they were given.
const benchGCPercent = 400

// measuring makes a measurement of a command.
func (a BenchCommands) measuring(
	measure func(context.Context, *loadgen.Lab) error) func(context.Context, []string) error {
	return a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(benchGCPercent)
		}
		return measure(ctx, labOf(a.App, c))
	})
}

// print prints the result. It fails where a job was lost or done twice.
func (a BenchCommands) print(r *loadgen.Report) error {
	err := a.PrintOne(r, nil, func(wide bool) string {
		facts := []cli.Fact{
			{Name: "jobs", Value: r.Jobs}, {Name: "seconds", Value: r.Seconds},
			{Name: "jobs per second", Value: r.JobsPerS},
			{Name: "end to end ms, p50", Value: r.E2EP50Ms}, {Name: "end to end ms, p99", Value: r.E2EP99Ms},
			{Name: "submit ms, p50", Value: r.SubmitP50Ms}, {Name: "submit ms, p99", Value: r.SubmitP99Ms},
			{Name: "lost", Value: r.Lost}, {Name: "duplicated", Value: r.Duplicated}, {Name: "errors", Value: r.Errors},
			{Name: "refused", Value: r.Refused}, {Name: "refused by the client until a delay had passed",
				Value: r.RefusedHeld},
			{Name: "refused without a delay", Value: r.RefusedHintless},
			{Name: "handlers beyond a job's first", Value: r.Reruns},
			{Name: "CPU us per job, here", Value: r.ProcessCPUUs},
		}
		if r.ServersCPUUnknown != "" {
			facts = append(facts, cli.Fact{Name: "CPU us per job, servers", Value: "not known: " + r.ServersCPUUnknown})
		}
		if r.ServersCPUUs != nil {
			facts = append(facts, cli.Fact{Name: "CPU us per job, servers", Value: *r.ServersCPUUs},
				cli.Fact{Name: "CPU us per job, both", Value: *r.CPUUs})
		}
		text := cli.RenderFacts(facts)
		if len(r.Waits) > 0 {
			text += "\n" + cli.RenderList(waitColumns(), r.Waits, wide)
		}
		return text
	})
	if err != nil {
		return err
	}
	if r.Lost > 0 || r.Duplicated > 0 {
		return cli.Failf(
			"%d jobs were lost and %d done twice, %d of these at two workers at once; %d handlers ran beyond a job's first",
			r.Lost, r.Duplicated, r.Overlaps, r.Reruns)
	}
	return nil
}
