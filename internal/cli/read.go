package cli

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// MaxRead is how long one call of a command that only reads is tried where --timeout says
// nothing: longer than an election takes, and no longer than a person waits for an answer.
const MaxRead = 10 * time.Second

// Impatient has a command give up a cluster that does not answer within MaxRead.
func (a *App) Impatient(cmd *cobra.Command) *cobra.Command {
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.patience = MaxRead
		return work(cmd, args)
	}
	return cmd
}

// Reads returns a command that reads --stale, and no more time than a person has.
func (a *App) Reads(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.stale, "stale", false,
		"read the asked node's own state, which may lag behind; works for 30 s without a leader")
	return a.Impatient(cmd)
}

// Fresh returns how fresh a read must be: linearizable, unless --stale is given.
func (a *App) Fresh() []client.ReadOption {
	opts := []client.ReadOption{client.Seen(&a.saw)}
	if a.stale {
		opts = append(opts, client.Stale())
	}
	if a.by != "" {
		opts = append(opts, client.MadeBy(rota.Principal(a.by)))
	}
	return opts
}

// Seen says how old a stale read was.
func (a *App) Seen() {
	switch at := a.saw; {
	case !a.stale:
	case at.Age < 0:
		a.Talk("stale: index %d", at.Index)
	default:
		a.Talk("stale: index %d, applied %s ago", at.Index, at.Age)
	}
}

// Page reads a page, as many calls as it takes, into items and the cursor behind it, and
// says how to go on. A queue that the list is filtered by must be there.
func Page[T any](ctx context.Context, a *App, c *client.Client, queue string, items *[]T, next *string,
	read func(opts ...client.ReadOption) iter.Seq2[T, error]) error {
	got, err := client.Collect(read(append(a.Fresh(), client.Next(next))...))
	if err != nil {
		return err
	}
	a.Seen()
	*items = append([]T{}, got...)
	if err := a.KnownQueue(ctx, c, queue, len(got)); err != nil {
		return err
	}
	if *next != "" && (a.Output == "table" || a.Output == "wide" || a.Output == "name") {
		a.Talk("more: --cursor %s", *next)
	}
	return nil
}

// KnownQueue refuses a filter that finds nothing because its queue does not exist.
func (a *App) KnownQueue(ctx context.Context, c *client.Client, name string, found int) error {
	if name == "" || found > 0 {
		return nil
	}
	_, err := c.Queue(ctx, rota.QueueName(name), a.Fresh()...)
	return err
}

// ListCommand is what all lists have in common: ls, and --stale.
func (a *App) ListCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Aliases = []string{"ls"}
	return a.Reads(cmd)
}

// ListMade is listCommand for what acts for who made it, also after that one's credential was
// revoked: --by selects it.
func (a *App) ListMade(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.by, "by", "", "only those last changed by this `principal`, such as token:ID")
	return a.ListCommand(cmd)
}

// Shortcut makes a list's command one of the first level: rota jobs is rota job list.
func (a *App) Shortcut(name, group string, list *cobra.Command) *cobra.Command {
	list.Use, list.Aliases = name, nil
	list.Short = "The same as rota " + group + " list"
	return list
}

// SetFlags are the flags of commands that set something.
type SetFlags struct {
	Dry  bool
	etag string
}

// Register defines --dry-run and --if-match.
func (f *SetFlags) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Dry, "dry-run", false, "only show the changes")
	f.RegisterMatch(flags)
}

// RegisterMatch is register for commands without a dry run.
func (f *SetFlags) RegisterMatch(flags *pflag.FlagSet) {
	flags.StringVar(&f.etag, "if-match", "",
		"change only the version with this `etag` (shown by -o json); fails if it has changed since")
}

// Options returns what the flags ask of a call that sets something.
func (f *SetFlags) Options() []client.SetOption {
	opts := []client.SetOption{f.Only()}
	if f.Dry {
		opts = append(opts, client.DryRun())
	}
	return opts
}

// Only is the condition of --if-match.
func (f *SetFlags) Only() client.Condition { return client.IfMatch(f.etag) }

// Would prints the changes that a dry run returned.
func (f *SetFlags) Would(a *App, value any, name string, changes []rota.SettingChange) error {
	var names []string
	if name != "" {
		names = []string{name}
	}
	return a.PrintOne(value, names, func(wide bool) string {
		if len(changes) == 0 {
			return "nothing would change\n"
		}
		return RenderList([]Column[rota.SettingChange]{
			{"KEY", false, 0, func(c rota.SettingChange) any { return c.Key }},
			{"IS", false, 0, func(c rota.SettingChange) any { return c.From }},
			{"WOULD BE", false, 0, func(c rota.SettingChange) any { return c.To }},
		}, changes, wide)
	})
}

// Deletes makes a command that forgets one thing; one that is not there is no error.
func (a *App) Deletes(use, short, example string,
	do func(context.Context, *client.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Example: "  rota " + example,
		RunE:    a.Does(a.Calling(a.Deleting(do))),
	}
}

// DeletesVersion is deletes with the flag --if-match.
func (a *App) DeletesVersion(use, short, example string,
	do func(context.Context, *client.Client, string, client.Condition) error) *cobra.Command {
	var how SetFlags
	cmd := a.Deletes(use, short, example, func(ctx context.Context, c *client.Client, id string) error {
		return do(ctx, c, id, how.Only())
	})
	how.RegisterMatch(cmd.Flags())
	return cmd
}

// Deleting returns what forgets one thing, and says so.
func (a *App) Deleting(
	do func(context.Context, *client.Client, string) error) func(context.Context, *client.Client, []string) error {
	return func(ctx context.Context, c *client.Client, args []string) error {
		if err := do(ctx, c, args[0]); err != nil {
			return err
		}
		return a.PrintOne(map[string]any{"id": args[0], "deleted": true}, []string{args[0]},
			func(bool) string { return args[0] + " is deleted\n" })
	}
}
