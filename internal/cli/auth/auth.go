package auth

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
)

// Commands are the commands of tokens, roles and blocks.
type Commands struct{ *cli.App }

// Command returns `rota auth` and the commands below it.
func (a Commands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "auth", Short: "Manage tokens, roles and access rights"},
		a.first("init", "Make and print the first token of a cluster, which has all rights",
			"Make and print the first token of a cluster. It has all rights, and callers without a\n"+
				"token have none from then on. Of two concurrent calls one wins. The call uses the socket in the\n"+
				"data directory of a running node: call it there, as the node's account or as root.",
			client.Auth.Init),
		a.first("reset", "Make another token with all rights, if the first is lost",
			"Make another token with all rights, if the first is lost, and print it, this once.\n"+
				"It uses the node's socket as auth init does, any number of times, and emits an event authReset.\n"+
				"Earlier tokens stay valid.",
			client.Auth.Reset),
		a.whoami(), a.login(),
		a.Group(&cobra.Command{Use: "issuer", Short: "Set and list identity providers whose tokens sign in"},
			a.setIssuer(), a.listIssuers(),
			a.oneVersion("delete URL", "Stop accepting tokens of an identity provider",
				"auth issuer delete https://idp.example", "is deleted",
				client.Auth.DeleteIssuer)),
		a.Group(&cobra.Command{Use: "token", Short: "Make, list and revoke access tokens"}, a.createToken(),
			a.listTokens(),
			a.one("revoke ID", "Revoke a token permanently", "auth token revoke k3vq5xw2hn7a", "is revoked",
				client.Auth.RevokeToken)),
		a.Group(&cobra.Command{Use: "role", Short: "Set and list roles"}, a.setRole(), a.listRoles(),
			a.oneVersion("delete ROLE", "Delete a role; its holders lose the rights it grants",
				"auth role delete billing", "is deleted", client.Auth.DeleteRole)),
		a.one("block ROLE/NAME", "Refuse the client certificates of a role and a name", "auth block operator/ann",
			"is blocked", blocking(true)),
		a.one("unblock ROLE/NAME", "Accept blocked client certificates again", "auth unblock operator/ann",
			"is accepted again", blocking(false)), a.listBlocks(), a.anonymous())
}

// first makes a command that makes a token by a node's socket.
func (a Commands) first(use, short, long string, do func(client.Auth, context.Context, rota.Date) (rota.AccessToken,
	string, error)) *cobra.Command {
	var data string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: use + " --data DIR [--expires D]", Short: short, Long: long, Args: cobra.NoArgs,
		Example: "  (umask 077; rota auth " + use + " --data /var/lib/rota >root.token)",
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of the node, as in rota server --data")
	cli.DurationVar(cmd.Flags(), &expires, "expires", 90*24*time.Hour, "how long the token is valid, at most 366d")
	cli.Within(cmd.Flags(), time.Minute, limits.MaxTokenLife, "expires")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if data == "" {
			return cli.Usagef("--data is missing: the data directory of a node that runs here")
		}
		return a.Does(func(ctx context.Context, args []string) error {
			if err := a.ThroughSocket(data); err != nil {
				return err
			}
			return a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
				made, secret, err := do(c.Auth(), ctx, rota.DateOf(time.Now().Add(expires)))
				if err == nil && use == "reset" {
					a.Talk("%s", EarlierTokens(c.Auth().AccessTokens(ctx), made.ID, rota.DateOf(time.Now())))
				}
				return a.printMade(made, secret, err)
			})(ctx, args)
		})(cmd, args)
	}
	return cmd
}

