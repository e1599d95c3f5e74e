package main

import (
	"context"
	"crypto/tls"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/loadgen"
	"github.com/rotasched/rota/internal/server"
)

// benchCommands are the commands that put load on a cluster and measure it.
type benchCommands struct{ *app }

func (a benchCommands) command() *cobra.Command {
	cmd := a.group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a running cluster",
		Long: `Measure a running cluster. Submitters and workers run in this process; what was lost or
done twice is counted from what they were told, and the cluster is asked about every
job that is unaccounted for. A run that ends early, by Ctrl-C for example, says how far it
came and how to cancel what is left of it.`,
	}, a.jobs(), a.fill(), a.trace(), a.workflow())
	cmd.PersistentFlags().StringP("output", "o", "json", outputUsage)
	return cmd
}

// labOf is where measurements are made: this process, and a client's connection.
func labOf(a *app, c *client.Client) *loadgen.Lab {
	return &loadgen.Lab{
		Client: c, Addrs: a.addrs, Dial: a.dialTo, Talk: a.talk,
		AdminTLS: func(addr string) (*tls.Config, error) {
			if server.Loopback(addr) || a.tls == (tlsFiles{}) {
				return nil, nil
			}
			config, err := a.tls.client()
			if err != nil {
				return nil, err
			}
			return config()
		},
		Watch: func(what string, total int64, value func() int64) (stop func()) {
			return a.watch(what, total, value).stop
		},
	}
}

// benchGCPercent is how much garbage a measurement's own process lets stand beside what lives. Workers are each a process in
// life; 10,000 in this one kept both processors for two seconds with each collection at the runtime's own 100 %, and were late with
// what they were given.
const benchGCPercent = 400

// measuring makes a measurement of a command.
func (a benchCommands) measuring(measure func(context.Context, *loadgen.Lab) error) func(context.Context, []string) error {
	return a.waiting(func(ctx context.Context, c *client.Client, _ []string) error {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(benchGCPercent)
		}
		return measure(ctx, labOf(a.app, c))
	})
}

// print prints the result. It fails where a job was lost or done twice.
func (a benchCommands) print(r *loadgen.Report) error {
	err := a.printOne(r, nil, func(wide bool) string {
		facts := []fact{
			{"jobs", r.Jobs}, {"seconds", r.Seconds}, {"jobs per second", r.JobsPerS},
			{"end to end ms, p50", r.E2EP50Ms}, {"end to end ms, p99", r.E2EP99Ms},
			{"submit ms, p50", r.SubmitP50Ms}, {"submit ms, p99", r.SubmitP99Ms},
			{"lost", r.Lost}, {"duplicated", r.Duplicated}, {"errors", r.Errors},
			{"refused", r.Refused}, {"refused by the client until a delay had passed", r.RefusedHeld},
			{"refused without a delay", r.RefusedHintless}, {"handlers beyond a job's first", r.Reruns},
			{"CPU us per job, here", r.ProcessCPUUs},
		}
		if r.ServersCPUUnknown != "" {
			facts = append(facts, fact{"CPU us per job, servers", "not known: " + r.ServersCPUUnknown})
		}
		if r.ServersCPUUs != nil {
			facts = append(facts, fact{"CPU us per job, servers", *r.ServersCPUUs}, fact{"CPU us per job, both", *r.CPUUs})
		}
		text := renderFacts(facts)
		if len(r.Waits) > 0 {
			text += "\n" + renderList(waitColumns(), r.Waits, wide)
		}
		return text
	})
	if err != nil {
		return err
	}
	if r.Lost > 0 || r.Duplicated > 0 {
		return failf("%d jobs were lost and %d done twice, %d of these at two workers at once; %d handlers ran beyond a job's first",
			r.Lost, r.Duplicated, r.Overlaps, r.Reruns)
	}
	return nil
}
