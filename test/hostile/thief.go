package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// vault makes the key that encrypts the cluster's backups, and the identity that decrypts them: on no node.
func (s *scene) vault() (recipient string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(s.path("backups"), 0o700); err != nil {
		return "", err
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	for file, text := range map[string]string{"identity": identity.String(), "other-identity": other.String()} {
		if err := os.WriteFile(s.path(file), []byte(text+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	s.recipient = identity.Recipient()
	return s.recipient.String(), nil
}

// store makes the leader store a backup.
func (s *scene) store(ctx context.Context) (err error) {
	s.backup, err = s.root.StoreBackup(ctx)
	return err
}

// rota runs a command of the binary to its end.
func (s *scene) rota(ctx context.Context, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = rig.Bare(), s.dir, rig.Attributes()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// refusedBy checks a command that must end with an exit code of refusal, and give the reason.
func refusedBy(said string, err error, word string) (string, error) {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return "", fmt.Errorf("it succeeded: %s", short(said))
	case !errors.As(err, &ended) || !strings.Contains(said, word):
		return "", fmt.Errorf("it ended for another reason: %w: %s", err, short(said))
	}
	return said, nil
}

// thiefProbes are the probes by an attacker who has the disks of all nodes, and the backups.
func thiefProbes() []probe {
	disk := func(name string, secrets func(s *scene) []string) probe {
		return probe{name: name, try: func(_ context.Context, s *scene) (string, error) { return s.search(secrets(s)) }}
	}
	return []probe{
		disk("looks for tokens in the data directories and backups", func(s *scene) (all []string) {
			for _, token := range s.tokens {
				all = append(all, strings.Split(token, "_")[2])
			}
			return all
		}),
		disk("looks for the workers' secret", func(*scene) []string {
			return []string{workerSecret, base64.StdEncoding.EncodeToString([]byte(workerSecret))}
		}),
		disk("looks for the gossip key", func(*scene) []string { return []string{gossipKey} }),
		disk("looks for the nodes' TLS keys", func(s *scene) (all []string) {
			for _, n := range s.nodes {
				text, _ := os.ReadFile(s.path(n.ID + ".key"))
				all = append(all, strings.Split(string(text), "\n")[1])
			}
			return all
		}),
		{name: "reads the files as another account", try: modes},
		{name: "looks for payloads in an encrypted backup", try: func(_ context.Context, s *scene) (string, error) {
			text, err := os.ReadFile(filepath.Join(s.path("backups"), s.backup.Name))
			if err == nil && (bytes.Contains(text, []byte("-data")) || bytes.Contains(text, []byte("acme")) ||
				!bytes.HasPrefix(text, []byte("age-encryption.org/"))) {
				err = errors.New("it shows them")
			}
			return fmt.Sprintf("%d bytes, none of them clear", len(text)), err
		}},
		{name: "opens a backup without an identity", try: func(ctx context.Context, s *scene) (string, error) {
			said, err := s.rota(ctx, "operator", "snapshot", "restore", filepath.Join("backups", s.backup.Name),
				"--data", s.path("stolen"), "--node", "r1")
			return refusedBy(said, err, "--identity")
		}},
		{name: "opens a backup with an identity of its own", try: func(ctx context.Context, s *scene) (string, error) {
			said, err := s.rota(ctx, "operator", "snapshot", "restore", filepath.Join("backups", s.backup.Name),
				"--data", s.path("stolen"), "--node", "r1", "--identity", s.path("other-identity"))
			return refusedBy(said, err, "opens the backup")
		}},
		{name: "restores a backup, and shows a token of it", try: oldTokens},
	}
}

// search fails if a file of a data directory, a log or a backup contains one of the secrets.
func (s *scene) search(secrets []string) (string, error) {
	files := 0
	for _, root := range append([]string{s.path("backups")}, s.path("n1"), s.path("n2"), s.path("n3"), s.path("n4"),
		s.path("n1.log"), s.path("n2.log"), s.path("n3.log")) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the node has removed it meanwhile
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			files++
			for _, secret := range secrets {
				if bytes.Contains(text, []byte(secret)) {
					return fmt.Errorf("%s has one", path)
				}
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if files < 3*len(s.nodes) || len(secrets) == 0 {
		return "", fmt.Errorf("only %d files were searched for %d secrets", files, len(secrets))
	}
	return fmt.Sprintf("%d secrets are in none of %d files", len(secrets), files), nil
}

// modes fails if a data directory is open to other accounts.
func modes(_ context.Context, s *scene) (string, error) {
	for _, n := range s.nodes {
		is, err := os.Stat(n.Dir)
		if err != nil {
			return "", err
		}
		if is.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("%s is %v", n.Dir, is.Mode())
		}
	}
	return "each data directory is its owner's alone", nil
}

// oldTokens restores the backup on a separate node: no token of the backup is valid there.
func oldTokens(ctx context.Context, s *scene) (string, error) {
	n, err := rig.NewNode("r1", s.dir, s.binary)
	if err != nil {
		return "", err
	}
	if said, err := s.rota(ctx, "operator", "snapshot", "restore", filepath.Join("backups", s.backup.Name), "--data",
		n.Dir, "--node", n.ID,
		"--raft", n.Raft, "--identity", s.path("identity"), "--sha256", s.backup.SHA256.String()); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	if err := n.Start(); err != nil {
		return "", err
	}
	defer n.Kill()
	if err := n.AwaitReady(ctx); err != nil {
		return "", err
	}
	for name, token := range s.tokens {
		c, err := client.Dial([]string{n.API}, client.WithInsecure(), client.WithToken(token))
		if err != nil {
			return "", err
		}
		_, err = c.Job(ctx, "acme-done")
		_ = c.Close()
		if rota.KindOf(err) != rota.KindUnauthenticated {
			return "", fmt.Errorf("token %s: %w", name, errors.Join(errors.New("it is met otherwise"), err))
		}
	}
	return fmt.Sprintf("none of %d tokens counts", len(s.tokens)), nil
}

// storeProbes are the probes by an attacker who can write to the backup store: an operator who restores checks every
// file there against the SHA-256 that the cluster keeps.
func storeProbes() []probe {
	forged := func(name string, change func(s *scene, sound []byte) ([]byte, error)) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			sound, err := os.ReadFile(filepath.Join(s.path("backups"), s.backup.Name))
			if err != nil {
				return "", err
			}
			text, err := change(s, sound)
			if err != nil {
				return "", err
			}
			place, err := os.MkdirTemp(s.dir, "place-")
			if err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(place, s.backup.Name), text, 0o600); err != nil {
				return "", err
			}
			said, err := s.drill(ctx, place)
			if bytes.Equal(text, sound) {
				return said, err
			}
			return refusedBy(said, err, "SHA-256")
		}}
	}
	return []probe{
		forged("leaves it alone: it can be restored, or the others prove nothing",
			func(_ *scene, sound []byte) ([]byte, error) { return sound, nil }),
		forged("cuts a backup", func(_ *scene, sound []byte) ([]byte, error) { return sound[:len(sound)-100], nil }),
		forged("flips a bit", func(_ *scene, sound []byte) ([]byte, error) {
			text := bytes.Clone(sound)
			text[len(text)/2] ^= 1
			return text, nil
		}),
		forged("leaves nothing", func(*scene, []byte) ([]byte, error) { return nil, nil }),
		forged("puts its own there, sealed for the same recipient", func(s *scene, _ []byte) ([]byte, error) {
			var text bytes.Buffer
			w, err := age.Encrypt(&text, s.recipient)
			if err == nil {
				_, err = w.Write([]byte("a backup of its own"))
			}
			return text.Bytes(), errors.Join(err, w.Close())
		}),
		forged("lengthens it", func(_ *scene, sound []byte) ([]byte, error) {
			return append(bytes.Clone(sound), make([]byte, 1<<20)...), nil
		}),
	}
}

// drill verifies a backup by its SHA-256, as the cluster keeps it.
func (s *scene) drill(ctx context.Context, place string) (string, error) {
	return s.rota(ctx, "operator", "backup", "drill", "--from", place, "--identity", s.path("identity"), "--sha256",
		s.backup.SHA256.String())
}
