package worker

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/auth"
	"github.com/rotasched/rota/internal/secret"
)

// attestFlags are the flags of `worker attest`.
type attestFlags struct {
	key, worker, expires, cluster, generate string
	stake                                   int64
}

func (a Commands) attestCommand() *cobra.Command {
	f := &attestFlags{}
	cmd := &cobra.Command{
		Use:   "attest --key F --worker ID --expires D [--stake N] [--cluster-id C] | attest --generate-key F",
		Short: "Sign that a worker may serve the cluster until a date, or make a key to sign with",
		Long: `Sign that a worker may serve the cluster until a date, and print that attestation as JSON, for
worker run --attestation. Queues with require_attestation need one. The nodes must know the
public key (server --attestation-key).

The key is PEM (PKCS #8) or a seed of 64 hex digits. --expires is a duration from now, or a date
such as 2031-01-31 or 2031-01-31T12:00:00Z. With --cluster-id no node is asked.`,
		Example: `  rota worker attest --generate-key signing.pem > signing.pub
  rota worker attest --key signing.pem --worker gpu-7 --expires 720h > gpu-7.json
  rota worker run --queues render --id gpu-7 --attestation gpu-7.json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "`file` with the private key")
	flags.StringVar(&f.worker, "worker", "", "`id` of the worker")
	flags.StringVar(&f.expires, "expires", "", "`duration` or date until which it holds")
	flags.Int64Var(&f.stake, "stake", 0, "stake in millionths of a unit")
	cli.Within(flags, 0, int64(rota.MaxFee), "stake")
	flags.StringVar(&f.cluster, "cluster-id", "", "`id` of the cluster (default: that of --addr)")
	flags.StringVar(&f.generate, "generate-key", "", "make a key, write it to this new `file`, print the public one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.generate != "" {
			for _, other := range []string{"key", "worker", "expires", "stake", "cluster-id"} {
				if cmd.Flags().Changed(other) {
					return cli.Usagef("--generate-key does not allow --%s", other)
				}
			}
			return a.Does(func(context.Context, []string) error { return a.generateKey(f.generate) })(cmd, args)
		}
		return a.attest(cmd, args, f)
	}
	return cmd
}

func (a Commands) attest(cmd *cobra.Command, args []string, f *attestFlags) error {
	for _, needed := range []struct{ flag, value string }{{"key", f.key}, {"worker", f.worker},
		{"expires", f.expires}} {
		if needed.value == "" {
			return cli.Usagef("--%s is missing", needed.flag)
		}
	}
	if err := rota.CheckID("--worker", f.worker); err != nil {
		return err
	}
	if f.cluster != "" {
		if err := rota.CheckID("--cluster-id", f.cluster); err != nil {
			return err
		}
	}
	expires, err := ParseExpiry(f.expires, time.Now())
	if err != nil {
		return err
	}
	text, err := secret.ReadFile(f.key, cli.MaxKeyFile)
	if err != nil {
		return cli.Usagef("read --key: %w", err)
	}
	key, err := auth.ParseSigningKey(text)
	if err != nil {
		return cli.Usagef("--key %s: %w", f.key, err)
	}
	sign := func(cluster rota.ClusterID) error {
		attestation, err := rota.Attest(key, cluster, rota.WorkerID(f.worker), expires, f.stake)
		if err != nil {
			return err
		}
		return a.printAttestation(attestation)
	}
	if f.cluster != "" {
		return a.Does(func(context.Context, []string) error { return sign(rota.ClusterID(f.cluster)) })(cmd, args)
	}
	return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		return sign(s.ClusterID)
	}))(cmd, args)
}

// ParseExpiry takes a duration from now, or a date, which must be ahead.
func ParseExpiry(text string, now time.Time) (rota.Date, error) {
	if d, err := rota.ParseDuration(text); err == nil {
		if d <= 0 || d > rota.MaxDuration {
			return 0, cli.Usagef("--expires must be more than 0 and at most %s, got %s", rota.MaxDuration, text)
		}
		return rota.Date(now.Add(d).UnixMilli()), nil
	}
	at, err := cli.ParseDate(text)
	switch {
	case err != nil:
		return 0, cli.Usagef("--expires: got %q; use a duration such as 30d or a date such as 2031-01-31", text)
	case !at.After(now):
		return 0, cli.Usagef("--expires: got %s, which is in the past", text)
	default:
		return rota.Date(at.UnixMilli()), nil
	}
}

// printAttestation prints JSON where tables are asked for, too: it is for a file.
func (a Commands) printAttestation(attestation rota.Attestation) error {
	if a.Output == "table" || a.Output == "wide" {
		return cli.WriteValue(a.Stdout, "json", attestation)
	}
	return a.PrintOne(attestation, []string{string(attestation.Worker)}, nil)
}

func (a Commands) generateKey(path string) error {
	public, err := auth.NewSigningKey(path)
	if err != nil {
		return cli.Failf("make a key: %w", err)
	}
	a.Talk("the private key is in %s: anyone with it can attest workers", path)
	key := rota.Hex(public).String()
	made := struct {
		PublicKey string `json:"public_key"`
	}{key}
	// A bare public key looks like a seed, and would sign as one: this line tells them
	// apart, and --attestation-key skips it.
	return a.PrintOne(made, []string{key}, func(bool) string { return auth.PublicKeyMark + "\n" + key + "\n" })
}
