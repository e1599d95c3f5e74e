package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/relay"
)

// WebhookCommands are the commands of webhooks.
type WebhookCommands struct{ *cli.App }

// Command returns `rota webhook` and the commands below it.
func (a WebhookCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "webhook", Short: "Post events to others"},
		a.set(), a.list(), a.show(), a.pause(),
		a.change("resume W", "Resume a disabled webhook from its cursor", "webhook resume billing",
			func(w client.Webhooks, ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
				return w.Resume(ctx, name)
			}),
		a.change("skip W", "Skip the pending events of a webhook", "webhook skip billing",
			client.Webhooks.Skip),
		a.DeletesVersion("delete W", "Delete a webhook and drop its undelivered events", "webhook delete billing",
			func(ctx context.Context, c *client.Client, name string, only client.Condition) error {
				return client.WebhooksOf(c).Delete(ctx, rota.WebhookName(name), only)
			}),
		a.secret())
}

func (a WebhookCommands) set() *cobra.Command {
	var spec rota.WebhookSpec
	var kinds string
	cmd := &cobra.Command{
		Use:   "set W --url URL [--kinds K,K] [--filter F] [--generation N]",
		Short: "Create or replace a webhook",
		Long: `Create or replace a webhook: each event that it selects from now on becomes a job in the queue rota-webhooks,
which ` + "`rota relay webhooks`" + ` posts to the URL. It selects only events that your present rights
cover, which requires the right read.`,
		Example: `  rota webhook set billing --url https://example.com/rota --kinds jobCompleted,jobDead --filter 'queue=billing'
  rota webhook set billing --url https://example.com/rota --generation 2`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&spec.URL, "url", "", "`URL` to which events are posted")
	cmd.Flags().StringVar(&kinds, "kinds", "", "the `kinds` of events, such as jobDead (default: all)")
	cmd.Flags().StringVar(&spec.Filter, "filter", "",
		"`terms` that events must match: queue, tenant, id, schedule, workflow")
	cmd.Flags().Uint64Var(&spec.Generation, "generation", 0,
		"`number` of the secret: one more than before rotates it (default: unchanged)")
	cli.Within(cmd.Flags(), 0, cli.Unbounded, "generation")
	_ = cmd.MarkFlagRequired("url")
	var how cli.SetFlags
	how.RegisterMatch(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec.Name, spec.Kinds = rota.WebhookName(args[0]), nil
		for _, name := range strings.FieldsFunc(kinds, func(r rune) bool { return r == ',' || r == ' ' }) {
			var k rota.EventKind
			if err := k.UnmarshalText([]byte(name)); err != nil {
				return err
			}
			spec.Kinds = append(spec.Kinds, k)
		}
		if err := spec.CheckShape(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			w, err := client.WebhooksOf(c).Set(ctx, spec, how.Only())
			if err != nil {
				return err
			}
			return a.print(w)
		}))(cmd, args)
	}
	return cmd
}

// change makes a command that changes a webhook by its name alone, and prints it.
func (a WebhookCommands) change(use, short, example string,
	do func(client.Webhooks, context.Context, rota.WebhookName) (rota.Webhook, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  rota " + example, Args: cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name := rota.WebhookName(args[0])
			if err := name.Check("webhook"); err != nil {
				return err
			}
			w, err := do(client.WebhooksOf(c), ctx, name)
			if err != nil {
				return err
			}
			return a.print(w)
		}))}
}

