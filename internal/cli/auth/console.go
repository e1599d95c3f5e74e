package auth

import (
	"context"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// consoleAccess is what `rota console` prints.
type consoleAccess struct {
	Link    string    `json:"link"`
	Session string    `json:"session,omitempty"`
	Expires rota.Date `json:"expires_ms,omitempty"`
}

// ConsoleCommands has the command `rota console`.
type ConsoleCommands struct{ *cli.App }

// Command prints a link that signs a browser in, or opens it.
func (a ConsoleCommands) Command() *cobra.Command {
	var open bool
	cmd := a.Impatient(&cobra.Command{
		Use:   "console [--open]",
		Short: "Print a link that signs a browser in to the web console",
		Long: "Print a link that signs a browser in to the web console, as the caller. It counts once, for a\n" +
			"minute; the page asks before it uses it.\n\n" +
			"The browser gets a session with the caller's rights, which ends with the caller's token or\n" +
			"certificate, after at most 12 hours. Callers without a credential need no session: the link is\n" +
			"the console's address.",
		Example: "  rota console\n  rota console --open --token-file reader.token",
		Args:    cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			link, err := a.consoleLink(ctx, c)
			if err != nil {
				return err
			}
			if open {
				err := browse(link.Link)
				if err == nil {
					return nil
				}
				a.Talk("no browser was opened: %v", err)
			}
			return a.PrintOne(link, []string{link.Link}, func(bool) string { return link.Link + "\n" })
		})),
	})
	cmd.Flags().BoolVar(&open, "open", false,
		"open the link in a browser; other accounts of this machine may see it among processes' arguments and use it first")
	return cmd
}

// consoleLink is where the console is, with a session for who may have one.
func (a ConsoleCommands) consoleLink(ctx context.Context, c *client.Client) (consoleAccess, error) {
	who, err := c.Auth().WhoAmI(ctx)
	if err != nil {
		return consoleAccess{}, err
	}
	at := "http://" + a.Addrs[0]
	if a.TLS != (cli.TLSFiles{}) {
		at = "https://" + a.Addrs[0]
	}
	if who.Principal == rota.Anonymous {
		return consoleAccess{Link: at + "/ui/"}, nil
	}
	t, secret, origin, err := c.Auth().OpenSession(ctx, true)
	if err != nil {
		return consoleAccess{}, err
	}
	if origin != "" {
		at = origin
	}
	return consoleAccess{Link: strings.TrimSuffix(at, "/") + "/ui/#code=" + secret, Session: t.ID, Expires: t.Expires},
		nil
}

// browse has the system open a link.
func browse(link string) error {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	return exec.Command(opener, link).Start()
}
