package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/guard"
	"github.com/rotasched/rota/internal/loadgen"
	"github.com/rotasched/rota/internal/secret"
)

// Flags are the flags of `worker run`.
type Flags struct {
	queues, types   []string
	slots, prefetch int32
	id              string
	takeover        bool
	retryRefused    bool
	Secret          string
	OldSecret       string
	region, zone    string
	capabilities    []string
	cpu, memory, io int64
	stake           int64
	limits          []string
	attestation     string
	command         string
	pass            []string
	guard           bool
}

// drainForever lets handlers finish however long they take: their leases go on
// being renewed. A second signal ends them.
const drainForever = 10 * 365 * 24 * time.Hour

// workerRunHelp is what `worker run --help` shows.
const workerRunHelp = `Run a worker. With --exec each job runs CMD under sh -c in its own process group.

  stdin         the payload
  stdout        the output, at most 256 KiB
  environment   ROTA_JOB_ID, ROTA_JOB_TYPE, ROTA_ATTEMPT, ROTA_LEASE_TOKEN, and of this process
                PATH, HOME, LANG, LC_*, TZ, TMPDIR and the names of --pass-env
  exit code     0 completes the job, 75 declines it, others fail the attempt with the end of
                stderr
  $ROTA_OUTCOME a file in which a failing command may write "retry-after 5m", "snooze 30s",
                "pause KEY 30s" (a snooze that pauses the key), "no-retry" or "cancel", and
                any command "cost NAME AMOUNT"

When the lease is lost the group gets SIGTERM, and SIGKILL 5 s later (1 s under
lease_grace_on_disconnect_ms). Without --exec a built-in handler waits the job's simulate_ms and
completes it with the payload's SHA-256.

A job's headers traceparent, tracestate and baggage are TRACEPARENT, TRACESTATE and BAGGAGE. The
job of a workflow's node also has ROTA_WORKFLOW_ID and ROTA_NODE_ID, a directory ROTA_PARENTS
with its parents' outputs, described by the JSON file ROTA_PARENTS_INDEX, and a file
ROTA_CHILDREN for nodes that it adds.

On Linux a worker with --exec has a guard: this process starts the worker as its child and
passes SIGTERM, SIGINT and SIGHUP on. When the worker dies, the guard kills every process that
it left, daemons too, and ends the attempts at once as WORKER_LOST, instead of after 40 s of
silence. The exit code is the worker's, or 128 and the signal. A killed guard ends its worker
too, which gives back its jobs. --guard=false turns the guard off.

The first SIGTERM or SIGINT drains: running jobs may finish, and no new ones start. A second one
ends running jobs and gives them back. If the cluster cannot be reached, outcomes are dropped
once their leases are over, 30 s after the last contact: the jobs are listed, exit 1. A worker
that the cluster refuses exits with the refusal's code (8 without a credential or a right),
unless --retry-refused is given.`

