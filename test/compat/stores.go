package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// bucket is the one of the policy in docs/operations/backup.md.
const bucket = "backups"

func storeRows() []row {
	one := func(tool string, args ...string) row {
		return row{group: "stores", tool: tool, does: "back up four times, list, drill, restore, prune to three",
			quick: true, most: 4 * time.Minute, try: store(args...)}
	}
	return []row{
		one("moto", "-H", "127.0.0.1", "-p", "PORT"),
		{group: "stores", tool: "moto", does: "the policy of backup.md, enforced: the same, and another bucket is refused",
			quick: true, most: 4 * time.Minute, try: enforced("-H", "127.0.0.1", "-p", "PORT")},
		one("versitygw", "--port", "127.0.0.1:PORT", "--access", "compat", "--secret", "compat-secret", "posix", "DIR"),
		one("s3rver", "--address", "127.0.0.1", "--port", "PORT", "--directory", "DIR", "--silent"),
		one("gofakes3", "-host", "127.0.0.1:PORT", "-backend", "memory"),
	}
}

// storeKeys are the credentials of each store: s3rver accepts only these, moto and gofakes3 check none.
var storeKeys = map[string][2]string{"s3rver": {"S3RVER", "S3RVER"}, "": {"compat", "compat-secret"}}

// store backs a cluster up to a store and restores it from there.
func store(args ...string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		dir, addr, server, err := s.startStore(t, nil, args)
		if err != nil {
			return "", err
		}
		defer server.KillAll()
		if err := s.makeBucket(ctx, server, dir, addr); err != nil {
			return "", err
		}
		keys, own := storeKeys[t.name]
		if !own {
			keys = storeKeys[""]
		}
		return "", s.backUp(ctx, dir, storeEnv(addr, keys[0], keys[1]))
	}
}

// startStore starts a store, in whose arguments PORT and DIR are replaced.
func (s *scene) startStore(t *installed, env, args []string) (dir, addr string, server *rig.Process, err error) {
	if dir, err = s.temp("store"); err != nil {
		return "", "", nil, err
	}
	if addr, err = rig.FreeAddr(); err != nil {
		return "", "", nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	objects := filepath.Join(dir, "objects")
	if err := os.MkdirAll(filepath.Join(objects, bucket), 0o700); err != nil {
		return "", "", nil, err
	}
	fill := strings.NewReplacer("PORT", port, "DIR", objects)
	var line []string
	for _, a := range args {
		line = append(line, fill.Replace(a))
	}
	server, err = command{dir: dir, env: rig.Inherited(env...)}.serve(t.program, "", line...)
	return dir, addr, server, err
}

// storeEnv returns the settings of rota for a store.
func storeEnv(addr, key, secret string) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret,
		"AWS_ENDPOINT_URL_S3=http://" + addr, "AWS_REGION=us-east-1"}
}

// enforced backs up with the credentials of an account that has only the rights of the policy in backup.md.
func enforced(args ...string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		top, err := s.top()
		if err != nil {
			return "", err
		}
		// The store permits the calls that create buckets, account and key, then checks each call.
		dir, addr, server, err := s.startStore(t, []string{"INITIAL_NO_AUTH_ACTION_COUNT=5"}, args)
		if err != nil {
			return "", err
		}
		defer server.KillAll()
		script, _, err := s.sources("moto-account.py", "")
		if err != nil {
			return "", err
		}
		if err := awaitPort(ctx, server, addr); err != nil {
			return "", err
		}
		said, err := command{dir: dir}.run(ctx, t.python(), script, "http://"+addr,
			filepath.Join(top, filepath.FromSlash("docs/operations/backup.md")))
		if err != nil {
			return "", err
		}
		key, secret, _ := strings.Cut(said, " ")
		env := storeEnv(addr, key, secret)
		text, err := command{dir: dir, env: rig.Bare(env...)}.run(ctx, s.binary, "operator", "backup", "list", "--from",
			"s3://elsewhere/rota")
		if err == nil || !strings.Contains(text, "Access Denied") {
			return "", fmt.Errorf("list of another bucket: got %q, want Access Denied", text)
		}
		return "", s.backUp(ctx, dir, env)
	}
}

// awaitPort waits until a program accepts connections.
func awaitPort(ctx context.Context, p *rig.Process, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	return rig.Until(ctx, func() error {
		if !p.Running() {
			return rig.Final(fmt.Errorf("%s ended: %s", p.Name, p.LastWords(maxSaid)))
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// makeBucket creates the bucket as soon as the store answers. The stores that keep objects in files have it as a
// folder.
func (s *scene) makeBucket(ctx context.Context, server *rig.Process, dir, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	return rig.Until(ctx, func() error {
		if !server.Running() {
			return rig.Final(fmt.Errorf("the store ended: %s", server.LastWords(maxSaid)))
		}
		_, err := command{dir: dir}.run(ctx, "curl", "-sS", "-m", "5", "-o", "made", "-X", "PUT",
			"http://"+addr+"/"+bucket)
		return err
	})
}

// backUp stores backups of a node of its own, one more than it keeps, then lists, drills and restores.
func (s *scene) backUp(ctx context.Context, dir string, env []string) error {
	const place = "s3://" + bucket + "/rota"
	node, err := rig.NewNode("n1", dir, s.binary)
	if err != nil {
		return err
	}
	node.Env = rig.Bare(env...)
	node.Flags = []string{"--bootstrap-expect", "1", "--backup-to", place, "--backup-keep", "3"}
	if err := errors.Join(node.Start(), node.AwaitReady(ctx)); err != nil {
		return err
	}
	defer node.Kill()
	in := command{dir: dir, env: rig.Bare(append(env, "ROTA_ADDR="+node.API)...)}
	run := func(args ...string) (string, error) { return in.run(ctx, s.binary, args...) }
	for i := range 4 {
		if _, err := run("job", "submit", "--type", "t", "--id", fmt.Sprintf("job-%d", i)); err != nil {
			return err
		}
		if _, err := run("operator", "backup", "now"); err != nil {
			return fmt.Errorf("backup %d: %w", i+1, err)
		}
	}
	listed, err := run("operator", "backup", "list", "--from", place, "-o", "name")
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	names := strings.Fields(listed)
	if len(names) != 3 {
		return fmt.Errorf("list: got %d backups, want 3 after the prune: %s", len(names), listed)
	}
	if _, err := run("operator", "backup", "drill", "--from", place); err != nil {
		return fmt.Errorf("drill: %w", err)
	}
	said, err := run("operator", "snapshot", "restore", place+"/"+filepath.Base(names[0]), "--data",
		filepath.Join(dir, "restored"), "--node", "r1", "--raft", "127.0.0.1:1", "--cluster", "rota")
	if err != nil {
		return fmt.Errorf("restore: %w: %s", err, said)
	}
	return nil
}
