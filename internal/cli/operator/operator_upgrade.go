package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/upgrade"
)

const (
	// binaryCall bounds how long a binary has to say its version, maxBinary how much it may say.
	binaryCall = 10 * time.Second
	maxBinary  = 64 << 10
)

func (a Commands) upgradeCheck() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "check [--to PATH]",
		Short: "Check whether the cluster can be upgraded node by node; exit 1 if not",
		Long: `Check whether the cluster can be upgraded node by node: health, members, states, clocks,
certificates, disks, backup, mode, and versions of binaries and rules. Each problem has its
remedy. The nodes are listed in the order of the upgrade.

--to names the new rota binary, which is run once, as "PATH version". It must know the formats
and rules in force, and be at most two minor versions from each node's.

Nothing is changed. Exit 0 if nothing prevents the upgrade, else 1; 7 if no node answers.`,
		Example: "  rota operator upgrade check\n  rota operator upgrade check --to ./rota-new -o json",
		Args:    cobra.NoArgs,
		RunE: a.Does(func(ctx context.Context, _ []string) error {
			facts, err := a.upgradeFacts(ctx, to)
			if err != nil {
				return err
			}
			report := facts.Judge()
			var blocked []string
			for _, f := range report.Findings {
				if f.Result == upgrade.Blocked && !slices.Contains(blocked, f.Check) {
					blocked = append(blocked, f.Check)
				}
			}
			value := struct {
				upgrade.Report
				RulesInForce uint32          `json:"rules_in_force"`
				To           *upgrade.Binary `json:"to,omitempty"`
			}{report, facts.Status.RulesVersion, facts.To}
			if err := a.PrintOne(value, blocked, func(bool) string { return upgradeTable(report) }); err != nil ||
				report.Ready {
				return err
			}
			return cli.Failf("an upgrade node by node would not go well: %s", strings.Join(blocked, ", "))
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "`path` of the new rota binary")
	return cmd
}

// upgradeFacts asks all nodes, each of them itself, too, and the new binary.
func (a Commands) upgradeFacts(ctx context.Context, to string) (f upgrade.Facts, err error) {
	own := serve.ThisVersion()
	f = upgrade.Facts{Now: time.Now(), Own: upgrade.Binary{Version: own.Version, Formats: &own.Formats},
		Answers: make(map[rota.NodeID]upgrade.Answer)}
	if to != "" {
		if f.To, err = askBinary(ctx, to); err != nil {
			return f, err
		}
	}
	err = a.atNode(ctx, a.Addrs, func(ctx context.Context, c *client.Client) (err error) {
		if f.Status, err = c.Status(ctx); err == nil {
			f.Peers, err = c.Peers(ctx)
		}
		return err
	})
	if err != nil {
		return f, err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, n := range f.Status.Nodes {
		if n.API == "" {
			continue
		}
		all.Go(func() {
			var answer upgrade.Answer
			answer.Err = a.atNode(ctx, []string{n.API}, func(ctx context.Context, c *client.Client) (err error) {
				answer.Status, err = c.Status(ctx)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			f.Answers[n.ID] = answer
		})
	}
	all.Wait()
	return f, ctx.Err()
}

// askBinary has a rota binary say what it is.
func askBinary(ctx context.Context, path string) (*upgrade.Binary, error) {
	ctx, cancel := context.WithTimeout(ctx, binaryCall)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version", "-o", "json")
	if !strings.ContainsRune(path, '/') {
		cmd = exec.CommandContext(ctx, "./"+path, "version", "-o", "json") // the file here, not one of PATH
	}
	cmd.Env = []string{} // what ROTA_… says is for the cluster, not for it
	cmd.WaitDelay = time.Second
	var said, complaint bounded
	cmd.Stdout, cmd.Stderr = &said, &complaint
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took more than %s", binaryCall)
	}
	var b upgrade.Binary
	if err == nil {
		err = json.Unmarshal(said.Bytes(), &b)
	}
	if err == nil && b.Version == "" {
		err = errors.New("it names none")
	}
	if err != nil {
		return nil, cli.Failf("ask --to %s for its version: %w %s: use the path of a rota binary for this machine",
			path, err,
			cli.Clean(cli.OneLine(complaint.String())))
	}
	return &b, nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxBinary-min(b.Len(), maxBinary))])
	return len(p), nil
}

func upgradeTable(r upgrade.Report) string {
	text := cli.RenderList([]cli.Column[upgrade.Finding]{
		{Head: "CHECK", Cell: func(f upgrade.Finding) any { return f.Check }},
		{Head: "RESULT", Cell: func(f upgrade.Finding) any { return string(f.Result) }},
		{Head: "NODE", Cell: func(f upgrade.Finding) any { return f.Node }},
		{Head: "FINDING", Cell: func(f upgrade.Finding) any { return f.Text }},
	}, r.Findings, false)
	var next strings.Builder
	for _, f := range r.Findings {
		if f.Next != "" && f.Result != upgrade.OK {
			fmt.Fprintf(&next, "%s: %s\n", strings.TrimSpace(f.Check+" "+string(f.Node)), f.Next)
		}
	}
	if next.Len() > 0 {
		text += "\nwhat to do\n" + next.String()
	}
	at := 0
	return text + "\n" + cli.RenderList([]cli.Column[upgrade.Node]{
		{Head: "ORDER", Cell: func(n upgrade.Node) any {
			if n.Done {
				return "done"
			}
			at++
			return at
		}},
		{Head: "NODE", Cell: func(n upgrade.Node) any { return n.ID }},
		{Head: "ROLE", Cell: func(n upgrade.Node) any {
			switch {
			case n.Leader:
				return "leader"
			case n.Voter:
				return "voter"
			}
			return "no vote"
		}},
		{Head: "VERSION", Cell: func(n upgrade.Node) any { return n.Version }},
		{Head: "RULES", Cell: func(n upgrade.Node) any { return cli.OfSome(int64(n.Rules), int64(n.Rules)) }},
	}, r.Nodes, false)
}