func (a Commands) runCommand() *cobra.Command {
	f := &Flags{}
	cmd := &cobra.Command{
		Use:   "run --queues Q[,Q] [--types T[,T]]",
		Short: "Run a worker until SIGTERM or SIGINT drains it",
		Long:  workerRunHelp,
		Example: `  rota worker run --queues etl --slots 4 --exec ./handle
  rota worker run --queues etl --exec 'sort -m "$ROTA_PARENTS"/*'`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.queues, "queues", nil,
		"`queues` to serve, separated by commas; they need not exist yet")
	flags.StringSliceVar(&f.types, "types", nil,
		"job `types` that it handles, separated by commas (default: every type)")
	flags.Int32Var(&f.slots, "slots", 1, "jobs that run at once")
	flags.Int32Var(&f.prefetch, "prefetch", 0, "jobs that may wait here in addition")
	flags.StringVar(&f.id, "id", "", "the worker's `id` (default: a new one)")
	flags.BoolVar(&f.takeover, "takeover", false, "take over the id from a live worker; its leases are revoked")
	flags.BoolVar(&f.retryRefused, "retry-refused", false,
		"ask again if the cluster refuses the worker, such as before its token exists (default: exit)")
	flags.StringVar(&f.OldSecret, "takeover-secret-file", "",
		"take over the id, authorized by the current worker's secret in `file`: needs no right to workers")
	flags.StringVar(&f.Secret, "secret-file", "",
		"`file` with the worker's secret, 16 to 64 bytes (default: a new one); a restart with the same id and secret gets the leases back")
	flags.StringVar(&f.region, "region", "", "`region` it is in")
	flags.StringVar(&f.zone, "zone", "", "`zone` it is in")
	flags.StringArrayVar(&f.capabilities, "cap", nil, "`label` that it has; may be repeated")
	flags.Int64Var(&f.cpu, "cpu", 0, "`millicores` that jobs may use")
	flags.Int64Var(&f.memory, "memory", 0, "`bytes` of memory that jobs may use")
	flags.Int64Var(&f.io, "io", 0, "`bytes` of I/O a second that jobs may use")
	flags.Int64Var(&f.stake, "stake", 0,
		"stake that it declares, in millionths of a unit; only a signed stake counts (worker attest --stake)")
	cli.Within(flags, 1, rota.MaxSlots, "slots")
	cli.Within(flags, 0, rota.MaxPrefetch, "prefetch")
	cli.Within(flags, 0, int64(rota.MaxFee), "stake")
	cli.BoundResources(flags)
	flags.StringArrayVar(&f.limits, "limit", nil,
		"`name=N` that it offers at most, such as depth=20; may be repeated")
	flags.StringVar(&f.attestation, "attestation", "",
		"`file` with the output of worker attest, for queues with require_attestation; the default of --id is its worker")
	flags.StringVar(&f.command, "exec", "", "`command` that runs each job")
	flags.StringSliceVar(&f.pass, "pass-env", nil,
		"with --exec, `names` of further variables of this process for the command; may be repeated")
	flags.BoolVar(&f.guard, "guard", guard.ByDefault, "with --exec, end the worker's child processes if it dies")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, attestation, err := f.spec()
		if err != nil {
			return err
		}
		if len(spec.Queues) == 0 {
			return cli.Usagef("--queues is missing: the queues to serve")
		}
		checked := spec
		checked.ID = cli.Or(checked.ID, "new") // the client makes one up
		if err := checked.CheckShape(); err != nil {
			return err
		}
		if f.command != "" {
			if err := secret.Hide(); err != nil {
				return cli.Failf("%w", err)
			}
		}
		secrets, err := f.Secrets()
		if err != nil {
			return err
		}
		pipe, err := guard.Over()
		if err != nil {
			return cli.Usagef("%w", err)
		}
		return a.Does(func(ctx context.Context, _ []string) error {
			if f.guard && f.command != "" && pipe == nil {
				if guarded, err := a.Guarded(ctx); guarded || err != nil {
					return err
				}
			}
			return a.run(ctx, f, spec, attestation, secrets, pipe)
		})(cmd, args)
	}
	return cmd
}

func (f *Flags) spec() (s rota.WorkerSpec, attestation *rota.Attestation, err error) {
	s = rota.WorkerSpec{
		ID: rota.WorkerID(f.id), Slots: f.slots, Prefetch: f.prefetch, Region: f.region, Zone: f.zone,
		Capabilities: f.capabilities, CPUMilli: f.cpu, MemoryBytes: f.memory, IOBytesPerS: f.io, Stake: f.stake,
	}
	for _, q := range f.queues {
		s.Queues = append(s.Queues, rota.QueueName(q))
	}
	for _, typ := range f.types {
		s.Types = append(s.Types, rota.JobType(typ))
	}
	if s.Limits, err = cli.ParseLimits(f.limits); err != nil {
		return s, nil, err
	}
	if f.attestation == "" {
		return s, nil, nil
	}
	if attestation, err = auth.ReadAttestation(f.attestation); err != nil {
		return s, nil, err
	}
	s.ID = cli.Or(s.ID, attestation.Worker)
	return s, attestation, nil
}

// workerSecrets are the worker's own secret and that of the process which it takes its id
// over from, each nil where none was given.
type workerSecrets struct{ Own, Old []byte }

// maxSecretFile is a secret's most, and an end of line.
const maxSecretFile = 64 + 2

// Secrets reads the files of --secret-file and --takeover-secret-file.
func (f *Flags) Secrets() (s workerSecrets, err error) {
	for _, of := range []struct {
		flag, path string
		to         *[]byte
	}{{"secret-file", f.Secret, &s.Own}, {"takeover-secret-file", f.OldSecret, &s.Old}} {
		if of.path == "" {
			continue
		}
		text, err := secret.ReadFile(of.path, maxSecretFile)
		if err != nil {
			return s, cli.Usagef("read --%s: %w", of.flag, err)
		}
		*of.to = bytes.TrimRight(text, "\r\n")
	}
	return s, nil
}

