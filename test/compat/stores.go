package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

func storeRows() []row {
	one := func(tool string, args ...string) row {
		return row{group: "stores", tool: tool, does: "back up four times, list, drill, restore, prune to three",
			quick: true, most: 4 * time.Minute, try: store(args...)}
	}
	return []row{
		one("moto", "-H", "127.0.0.1", "-p", "PORT"),
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
		dir, err := s.temp("store")
		if err != nil {
			return "", err
		}
		addr, err := rig.FreeAddr()
		if err != nil {
			return "", err
		}
		_, port, _ := strings.Cut(addr, ":")
		objects := filepath.Join(dir, "objects")
		if err := os.MkdirAll(filepath.Join(objects, "compat"), 0o700); err != nil {
			return "", err
		}
		keys, own := storeKeys[t.name]
		if !own {
			keys = storeKeys[""]
		}
		env := []string{"AWS_ACCESS_KEY_ID=" + keys[0], "AWS_SECRET_ACCESS_KEY=" + keys[1],
			"AWS_ENDPOINT_URL_S3=http://" + addr, "AWS_REGION=us-east-1"}
		fill := strings.NewReplacer("PORT", port, "DIR", objects)
		var line []string
		for _, a := range args {
			line = append(line, fill.Replace(a))
		}
		server, err := command{dir: dir}.serve(t.program, "", line...)
		if err != nil {
			return "", err
		}
		defer server.Kill()
		if err := s.makeBucket(ctx, server, dir, addr); err != nil {
			return "", err
		}
		return "", s.backUp(ctx, dir, env)
	}
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
			"http://"+addr+"/compat")
		return err
	})
}

// backUp stores backups of a node of its own, one more than it keeps, then lists, drills and restores.
func (s *scene) backUp(ctx context.Context, dir string, env []string) error {
	const place = "s3://compat/rota"
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
