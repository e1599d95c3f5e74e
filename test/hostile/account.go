package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// accountProbes are the probes by the account that a node runs as, and by another on its machine.
func accountProbes() []probe {
	local := func(name string, do func(ctx context.Context, c *client.Client) error, kinds ...rota.Kind) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			c, err := client.Dial([]string{"unix:" + filepath.Join(s.nodes[2].Dir, "rota.sock")})
			if err != nil {
				return "", err
			}
			defer c.Close()
			return refused(do(ctx, c), kinds...)
		}}
	}
	return []probe{
		local("makes a first token again", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Auth().Init(ctx, rota.DateOf(time.Now().Add(time.Minute)))
			return err
		}, rota.KindConflict, rota.KindInvalid, rota.KindDenied),
		local("reads jobs by the socket", func(ctx context.Context, c *client.Client) error {
			_, err := c.Job(ctx, "acme-done")
			return err
		}, rota.KindDenied),
		local("submits by the socket", func(ctx context.Context, c *client.Client) error {
			return submit(ctx, c, "acme-local", ours)
		}, rota.KindDenied),
		local("changes the mode by the socket", func(ctx context.Context, c *client.Client) error {
			_, err := c.SetMode(ctx, rota.ModeReadOnly, "mine")
			return err
		}, rota.KindDenied),
		local("removes a node by the socket",
			func(ctx context.Context, c *client.Client) error { return c.RemovePeer(ctx, "n1") }, rota.KindDenied),
		{name: "resets root's token, in silence", try: reset},
		{name: "another account finds the socket shut", try: func(_ context.Context, s *scene) (string, error) {
			for _, n := range s.nodes {
				is, err := os.Stat(filepath.Join(n.Dir, "rota.sock"))
				if err != nil {
					return "", err
				}
				if is.Mode().Perm() != 0o600 {
					return "", fmt.Errorf("it is %v", is.Mode())
				}
			}
			return "each is its owner's alone", nil
		}},
	}
}

// reset makes a token with all rights: the account may, and an event records it.
func reset(ctx context.Context, s *scene) (string, error) {
	c, err := client.Dial([]string{"unix:" + filepath.Join(s.nodes[2].Dir, "rota.sock")})
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, secret, err := c.Auth().Reset(ctx, rota.DateOf(time.Now().Add(time.Minute)))
	if err != nil {
		return "", err
	}
	return "an event records it, without the secret", rig.Until(ctx, func() error { // that node may be a moment behind
		for e, err := range s.root.Events(ctx, rota.EventFilter{}) {
			if err != nil {
				return err
			}
			if text := fmt.Sprintf("%+v", e); e.Kind.String() == "authReset" {
				if !strings.Contains(text, "local") || strings.Contains(text, strings.Split(secret, "_")[2]) {
					return rig.Final(fmt.Errorf("the event is %s", text))
				}
				return nil
			}
		}
		return errors.New("no event reports it")
	})
}