func (a Commands) run(ctx context.Context, f *Flags, spec rota.WorkerSpec,
	attestation *rota.Attestation, secrets workerSecrets, pipe *guard.Pipe) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	hard, cancel := context.WithCancel(context.Background())
	defer cancel()
	go a.secondSignal(ctx, hard, cancel)
	return a.With(func(c *client.Client) error {
		talk := a.observer()
		opts := []client.WorkerOption{client.WithDrainTimeout(drainForever), client.WithHardStop(hard)}
		if secrets.Own != nil {
			opts = append(opts, client.WithSecret(secrets.Own))
		}
		if pipe != nil {
			if secrets.Own != nil {
				pipe.SetSecret(secrets.Own)
			}
			opts = append(opts, client.WithSecret(pipe.Secret()))
			talk.Connected = cli.Heard(pipe, talk.Connected)
			go func() {
				pipe.Lost()
				a.Talk("the guard died: ending the running jobs and returning their leases")
				leave()
				cancel()
			}()
		}
		opts = append(opts, client.WithObserver(talk))
		if f.takeover {
			opts = append(opts, client.WithTakeover())
		}
		if f.retryRefused {
			opts = append(opts, client.WithRetryRefused())
		}
		if secrets.Old != nil {
			opts = append(opts, client.WithTakeoverSecret(secrets.Old))
		}
		if attestation != nil {
			opts = append(opts, client.WithAttestation(*attestation))
		}
		w, err := client.NewWorker(c, spec, opts...)
		if err != nil {
			return err
		}
		w.Handle("", a.Handler(f.command, f.pass))
		a.Talk("worker %s serves %s", w.ID(), cli.Joined(spec.Queues))
		err = w.Run(ctx)
		if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // a drain is a proper end
		}
		if unreported := (*client.UnreportedError)(nil); errors.As(err, &unreported) {
			return &cli.CodedError{Code: cli.ExitFailed, Err: err}
		}
		if err == nil {
			a.Talk("worker %s is drained", w.ID())
		}
		return err
	})
}

// secondSignal ends what runs when a signal comes after the one that drains.
func (a Commands) secondSignal(ctx, hard context.Context, stop context.CancelFunc) {
	select {
	case <-hard.Done():
		return
	case <-ctx.Done():
	}
	a.Talk("draining; a second signal ends the running jobs")
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(again)
	select {
	case <-again:
		stop()
	case <-hard.Done():
	}
}

// observer says on stderr what an operator would ask about.
func (a Commands) observer() client.Observer {
	return client.Observer{
		Lost: func(e client.HandlerEvent) { a.Talk("%v", e.Err) },
		GivenUp: func(e client.HandlerEvent) {
			a.Talk("could not report %s of job %s before its lease ended", strings.ToLower(e.Verb.String()), e.Job)
		},
		Connected: func(e client.ConnectionEvent) {
			a.Talk("connected to %s at %s", cli.Or(string(e.Node), "a node"), e.Address)
		},
		Disconnected: func(e client.ConnectionEvent) {
			if e.Err != nil {
				a.Talk("disconnected from %s: %v", e.Address, words.FromStatus(e.Err))
			}
		},
		TurnedAway: func(e client.ConnectionEvent) {
			a.Talk("not connected to %s: %v; asking again", e.Address, e.Err)
		},
	}
}

// Handler returns the handler that runs each job.
func (a Commands) Handler(command string, pass []string) client.Handler {
	if command == "" {
		return loadgen.Simulate
	}
	return func(ctx context.Context, job *client.Job) (client.Result, error) {
		parents, err := job.Parents(ctx)
		if err != nil {
			return client.Result{}, fmt.Errorf("read parents' outputs: %w", err)
		}
		e := Execution{
			Command: command, Job: job.ID(), Typ: job.Type(), Attempt: job.Attempt(), Token: job.Token(),
			Payload: job.Payload(), headers: job.Headers(), Stderr: a.Stderr, Log: job.Log(), Parents: parents,
			Pass: pass, Spend: func(name string, total rota.Cost) error {
				return job.Spend(name, float64(total)/rota.CostUnit)
			},
		}
		if job.Assignment().Grace > 0 {
			e.grace = brokenGrace
		}
		output, err := e.Run(ctx)
		switch {
		case errors.Is(err, ErrDeclined):
			return client.Result{}, client.Decline(err)
		case err != nil:
			return client.Result{}, fmt.Errorf("command: %w", err)
		}
		return client.Result{Output: output, Children: e.Children}, nil
	}
}