func (a WebhookCommands) pause() *cobra.Command {
	var reason string
	cmd := a.change("pause W", "Disable a webhook until it is resumed",
		"webhook pause billing --reason 'the receiver moves'",
		func(w client.Webhooks, ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
			return w.Pause(ctx, name, reason)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` to show")
	return cmd
}

func (a WebhookCommands) list() *cobra.Command {
	return a.ListMade(&cobra.Command{
		Use:   "list",
		Short: "List the webhooks",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			hooks, err := client.Collect(client.WebhooksOf(c).List(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "webhooks", hooks, func(w rota.Webhook) string { return string(w.Name) },
				[]cli.Column[rota.Webhook]{
					{Head: "NAME", Cell: func(w rota.Webhook) any { return w.Name }},
					{Head: "STATE", Cell: func(w rota.Webhook) any { return w.State }},
					{Head: "URL", Cell: func(w rota.Webhook) any { return w.URL }},
					{Head: "PENDING", Cell: func(w rota.Webhook) any { return w.Pending }},
					{Head: "DELIVERED", Cell: func(w rota.Webhook) any { return w.Delivered }},
					{Head: "FAILED", Cell: func(w rota.Webhook) any { return w.Failed }},
					{Head: "GAPS", Wide: true, Cell: func(w rota.Webhook) any { return w.Gaps }},
					{Head: "WHY", Wide: true, Cell: func(w rota.Webhook) any { return w.Why }},
				})
		})),
	})
}

func (a WebhookCommands) show() *cobra.Command {
	cmd := a.change("show W", "Show a webhook and its deliveries", "webhook show billing",
		func(w client.Webhooks, ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
			got, err := w.Get(ctx, name, a.Fresh()...)
			if err == nil {
				a.Seen()
			}
			return got, err
		})
	return a.Reads(cmd)
}

func (a WebhookCommands) secret() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:     "secret W --key-file F",
		Short:   "Print the secrets of deliveries, newest first",
		Example: "  rota webhook secret billing --key-file relay.key",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			k, err := relay.ReadKey(key)
			if err != nil {
				return err
			}
			name := rota.WebhookName(args[0])
			if err := name.Check("webhook"); err != nil {
				return err
			}
			w, err := client.WebhooksOf(c).Get(ctx, name)
			if err != nil {
				return err
			}
			for _, s := range k.Secrets(&w, time.Now()) {
				if _, err := fmt.Fprintln(a.Stdout, s.Text()); err != nil {
					return err
				}
			}
			return nil
		})),
	}
	cmd.Flags().StringVar(&key, "key-file", "", "the relay's key `file`")
	_ = cmd.MarkFlagRequired("key-file")
	return cmd
}

// print shows a webhook.
func (a WebhookCommands) print(w rota.Webhook) error {
	return a.PrintOne(w, []string{string(w.Name)}, func(bool) string {
		facts := []cli.Fact{{Name: "webhook", Value: w.Name}, {Name: "state", Value: w.State},
			{Name: "url", Value: w.URL}}
		if w.Why != "" {
			facts = append(facts, cli.Fact{Name: "why", Value: w.Why})
		}
		kinds := "all"
		if len(w.Kinds) > 0 {
			kinds = strings.Trim(fmt.Sprint(w.Kinds), "[]")
		}
		facts = append(facts, cli.Fact{Name: "kinds", Value: kinds})
		if w.Filter != "" {
			facts = append(facts, cli.Fact{Name: "filter", Value: w.Filter})
		}
		for _, g := range w.Sees {
			facts = append(facts, cli.Fact{Name: "sees", Value: g.String()})
		}
		facts = append(facts, cli.Fact{Name: "generation", Value: w.Generation},
			cli.Fact{Name: "cursor", Value: w.Cursor}, cli.Fact{Name: "pending", Value: w.Pending},
			cli.Fact{Name: "delivered", Value: w.Delivered}, cli.Fact{Name: "failed", Value: w.Failed})
		if w.Gap != nil {
			facts = append(facts, cli.Fact{Name: "gaps", Value: fmt.Sprintf("%d, the last between %s and %s", w.Gaps,
				w.Gap.After, w.Gap.Before)})
		}
		return cli.RenderFacts(append(facts, cli.Fact{Name: "etag", Value: w.ETag}, cli.Fact{Name: "set", Value: w.Set},
			cli.Fact{Name: "by", Value: w.By}))
	})
}
