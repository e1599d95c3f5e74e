package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestRotation: authorities, certificates, gossip keys and tokens are replaced in place under
// load, and no call fails.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, after, dir := newAuthority(t), newAuthority(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	keys := [2]string{strings.Repeat("01", 32), strings.Repeat("02", 32)}
	put := func(name string, texts ...string) {
		t.Helper()
		check(t, os.Rename(writeFile(t, path("aside"), strings.Join(texts, "\n")), path(name)))
	}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		check(t, err)
		return string(text)
	}
	put("ca.pem", read(before.file))
	put("gossip.key", keys[0])

	c := &nodes{t: t}
	certified := func(a *authority, id string) {
		a.flags(t, id)
		put(id+".pem", read(filepath.Join(a.dir, id+".pem")))
		put(id+".key", read(filepath.Join(a.dir, id+".key")))
	}
	for _, id := range []string{"n1", "n2", "n3"} {
		certified(before, id)
		c.all = append(c.all, newNode(t, id, "--tls-cert", path(id+".pem"), "--tls-key", path(id+".key"), "--tls-ca",
			path("ca.pem"), "--gossip-key-file", path("gossip.key"), "--bootstrap-expect", "3"))
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	token := func(n int) (id string) {
		made := strings.TrimSpace(c.rota(t, "--tls-ca", path("ca.pem"), "auth", "token", "create", "--role",
			"submitter", "--expires", "1h").want(t, 0).stdout)
		put("token", made)
		return strings.Split(made, "_")[1]
	}
	first := token(1)

	cl, err := client.Dial(c.addrs(), client.WithTLSFrom(func() (*tls.Config, error) {
		pool := x509.NewCertPool()
		text, err := os.ReadFile(path("ca.pem"))
		if pool.AppendCertsFromPEM(text); err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, nil
	}), client.WithTokenFrom(func() (string, error) {
		text, err := os.ReadFile(path("token"))
		return strings.TrimSpace(string(text)), err
	}))
	check(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	var calls atomic.Int64
	for i := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				spec := rota.NewJobSpec("work", nil)
				spec.ID = rota.JobID(fmt.Sprintf("j%d-%d", i, n))
				if _, err := cl.Submit(ctx, spec); err != nil && ctx.Err() == nil {
					t.Errorf("a call under rotation: %v", err)
				}
				calls.Add(1)
			}
		})
	}
	t.Cleanup(func() { cancel(); load.Wait() })
	step := func(said string, times int) {
		t.Helper()
		for _, n := range c.all {
			n.Signal(syscall.SIGHUP)
		}
		for _, n := range c.all {
			eventually(t, 30*time.Second, n.ID+" prints "+said, func() error {
				if got := strings.Count(n.Stderr.String(), said); got < times {
					return fmt.Errorf("%d times", got)
				}
				return nil
			})
		}
		at := calls.Load()
		eventually(t, 30*time.Second, "calls go on", func() error {
			if calls.Load() < at+20 {
				return errors.New("they do not")
			}
			return nil
		})
	}

	put("ca.pem", read(before.file), read(after.file))
	step("certificate files were read again", 1)
	for _, n := range c.all {
		certified(after, n.ID)
	}
	step("certificate files were read again", 2)
	put("ca.pem", read(after.file))
	step("certificate files were read again", 3)
	for i, text := range [][]string{{keys[0], keys[1]}, {keys[1], keys[0]}, {keys[1]}} {
		put("gossip.key", text...)
		step("gossip key file was read again", i+1)
	}
	token(2)
	c.rota(t, "--tls-ca", path("ca.pem"), "auth", "token", "revoke", first).want(t, 0)
	step("certificate files were read again", 3)
	cancel()
	load.Wait()
	for _, n := range c.all {
		if strings.Contains(n.Stderr.String(), "gossip refused") {
			t.Errorf("%s refused gossip: %s", n.ID, clip(n.Stderr.String()))
		}
	}
}