// EarlierTokens describes how many tokens other than the one that was just made are valid: after a restore, none.
func EarlierTokens(tokens iter.Seq2[rota.AccessToken, error], made string, now rota.Date) string {
	valid := 0
	for t, err := range tokens {
		if err != nil {
			return "earlier tokens stay as they are: with this one, rota auth token list shows which are valid, and rota auth token revoke ID ends one"
		}
		if t.ID != made && t.Parent == "" && t.Revoked.IsZero() && t.Expires > now {
			valid++
		}
	}
	if valid == 0 {
		return "no earlier token is valid: make new ones with this one (rota auth token create)"
	}
	return fmt.Sprintf(
		"earlier tokens that are valid: %d; with this one, rota auth token list shows them, and rota auth token revoke ID ends a lost one",
		valid)
}

// printMade prints a token with its secret.
func (a Commands) printMade(t rota.AccessToken, secret string, err error) error {
	if err != nil {
		return err
	}
	made := struct {
		Token  rota.AccessToken `json:"token"`
		Secret string           `json:"secret"`
	}{t, secret}
	return a.PrintOne(made, []string{t.ID}, func(bool) string { return secret + "\n" })
}

// one makes a command that does one thing to what it names.
func (a Commands) one(use, short, example, done string,
	do func(client.Auth, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Example: "  rota " + example,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			if err := do(c.Auth(), ctx, args[0]); err != nil {
				return err
			}
			return a.PrintOne(map[string]any{"id": args[0]}, args,
				func(bool) string { return args[0] + " " + done + "\n" })
		})),
	}
}

// oneVersion is one with the flag --if-match.
func (a Commands) oneVersion(use, short, example, done string,
	do func(client.Auth, context.Context, string, ...client.Condition) error) *cobra.Command {
	var how cli.SetFlags
	cmd := a.one(use, short, example, done,
		func(auth client.Auth, ctx context.Context, id string) error { return do(auth, ctx, id, how.Only()) })
	how.RegisterMatch(cmd.Flags())
	return cmd
}

func blocking(blocked bool) func(client.Auth, context.Context, string) error {
	return func(auth client.Auth, ctx context.Context, of string) error {
		role, name, ok := strings.Cut(of, "/")
		if !ok {
			return cli.Usagef("%q is not of the form ROLE/NAME", of)
		}
		return auth.SetBlock(ctx, role, name, blocked)
	}
}

func (a Commands) whoami() *cobra.Command {
	return a.Impatient(&cobra.Command{
		Use:   "whoami",
		Short: "Show the caller's identity and rights",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			who, err := c.Auth().WhoAmI(ctx)
			if err != nil {
				return err
			}
			return a.PrintOne(who, []string{string(who.Principal)}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "principal", Value: who.Principal},
					{Name: "by", Value: who.By}, {Name: "rights", Value: grantsText(who.Grants)},
					{Name: "within tenants", Value: strings.Join(who.Tenants, ", ")},
					{Name: "within queues", Value: strings.Join(who.Queues, ", ")}})
			})
		})),
	})
}

func (a Commands) createToken() *cobra.Command {
	var want rota.AccessToken
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create --role ROLE --expires D [--tenant P] [--queue P] [--worker-prefix P]",
		Short: "Make an access token and print it, this once",
		Long: "Make an access token and print it, this once.\n\n" +
			"The cluster keeps only its hash. To replace a token, create another one, write it over the file\n" +
			"of --token-file, and revoke the old one.",
		Example: "  (umask 077; rota auth token create --role submitter --tenant acme --expires 90d >acme.token)",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&want.Roles, "role", nil, "`roles` that it has, separated by commas")
	flags.StringSliceVar(&want.Tenants, "tenant", nil,
		"`patterns` of its tenants: ids, or prefixes and * (default: all)")
	flags.StringSliceVar(&want.Queues, "queue", nil, "`patterns` of its queues (default: all)")
	flags.StringVar(&want.WorkerPrefix, "worker-prefix", "", "`prefix` of the ids of its workers")
	cli.DurationVar(flags, &expires, "expires", 0, "how long it is valid, at most 366d")
	cli.Within(flags, 0, limits.MaxTokenLife, "expires")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(want.Roles) == 0 || expires <= 0 {
			return cli.Usagef("set --role and --expires: the token's rights and lifetime")
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			want.Expires = rota.DateOf(time.Now().Add(expires))
			return a.printMade(c.Auth().CreateToken(ctx, want))
		}))(cmd, args)
	}
	return cmd
}

