package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// postgresServer is one PostgreSQL on loopback. It refuses to run as root, so a super-user runs it as the account
// postgres.
type postgresServer struct {
	dir, address string
	as           *syscall.Credential
	process      *rig.Process
}

const postgresSetting = "One PostgreSQL with `shared_buffers=256MB` and the default `synchronous_commit=on`."

func startPostgres(ctx context.Context, b *bench) (*postgresServer, error) {
	if p := missing("initdb", "postgres", "pg_isready"); p != "" {
		return nil, fmt.Errorf("%s is not in the path: make setup-bench installs PostgreSQL", p)
	}
	dir, err := os.MkdirTemp("", "rota-limits-postgres-")
	if err != nil {
		return nil, err
	}
	p := &postgresServer{dir: dir}
	if p.address, err = rig.FreeAddr(); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, bad := strconv.Atoi(u.Uid)
		gid, worse := strconv.Atoi(u.Gid)
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := errors.Join(bad, worse, os.Chown(dir, uid, gid)); err != nil {
			return nil, err
		}
	}
	if said, err := p.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "rota", "-A", "trust",
		"-E", "UTF8").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, said)
	}
	err = p.start(ctx)
	return p, err
}

func (p *postgresServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = p.dir, rig.Inherited("LC_ALL=C")
	cmd.SysProcAttr = rig.Attributes()
	cmd.SysProcAttr.Credential = p.as
	return cmd
}

// start starts the server. After a crash it refuses to start until the processes of the old one have ended, so it is
// tried until it serves.
func (p *postgresServer) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	host, port, _ := net.SplitHostPort(p.address)
	return rig.Until(ctx, func() error {
		if !p.process.Running() {
			var err error
			p.process, err = rig.Start("postgres", p.command("postgres", "-D", filepath.Join(p.dir, "data"), "-p", port,
				"-k", p.dir, "-h", host, "-c", "shared_buffers=256MB", "-c", "max_connections=300"),
				filepath.Join(p.dir, "log"))
			if err != nil {
				return rig.Final(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		return p.command("pg_isready", "-q", "-h", host, "-p", port).Run()
	})
}

func (p *postgresServer) version() string {
	said, _ := exec.Command("postgres", "--version").Output()
	if fields := strings.Fields(string(said)); len(fields) > 2 {
		return "PostgreSQL " + fields[2]
	}
	return "PostgreSQL"
}

func (p *postgresServer) addresses() []string { return []string{p.address} }

func (p *postgresServer) crash(context.Context) (func(context.Context) error, error) {
	p.process.Kill()
	return p.start, nil
}

func (p *postgresServer) stop() {
	_ = p.process.Signal(syscall.SIGINT)
	if !p.process.Wait(maxStop) {
		p.process.Kill()
	}
	_ = os.RemoveAll(p.dir)
}
