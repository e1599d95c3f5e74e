package serve

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/identity"
	"github.com/rotasched/rota/internal/secret"
)

// The lives of what rota tls makes where none is given.
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
)

// Certifier is rota tls.
type Certifier struct{ *cli.App }

// Command returns `rota tls`.
func (a Certifier) Command() *cobra.Command {
	return a.Group(&cobra.Command{
		Use:   "tls",
		Short: "Create certificates without an existing authority",
		Long: `Create certificates without an existing authority: one authority, kept off the nodes, and its
certificate for each node and client. The one URI of a certificate names its owner:
spiffe://CLUSTER/node/ID or spiffe://CLUSTER/client/ROLE/NAME. Certificates of another authority
with that URI work as well. No node is asked.`,
	}, a.caCommand(), a.issueCommand())
}

func (a Certifier) caCommand() *cobra.Command {
	dir, life := ".", authorityLife
	cmd := &cobra.Command{
		Use:     "ca [--dir DIR] [--life D]",
		Short:   "Make an authority: ca.pem for every node and client, and ca.key, which issues",
		Example: "  rota tls ca --dir secrets",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "`directory` to write to; created if missing")
	cli.DurationVar(cmd.Flags(), &life, "life", life, "how long it is valid")
	cli.Within(cmd.Flags(), time.Hour, rota.MaxDuration, "life")
	cmd.RunE = a.Does(func(context.Context, []string) error {
		ca, err := identity.NewAuthority("rota authority", time.Now(), life)
		if err != nil {
			return cli.Failf("make authority: %w", err)
		}
		cert, key, err := ca.PEM()
		if err != nil {
			return cli.Failf("make authority: %w", err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return cli.Failf("make authority: %w", err)
		}
		if err := a.writePair(filepath.Join(dir, "ca"), cert, key); err != nil {
			return err
		}
		a.Talk("the key can impersonate any node: keep it off the nodes")
		return nil
	})
	return cmd
}

func (a Certifier) issueCommand() *cobra.Command {
	dir, domain, life := ".", DefaultCluster, certificateLife
	var hosts []string
	cmd := &cobra.Command{
		Use:   "issue node ID | client ROLE/NAME [--dir DIR] [--cluster C] [--host H]…",
		Short: "Issue a certificate of the authority in DIR, for a node or a client",
		Long: `Issue a certificate of the authority in DIR, for a node or a client, and write it there with its
key. --host names a host by which clients reach the node; loopback is always included. It
replaces an existing certificate of that node or client, with the same cluster and hosts unless
others are named. Nodes load new files without a restart.`,
		Example: `  rota tls issue node n1 --dir secrets --host n1.example.org
  rota tls issue client operator/ann --dir secrets`,
		Args: cobra.ExactArgs(2),
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", dir, "`directory` with ca.pem and ca.key")
	flags.StringVar(&domain, "cluster", domain, "`name` of the cluster, or its --trust-domain")
	flags.StringSliceVar(&hosts, "host", nil, "`name or address` of the node; may be repeated")
	cli.DurationVar(flags, &life, "life", life, "how long it is valid")
	cli.Within(flags, time.Minute, rota.MaxDuration, "life")
	cmd.RunE = a.Does(func(_ context.Context, args []string) error {
		r := identity.Request{Hosts: hosts, Now: time.Now(), Life: life}
		name := args[1]
		before := IssuedBefore(filepath.Join(dir, strings.Replace(name, "/", "-", 1)+".pem"))
		if before.Domain != "" && !flags.Changed("cluster") {
			domain = before.Domain
		}
		if len(before.Hosts) > 0 && !flags.Changed("host") {
			r.Hosts = before.Hosts
			a.Talk("for %s, as the certificate before it: --host names others", strings.Join(before.Hosts, ", "))
		}
		var err error
		switch args[0] {
		case "node":
			r.Server, r.Hosts = true, append(r.Hosts, loopbackHosts...)
			r.URI, err = identity.NodeURI(domain, rota.NodeID(name))
		case "client":
			role, who, ok := strings.Cut(name, "/")
			if !ok {
				return cli.Usagef("client: got %q; use ROLE/NAME", name)
			}
			name = role + "-" + who
			r.URI, err = identity.ClientURI(domain, role, who)
		default:
			return cli.Usagef("%w", cli.Unknown("kind", "tls issue: kind", args[0], []string{"node", "client"}))
		}
		if err != nil {
			return err
		}
		cert, key, err := issueFrom(dir, r)
		if err != nil {
			return err
		}
		return a.writePair(filepath.Join(dir, name), cert, key)
	})
	return cmd
}

// loopbackHosts are in every node's certificate.
var loopbackHosts = []string{"localhost", "127.0.0.1", "::1"}

// issued is what a certificate was issued for: a cluster, and hosts beyond loopback.
type issued struct {
	Domain string
	Hosts  []string
}

// IssuedBefore returns what the certificate in a file was issued for; nothing where there is none that
// can be read.
func IssuedBefore(path string) (of issued) {
	text, err := cli.ReadSmall(path, cli.MaxKeyFile)
	if err != nil {
		return of
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return of
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return of
	}
	if len(cert.URIs) == 1 {
		of.Domain = cert.URIs[0].Host
	}
	of.Hosts = cert.DNSNames
	for _, ip := range cert.IPAddresses {
		of.Hosts = append(of.Hosts, ip.String())
	}
	of.Hosts = slices.DeleteFunc(of.Hosts, func(host string) bool { return slices.Contains(loopbackHosts, host) })
	return of
}

// issueFrom issues a certificate of the authority in a directory.
func issueFrom(dir string, r identity.Request) (cert, key []byte, err error) {
	caCert, err := cli.ReadSmall(filepath.Join(dir, "ca.pem"), cli.MaxKeyFile)
	if err != nil {
		return nil, nil, cli.Failf("read authority: %w: make one with: rota tls ca --dir %s", err, dir)
	}
	caKey, err := secret.ReadFile(filepath.Join(dir, "ca.key"), cli.MaxKeyFile)
	if err != nil {
		return nil, nil, cli.Failf("read authority: %w", err)
	}
	ca, err := identity.ReadAuthority(caCert, caKey)
	if err != nil {
		return nil, nil, cli.Failf("%w", err)
	}
	if cert, key, err = ca.Issue(r); err != nil {
		return nil, nil, cli.Failf("issue certificate: %w", err)
	}
	return cert, key, nil
}

// writePair writes certificate and key, the latter for its owner alone. An authority's key
// is never written over: it may be the only copy of one in use.
func (a Certifier) writePair(base string, cert, key []byte) error {
	mode := os.O_TRUNC
	if filepath.Base(base) == "ca" {
		mode = os.O_EXCL
	}
	for _, f := range []struct {
		path string
		text []byte
		mode os.FileMode
	}{{base + ".key", key, 0o600}, {base + ".pem", cert, 0o644}} {
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|mode, f.mode)
		if err != nil {
			return cli.Failf("write %s: %w", f.path, err)
		}
		_, err = file.Write(f.text)
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			return cli.Failf("write %s: %w", f.path, err)
		}
		a.Talk("%s is written", f.path)
	}
	return nil
}