func (a Commands) listTokens() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tokens that have not expired, including revoked ones",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			tokens, err := client.Collect(c.Auth().AccessTokens(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "tokens", tokens, func(t rota.AccessToken) string { return t.ID },
				[]cli.Column[rota.AccessToken]{
					{Head: "ID", Cell: func(t rota.AccessToken) any { return t.ID }},
					{Head: "ROLES", Cell: func(t rota.AccessToken) any { return rolesOf(&t) }},
					{Head: "TENANTS", Cell: func(t rota.AccessToken) any { return strings.Join(t.Tenants, ",") }},
					{Head: "QUEUES", Cell: func(t rota.AccessToken) any { return strings.Join(t.Queues, ",") }},
					{Head: "EXPIRES", Cell: func(t rota.AccessToken) any { return t.Expires }},
					{Head: "REVOKED", Cell: func(t rota.AccessToken) any { return !t.Revoked.IsZero() }},
					{Head: "WORKERS", Wide: true, Cell: func(t rota.AccessToken) any { return t.WorkerPrefix }},
					{Head: "BY", Wide: true, Cell: func(t rota.AccessToken) any { return t.By }},
				})
		})),
	})
}

// rolesOf is what a token may do in one word, or whose browser session it is.
func rolesOf(t *rota.AccessToken) string {
	if t.Parent != "" {
		return "session of " + string(t.Parent)
	}
	return strings.Join(t.Roles, ",")
}

func (a Commands) listBlocks() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "blocks",
		Short: "List the blocked client certificates",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			blocks, err := client.Collect(c.Auth().Blocks(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "blocks", blocks, func(b rota.Block) string { return b.Role + "/" + b.Name },
				[]cli.Column[rota.Block]{
					{Head: "CERTIFICATE", Cell: func(b rota.Block) any { return b.Role + "/" + b.Name }},
					{Head: "SINCE", Cell: func(b rota.Block) any { return b.At.Date }},
					{Head: "BY", Cell: func(b rota.Block) any { return b.By }},
				})
		})),
	})
}

func (a Commands) anonymous() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "anonymous ROLE…|none [--yes]",
		Short: "Set the roles of callers without a credential",
		Long: "Set the roles of callers without a credential.\n\n" +
			"If no token has the role root, a caller without a credential would lose its own rights: that\n" +
			"needs --yes. The way back is rota auth reset on a node.",
		Example: "  rota auth anonymous none",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "proceed even if no token with all rights remains")
	cmd.RunE = a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
		roles := args
		if len(args) == 1 && args[0] == "none" {
			roles = nil
		}
		if !yes && !slices.Contains(roles, access.RoleRoot) {
			if err := staysIn(ctx, c.Auth()); err != nil {
				return err
			}
		}
		if err := c.Auth().SetAnonymous(ctx, roles); err != nil {
			return err
		}
		return a.PrintOne(map[string]any{"roles": append([]string{}, roles...)}, roles, func(bool) string {
			return "callers without a credential: " + strings.Join(args, ", ") + "\n"
		})
	}))
	return cmd
}

// staysIn refuses a caller who would take their own rights where no token has all.
func staysIn(ctx context.Context, auth client.Auth) error {
	who, err := auth.WhoAmI(ctx)
	if err != nil || who.Principal != rota.Anonymous {
		return err
	}
	for t, err := range auth.AccessTokens(ctx) {
		if err != nil {
			return err
		}
		if t.Revoked.IsZero() && slices.Contains(t.Roles, access.RoleRoot) && len(t.Tenants)+len(t.Queues) == 0 {
			return nil
		}
	}
	return cli.Usagef(
		"this would leave the cluster without a root token: create one first (rota auth init on a node does both), or pass --yes")
}
