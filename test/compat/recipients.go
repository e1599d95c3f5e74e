package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

func recipientRows() []row {
	return []row{
		{group: "recipients", tool: "age", does: "X25519: `server --check`, back up, drill", quick: true,
			most: time.Minute, try: oneRecipient()},
		{group: "recipients", tool: "age", does: "post-quantum: `server --check`, back up, drill", quick: true,
			most: time.Minute, try: oneRecipient("-pq")},
		{group: "recipients", tool: "age",
			does: "X25519 and post-quantum together: refused by `server --check` and at the start", quick: true,
			most: time.Minute, try: mixedRecipients},
	}
}

// newRecipient creates an identity in a file and returns its recipient.
func newRecipient(ctx context.Context, t *installed, file string, flags ...string) (string, error) {
	if _, err := (command{dir: filepath.Dir(file)}).run(ctx, t.program, append(flags, "-o", file)...); err != nil {
		return "", err
	}
	said, err := command{dir: filepath.Dir(file)}.run(ctx, t.program, "-y", file)
	return strings.TrimSpace(said), err
}

// oneRecipient backs up for a recipient and drills with its identity.
func oneRecipient(flags ...string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		dir, err := s.temp("age")
		if err != nil {
			return "", err
		}
		key := filepath.Join(dir, "key")
		recipient, err := newRecipient(ctx, t, key, flags...)
		if err != nil {
			return "", err
		}
		place := filepath.Join(dir, "backups")
		node, err := rig.NewNode("n1", dir, s.binary)
		if err != nil {
			return "", err
		}
		node.Flags = []string{"--bootstrap-expect", "1", "--backup-to", place, "--backup-recipient", recipient}
		if _, err := (command{dir: dir}).run(ctx, "mkdir", place); err != nil {
			return "", err
		}
		if _, err := (command{dir: dir, env: rig.Bare()}).run(ctx, s.binary,
			append(node.Args(), "--check")...); err != nil {
			return "", fmt.Errorf("server --check: %w", err)
		}
		if err := errors.Join(node.Start(), node.AwaitReady(ctx)); err != nil {
			return "", err
		}
		defer node.Kill()
		if _, err := s.rota(ctx, []string{node.API}, "operator", "backup", "now"); err != nil {
			return "", err
		}
		_, err = s.rota(ctx, []string{node.API}, "operator", "backup", "drill", "--from", place, "--identity", key)
		return "", err
	}
}

// mixedRecipients checks that a mix of recipients is refused by name, when checked and when started.
func mixedRecipients(ctx context.Context, s *scene, t *installed) (string, error) {
	dir, err := s.temp("age")
	if err != nil {
		return "", err
	}
	plain, err := newRecipient(ctx, t, filepath.Join(dir, "plain"))
	if err != nil {
		return "", err
	}
	quantum, err := newRecipient(ctx, t, filepath.Join(dir, "quantum"), "-pq")
	if err != nil {
		return "", err
	}
	node, err := rig.NewNode("n1", dir, s.binary)
	if err != nil {
		return "", err
	}
	node.Flags = []string{"--bootstrap-expect", "1", "--backup-to", dir, "--backup-recipient", plain,
		"--backup-recipient", quantum}
	for name, args := range map[string][]string{"server --check": append(node.Args(), "--check"),
		"server": node.Args()} {
		said, err := command{dir: dir, env: rig.Bare()}.run(ctx, s.binary, args...)
		if err == nil || ctx.Err() != nil {
			return "", fmt.Errorf("%s accepted the mix: %s", name, said)
		}
		if !strings.Contains(said, "recipient") {
			return "", fmt.Errorf("%s refused without naming the recipients: %s", name, said)
		}
	}
	return "", nil
}
