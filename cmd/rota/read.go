package main

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// readMost is how long one call of a command that only reads is tried where --timeout says
// nothing: longer than an election takes, and no longer than a person waits for an answer.
const readMost = 10 * time.Second

// impatient has a command give up a cluster that is gone after readMost.
func (a *app) impatient(cmd *cobra.Command) *cobra.Command {
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.patience = readMost
		return work(cmd, args)
	}
	return cmd
}

// reads returns a command that reads --stale, and no more time than a person has.
func (a *app) reads(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.stale, "stale", false,
		"read the asked node's own state at once, which may lag behind; works for 30 s without a leader")
	return a.impatient(cmd)
}

// fresh returns how fresh a read must be: linearizable, unless --stale is given.
func (a *app) fresh() []client.ReadOption {
	opts := []client.ReadOption{client.Seen(&a.saw)}
	if a.stale {
		opts = append(opts, client.Stale())
	}
	if a.by != "" {
		opts = append(opts, client.MadeBy(rota.Principal(a.by)))
	}
	return opts
}

// seen says how old a stale read was.
func (a *app) seen() {
	switch at := a.saw; {
	case !a.stale:
	case at.Age < 0:
		a.talk("stale: index %d", at.Index)
	default:
		a.talk("stale: index %d, applied %s ago", at.Index, at.Age)
	}
}

// page reads a page, as many calls as it takes, into items and the cursor behind it, and
// says how to go on. A queue that the list is filtered by must be there.
func page[T any](ctx context.Context, a *app, c *client.Client, queue string, items *[]T, next *string,
	read func(opts ...client.ReadOption) iter.Seq2[T, error]) error {
	got, err := client.Collect(read(append(a.fresh(), client.Next(next))...))
	if err != nil {
		return err
	}
	a.seen()
	*items = append([]T{}, got...)
	if err := a.knownQueue(ctx, c, queue, len(got)); err != nil {
		return err
	}
	if *next != "" && (a.output == "table" || a.output == "wide" || a.output == "name") {
		a.talk("more: --cursor %s", *next)
	}
	return nil
}

// knownQueue refuses a filter that finds nothing because its queue does not exist.
func (a *app) knownQueue(ctx context.Context, c *client.Client, name string, found int) error {
	if name == "" || found > 0 {
		return nil
	}
	_, err := c.Queue(ctx, rota.QueueName(name), a.fresh()...)
	return err
}

// listCommand is what all lists have in common: ls, and --stale.
func (a *app) listCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Aliases = []string{"ls"}
	return a.reads(cmd)
}

// listMade is listCommand for what acts for who made it, also after that one's credential was
// revoked: --by selects it.
func (a *app) listMade(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.by, "by", "", "only what this `principal` made or set last, such as token:ID")
	return a.listCommand(cmd)
}

// shortcut makes a list's command one of the first level: rota jobs is rota job list.
func (a *app) shortcut(name, group string, list *cobra.Command) *cobra.Command {
	list.Use, list.Aliases = name, nil
	list.Short = "The same as rota " + group + " list"
	return list
}

// setFlags are the flags of commands that set something.
type setFlags struct {
	dry  bool
	etag string
}

func (f *setFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.dry, "dry-run", false, "store nothing, show what would change")
	f.registerMatch(flags)
}

// registerMatch is register for commands without a dry run.
func (f *setFlags) registerMatch(flags *pflag.FlagSet) {
	flags.StringVar(&f.etag, "if-match", "", "change only the version with this `etag` (shown by -o json): refused if it has changed since")
}

func (f *setFlags) options() []client.SetOption {
	opts := []client.SetOption{f.only()}
	if f.dry {
		opts = append(opts, client.DryRun())
	}
	return opts
}

func (f *setFlags) only() client.Condition { return client.IfMatch(f.etag) }

// would prints the changes that a dry run returned.
func (f *setFlags) would(a *app, value any, name string, changes []rota.SettingChange) error {
	var names []string
	if name != "" {
		names = []string{name}
	}
	return a.printOne(value, names, func(wide bool) string {
		if len(changes) == 0 {
			return "nothing would change\n"
		}
		return renderList([]column[rota.SettingChange]{
			{"KEY", false, 0, func(c rota.SettingChange) any { return c.Key }},
			{"IS", false, 0, func(c rota.SettingChange) any { return c.From }},
			{"WOULD BE", false, 0, func(c rota.SettingChange) any { return c.To }},
		}, changes, wide)
	})
}

// deletes makes a command that forgets one thing; one that is not there is no error.
func (a *app) deletes(use, short, example string, do func(context.Context, *client.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Example: "  rota " + example,
		RunE:    a.does(a.calling(a.deleting(do))),
	}
}

// deletesVersion is deletes with the flag --if-match.
func (a *app) deletesVersion(use, short, example string, do func(context.Context, *client.Client, string, client.Condition) error) *cobra.Command {
	var how setFlags
	cmd := a.deletes(use, short, example, func(ctx context.Context, c *client.Client, id string) error { return do(ctx, c, id, how.only()) })
	how.registerMatch(cmd.Flags())
	return cmd
}

// deleting returns what forgets one thing, and says so.
func (a *app) deleting(do func(context.Context, *client.Client, string) error) func(context.Context, *client.Client, []string) error {
	return func(ctx context.Context, c *client.Client, args []string) error {
		if err := do(ctx, c, args[0]); err != nil {
			return err
		}
		return a.printOne(map[string]any{"id": args[0], "deleted": true}, []string{args[0]}, func(bool) string { return args[0] + " is deleted\n" })
	}
}
