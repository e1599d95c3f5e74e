package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// lock holds the credentials of a locked cluster: certificates of an authority of the run, a gossip key, and tokens. An
// open cluster has none.
type lock struct {
	binary, dir string
	tls         *tls.Config
	// web calls the admin ports.
	web *http.Client
	// root is the badge with all rights.
	root *Badge

	mu     sync.Mutex
	badges []*Badge
}

// The roles that are not built in.
const (
	// RoleReads reads jobs with their contents, RoleWatch all events.
	RoleReads   = "reads"
	RoleWatches = "watches"
)

var ownRoles = map[string][]rota.Right{
	RoleReads:   {rota.RightRead, rota.RightData},
	RoleWatches: {rota.RightRead, rota.RightData, rota.RightAudit},
}

// newLock makes the authority and the gossip key.
func newLock(binary, dir string) (*lock, error) {
	l := &lock{binary: binary, dir: filepath.Join(dir, "secrets")}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := l.rota(context.Background(), "tls", "ca", "--dir", l.dir); err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.path("gossip.key"), []byte(strings.Repeat("01", 32)), 0o600); err != nil {
		return nil, err
	}
	config, err := trusting(l.path("ca.pem"))
	if err != nil {
		return nil, err
	}
	l.tls, l.root = config, l.badge("root", "root")
	l.web = &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true}}
	return l, nil
}

// trusting returns a configuration of clients that trust the authority in a file.
func trusting(path string) (*tls.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, nil
}

func (l *lock) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lock) badge(holder string, roles ...string) *Badge {
	return &Badge{Holder: holder, roles: roles, path: l.path(holder + ".token")}
}

// rota runs the binary and returns its standard output.
func (l *lock) rota(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.binary, args...)
	cmd.Env, cmd.SysProcAttr = rig.Inherited(), rig.Attributes()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("rota %s: %w: %s", strings.Join(args[:2], " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// issue makes the certificate of a node.
func (l *lock) issue(s *Server) error {
	host, _, err := net.SplitHostPort(s.API)
	if err != nil {
		return err
	}
	_, err = l.rota(context.Background(), "tls", "issue", "node", s.ID, "--dir", l.dir, "--cluster", clusterName,
		"--host", host)
	return err
}

// flags returns the flags of a node, or of a command with all rights.
func (l *lock) flags(s *Server) []string {
	if s == nil {
		return []string{"--tls-ca", l.path("ca.pem"), "--token-file", l.root.path}
	}
	return []string{"--tls-ca", l.path("ca.pem"), "--tls-cert", l.path(s.ID + ".pem"), "--tls-key",
		l.path(s.ID + ".key"), "--gossip-key-file", l.path("gossip.key")}
}

// close locks a cluster that has just begun, through the socket of a node, whose founders may not have found each other
// yet.
func (l *lock) close(ctx context.Context, data string) error {
	for {
		token, err := l.rota(ctx, "auth", "init", "--data", data, "--expires", "30d")
		if err == nil {
			return l.root.put(token)
		}
		if !Rest(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// makeRoles makes those that are not built in.
func (k *Cluster) makeRoles(ctx context.Context) error {
	c, err := k.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	for name, rights := range ownRoles {
		role := rota.Role{Name: name}
		for _, r := range rights {
			role.Grants = append(role.Grants, rota.Grant{Right: r, Tenant: "*", Queue: "*"})
		}
		if _, err := c.Auth().SetRole(ctx, role); err != nil {
			return fmt.Errorf("make role %s: %w", name, err)
		}
	}
	return nil
}

// NewBadge returns a badge with a token of a role, which a nemesis may replace and revoke if it is loose; nil where the
// cluster is open.
func (k *Cluster) NewBadge(ctx context.Context, holder, role string, loose bool) (*Badge, error) {
	if k.lock == nil {
		return nil, nil
	}
	b := k.lock.badge(holder, role)
	if err := k.replaceToken(ctx, b); err != nil {
		return nil, fmt.Errorf("make the token of %s: %w", holder, err)
	}
	if loose {
		k.lock.mu.Lock()
		defer k.lock.mu.Unlock()
		k.lock.badges = append(k.lock.badges, b)
	}
	return b, nil
}

// replaceToken makes a token and makes the badge show it from now on.
func (k *Cluster) replaceToken(ctx context.Context, b *Badge) error {
	c, err := k.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	want := rota.AccessToken{Roles: b.roles, Expires: rota.DateOf(time.Now().AddDate(0, 0, 30))}
	_, secret, err := c.Auth().CreateToken(ctx, want)
	if err != nil {
		return err
	}
	return b.put(secret)
}

func (k *Cluster) shown(b *Badge) *Badge {
	if b == nil {
		return k.lock.root
	}
	return b
}

// options returns the options of a client that shows a badge, or the badge with all rights if it is nil.
func (k *Cluster) options(b *Badge) []client.Option {
	if k.lock == nil {
		return []client.Option{client.WithInsecure()}
	}
	return []client.Option{client.WithTLS(k.lock.tls.Clone()), client.WithTokenFrom(k.shown(b).token)}
}

// ClientOf returns a client of all founders that shows a badge.
func (k *Cluster) ClientOf(b *Badge) (*client.Client, error) {
	return client.Dial(k.Addresses(), k.options(b)...)
}

// Shows returns the TLS configuration and the token of a connection that shows a badge; nil where the cluster is open.
func (k *Cluster) Shows(b *Badge) (*tls.Config, func() (string, error)) {
	if k.lock == nil {
		return nil, nil
	}
	return k.lock.tls.Clone(), k.shown(b).token
}

// Look calls a node's admin port.
func (s *Server) Look(ctx context.Context, path string) (*http.Response, error) {
	asking, scheme := http.DefaultClient, "http://"
	if l := s.cluster.lock; l != nil {
		asking, scheme = l.web, "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+s.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	return asking.Do(request)
}

// As returns a client of one node that shows a badge, until the run ends.
func (s *Server) As(b *Badge) *client.Client {
	if b == nil {
		return s.Client
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.others[b]; c != nil {
		return c
	}
	c, err := client.Dial([]string{s.API}, s.cluster.options(b)...)
	if err != nil {
		panic(err) // an address that others dial, a token that the cluster made
	}
	s.others[b] = c
	return c
}

// hangUp closes its clients.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.others {
		_ = c.Close()
	}
	if s.Client != nil {
		_ = s.Client.Close()
	}
}
