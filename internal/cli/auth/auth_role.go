package auth

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/cli"
)

func (a Commands) setRole() *cobra.Command {
	var texts []string
	var role rota.Role
	cmd := &cobra.Command{
		Use:   "set ROLE --grant GRANT [--max-workers N]",
		Short: "Create a role or replace its grants and limits",
		Long: "Create a role or replace its grants and limits.\n\n" +
			"A grant is a right and its scope, as whoami shows it: \"submit tenant=acme* queue=render\".\n" +
			"Without a tenant or queue it covers all. Of several roles the most generous limit counts.",
		Example: "  rota auth role set acme --grant 'submit tenant=acme*' --grant 'read tenant=acme*'\n" +
			"  rota auth role set fleet --grant work --max-workers 20000",
		Args: cobra.ExactArgs(1),
	}
	var how cli.SetFlags
	how.RegisterMatch(cmd.Flags())
	cmd.Flags().StringArrayVar(&texts, "grant", nil, "`right` and its scope; may be repeated")
	for what := range access.OwnsEnd {
		flag := strings.ReplaceAll(what.Field(), "_", "-")
		cmd.Flags().Int64Var(what.Of(&role.RoleLimits), flag, 0,
			fmt.Sprintf("`number` of %s that each principal may own; 0 is %d",
				strings.TrimPrefix(flag, "max-"), what.Usual()))
		cli.Within(cmd.Flags(), 0, what.Limit(), flag)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		role.Name, role.Grants = args[0], make([]rota.Grant, len(texts))
		for i, text := range texts {
			var err error
			if role.Grants[i], err = ParseGrant(text); err != nil {
				return err
			}
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Auth().SetRole(ctx, role, how.Only())
			if err != nil {
				return err
			}
			return a.PrintOne(r, []string{r.Name}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "role", Value: r.Name},
					{Name: "grants", Value: grantsText(r.Grants)},
					{Name: "limits", Value: roleLimitsText(r.RoleLimits)}})
			})
		}))(cmd, args)
	}
	return cmd
}

// roleLimitsText writes the limits that a role sets as their flags do.
func roleLimitsText(l rota.RoleLimits) string {
	var set []string
	for what := range access.OwnsEnd {
		if n := *what.Of(&l); n != 0 {
			set = append(set, fmt.Sprintf("%s=%d", what.Field(), n))
		}
	}
	return strings.Join(set, ", ")
}

// ParseGrant reads a grant as rota.Grant.String writes it.
func ParseGrant(text string) (g rota.Grant, err error) {
	g.Tenant, g.Queue = "*", "*"
	parts := strings.Fields(text)
	if len(parts) == 0 {
		return g, cli.Usagef("--grant is empty: use a right, such as \"read tenant=acme*\"")
	}
	if err := g.Right.UnmarshalText([]byte(parts[0])); err != nil {
		return g, err
	}
	for _, part := range parts[1:] {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "tenant":
			g.Tenant = value
		case "queue":
			g.Queue = value
		default:
			return g, cli.Usagef("--grant %q: %q is neither tenant=… nor queue=…", text, part)
		}
	}
	return g, nil
}

func (a Commands) listRoles() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the roles, including built-in ones",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			roles, err := client.Collect(c.Auth().Roles(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "roles", roles, func(r rota.Role) string { return r.Name },
				[]cli.Column[rota.Role]{
					{Head: "ROLE", Cell: func(r rota.Role) any { return r.Name }},
					{Head: "BUILT IN", Cell: func(r rota.Role) any { return r.BuiltIn }},
					{Head: "GRANTS", Cell: func(r rota.Role) any { return grantsText(r.Grants) }},
					{Head: "LIMITS", Cell: func(r rota.Role) any { return roleLimitsText(r.RoleLimits) }},
					{Head: "BY", Wide: true, Cell: func(r rota.Role) any { return r.By }},
					{Head: "ETAG", Wide: true, Cell: func(r rota.Role) any { return r.ETag }},
				})
		})),
	})
}

func grantsText(grants []rota.Grant) string {
	all := make([]string, len(grants))
	for i, g := range grants {
		all[i] = g.String()
	}
	return strings.Join(all, ", ")
}
