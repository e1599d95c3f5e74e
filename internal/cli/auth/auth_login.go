package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/secret"
)

func (a Commands) login() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "login --jwt-file FILE [--out FILE]",
		Short: "Exchange an identity provider's token for an access token",
		Long: "Exchange an identity provider's token for an access token, and print it, or write it to a file\n" +
			"that only its owner reads.\n\n" +
			"The identity token is a JWT of a known issuer (`rota auth issuer list`). It counts once. The\n" +
			"access token ends with it, after at most an hour.",
		Example: "  rota auth login --jwt-file id.jwt --out rota.token\n  rota job list --token-file rota.token",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "jwt-file", "",
		"`file` with the identity token, readable by its owner only; - is stdin")
	cmd.Flags().StringVar(&to, "out", "", "write the access token to this `file`, mode 0600, instead of printing it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from == "" {
			return cli.Usagef("--jwt-file is missing: pass the identity token to exchange")
		}
		a.Unknown = true // an access token that has ended would be refused before the other is looked at
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) (err error) {
			jwt, err := readJWT(from, cmd.InOrStdin())
			if err != nil {
				return err
			}
			var out *tokenOut
			if to != "" { // what cannot be written is not exchanged: the identity token counts once
				if out, err = openToken(to); err != nil {
					return cli.Usagef("write --out: %w", err)
				}
				defer out.abandon()
			}
			t, token, err := c.Auth().Exchange(ctx, jwt)
			if err != nil {
				return err
			}
			if out != nil {
				if err := out.write(token); err != nil {
					return err
				}
				return a.PrintOne(map[string]any{"token": t, "file": to}, []string{t.ID}, func(bool) string {
					return "token " + t.ID + " is in " + to + ", it counts until " + t.Expires.String() + "\n"
				})
			}
			made := struct {
				Token  rota.AccessToken `json:"token"`
				Secret string           `json:"secret"`
			}{t, token}
			return a.PrintOne(made, []string{t.ID}, func(bool) string { return token + "\n" })
		}))(cmd, args)
	}
	return cmd
}

// readJWT reads an identity token from a file, or from standard input.
func readJWT(name string, stdin io.Reader) (string, error) {
	const most = limits.MaxJWT + 2 // and an end of line
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(stdin, most+1))
	} else {
		text, err = secret.ReadFile(name, most)
	}
	text = bytes.TrimSpace(text)
	switch {
	case err != nil:
		return "", cli.Usagef("read --jwt-file: %w", err)
	case len(text) == 0:
		return "", cli.Usagef("--jwt-file is empty: use a file with an identity token")
	case len(text) > limits.MaxJWT:
		return "", cli.Usagef("--jwt-file has more than %d bytes: it is not an identity token", limits.MaxJWT)
	}
	return string(text), nil
}

// tokenOut is a file for a token, beside the one whose place it takes when it is written.
type tokenOut struct {
	name string
	file *os.File
}

// openToken makes a file that only its owner reads.
func openToken(name string) (*tokenOut, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, rota.Refusef(rota.KindInvalid, "out", "%s is not a file", name)
	}
	next := name + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return &tokenOut{name, f}, err
}

func (o *tokenOut) write(token string) error {
	_, err := o.file.WriteString(token + "\n")
	if err = errors.Join(err, o.file.Close()); err == nil {
		err = os.Rename(o.file.Name(), o.name)
	}
	return err
}

// abandon removes the file where it was not written.
func (o *tokenOut) abandon() {
	_ = o.file.Close()
	_ = os.Remove(o.file.Name())
}

func (a Commands) setIssuer() *cobra.Command {
	var i rota.Issuer
	var maps []string
	var ca string
	cmd := &cobra.Command{
		Use:   "set URL --audience A --map CLAIM=VALUE:ROLE [--ca-file FILE]",
		Short: "Accept tokens of an identity provider",
		Long: "Accept tokens of an identity provider: those of this issuer, for this audience, whose claims\n" +
			"match a map. The first matching map gives the role. A value is an id, or a prefix and *.\n" +
			"A claim inside others is a path: realm_access.roles.",
		Example: "  rota auth issuer set https://token.actions.githubusercontent.com --audience rota --map 'sub=repo:acme/site:ref:refs/heads/main:submitter'",
		Args:    cobra.ExactArgs(1),
	}
	var how cli.SetFlags
	how.RegisterMatch(cmd.Flags())
	cmd.Flags().StringVar(&i.Audience, "audience", "", "`audience` that the tokens must be for")
	cmd.Flags().StringArrayVar(&maps, "map", nil, "`claim=value:role` that gives a role; may be repeated")
	cmd.Flags().StringVar(&ca, "ca-file", "",
		"`file` with the authorities (PEM) of the issuer's address (default: the nodes' own)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i.URL = args[0]
		for _, text := range maps {
			m, err := parseMap(text)
			if err != nil {
				return err
			}
			i.Maps = append(i.Maps, m)
		}
		if i.Audience == "" || len(i.Maps) == 0 {
			return cli.Usagef("set --audience and --map: which tokens are accepted, and which role they give")
		}
		if ca != "" {
			pem, err := cli.ReadSmall(ca, limits.MaxIssuerCA)
			if err != nil {
				return cli.Usagef("read --ca-file: %w", err)
			}
			i.CA = string(pem)
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			set, err := c.Auth().SetIssuer(ctx, i, how.Only())
			if err != nil {
				return err
			}
			return a.PrintOne(set, []string{set.URL}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "issuer", Value: set.URL},
					{Name: "audience", Value: set.Audience}, {Name: "maps", Value: mapsText(set.Maps)}})
			})
		}))(cmd, args)
	}
	return cmd
}

// parseMap reads CLAIM=VALUE:ROLE; a value may have colons.
func parseMap(text string) (m rota.ClaimRole, err error) {
	claim, rest, is := strings.Cut(text, "=")
	at := strings.LastIndexByte(rest, ':')
	if !is || at < 0 {
		return m, cli.Usagef("--map %q is not of the form CLAIM=VALUE:ROLE", text)
	}
	return rota.ClaimRole{Claim: claim, Value: rest[:at], Role: rest[at+1:]}, nil
}

func mapsText(maps []rota.ClaimRole) string {
	all := make([]string, len(maps))
	for i, m := range maps {
		all[i] = m.String()
	}
	return strings.Join(all, ", ")
}

func (a Commands) listIssuers() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the identity providers whose tokens are accepted",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			issuers, err := client.Collect(c.Auth().Issuers(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "issuers", issuers, func(i rota.Issuer) string { return i.URL },
				[]cli.Column[rota.Issuer]{
					{Head: "ISSUER", Cell: func(i rota.Issuer) any { return i.URL }},
					{Head: "AUDIENCE", Cell: func(i rota.Issuer) any { return i.Audience }},
					{Head: "MAPS", Cell: func(i rota.Issuer) any { return mapsText(i.Maps) }},
					{Head: "BY", Wide: true, Cell: func(i rota.Issuer) any { return i.By }},
					{Head: "ETAG", Wide: true, Cell: func(i rota.Issuer) any { return i.ETag }},
				})
		})),
	})
}
