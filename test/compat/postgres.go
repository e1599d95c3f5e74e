package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotasched/rota/test/rig"
)

const (
	// outboxRows is the number of rows that two relays submit within maxOutbox.
	outboxRows = 1000
	maxOutbox  = 60 * time.Second
)

func postgresRows() []row {
	const does = "outbox: two relays submit 1,000 rows"
	return []row{
		{group: "postgres", tool: "PostgreSQL 15", does: does, quick: true, most: 3 * time.Minute, try: outbox(false)},
		{group: "postgres", tool: "PostgreSQL 17", does: does, quick: true, most: 3 * time.Minute, try: outbox(false)},
		{group: "postgres", tool: "PostgreSQL 18", does: does, quick: true, most: 3 * time.Minute, try: outbox(false)},
		{group: "postgres", tool: "PgBouncer", does: "transaction mode before PostgreSQL 15; " + does, quick: true,
			most: 3 * time.Minute, try: outbox(true)},
	}
}

// database is a PostgreSQL cluster on loopback, optionally behind PgBouncer. Both refuse to run as root, so a
// super-user runs them as the account nobody.
type database struct {
	dir       string
	port      int
	as        *syscall.Credential
	processes []*rig.Process
}

// newDatabase creates a directory that the database's account owns.
func newDatabase() (*database, error) {
	dir, err := os.MkdirTemp("", "rota-compat-database-")
	if err != nil {
		return nil, err
	}
	d := &database{dir: dir}
	if os.Getuid() != 0 {
		return d, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return d, err
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return d, errors.Join(errUID, errGID, os.Chown(dir, uid, gid))
}

func (d *database) end() {
	for _, p := range d.processes {
		_ = p.Stop(maxStop)
	}
	_ = os.RemoveAll(d.dir)
}

func (d *database) command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.dir, rig.Bare(append(env, "LC_ALL=C")...)
	cmd.SysProcAttr = rig.Attributes()
	cmd.SysProcAttr.Credential = d.as
	return cmd
}

// serve starts a program that ends with the database.
func (d *database) serve(env []string, name string, args ...string) error {
	p, err := rig.Start(filepath.Base(name), d.command(env, name, args...), "")
	if err == nil {
		d.processes = append(d.processes, p)
	}
	return err
}

// start starts PostgreSQL from a copy of its programs.
func (d *database) start(ctx context.Context, programs string) (err error) {
	if _, err := (command{dir: d.dir}).run(ctx, "cp", "-r", programs, "programs"); err != nil {
		return err
	}
	bin, data := filepath.Join(d.dir, "programs", "bin"), filepath.Join(d.dir, "data")
	if said, err := d.command(nil, filepath.Join(bin, "initdb"), "-D", data, "-U", "rota", "-A", "trust", "-N", "-E",
		"UTF8").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, said)
	}
	if d.port, err = rig.FreePort(); err != nil {
		return err
	}
	return d.serve(nil, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(d.port), "-k", d.dir, "-h",
		"127.0.0.1", "-c", "fsync=off")
}

// bounce puts PgBouncer in transaction mode in front of the database, with one connection for all clients, so that
// transactions of different clients share it.
func (d *database) bounce(ctx context.Context, t *installed) error {
	port, err := rig.FreePort()
	if err != nil {
		return err
	}
	config := fmt.Sprintf(
		"[databases]\npostgres = host=127.0.0.1 port=%d user=rota\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 1\n", d.port, port)
	if err := os.WriteFile(filepath.Join(d.dir, "bouncer.ini"), []byte(config), 0o644); err != nil {
		return err
	}
	if _, err := (command{dir: d.dir}).run(ctx, "cp", "-r", t.unpacked(""), "bouncer"); err != nil {
		return err
	}
	d.port = port
	libs := filepath.Join(d.dir, "bouncer", filepath.FromSlash("usr/lib/x86_64-linux-gnu"))
	return d.serve([]string{"LD_LIBRARY_PATH=" + libs}, filepath.Join(d.dir,
		filepath.FromSlash("bouncer/usr/sbin/pgbouncer")), filepath.Join(d.dir, "bouncer.ini"))
}

func (d *database) dsn() string {
	return fmt.Sprintf("postgres://rota@127.0.0.1:%d/postgres?sslmode=disable", d.port)
}

// connect waits until the database answers. Statements use the simple protocol, which each version and PgBouncer
// support.
func (d *database) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	config, err := pgx.ParseConfig(d.dsn())
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	err = rig.Until(ctx, func() error {
		for _, p := range d.processes {
			if !p.Running() {
				return rig.Final(fmt.Errorf("%s ended: %s", p.Name, p.LastWords(maxSaid)))
			}
		}
		conn, err = pgx.ConnectConfig(ctx, config)
		return err
	})
	return conn, err
}

// outbox lets two relays submit the rows of a table.
func outbox(bounced bool) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		queue, err := s.queue(ctx)
		if err != nil {
			return "", err
		}
		server := t
		if bounced {
			if server, err = s.install(ctx, "PostgreSQL 15"); err != nil {
				return "", skipped(err.Error())
			}
		}
		d, err := newDatabase()
		if err != nil {
			return "", err
		}
		defer d.end()
		if err := d.start(ctx, server.dir); err != nil {
			return "", err
		}
		conn, err := d.connect(ctx)
		if err != nil {
			return "", err
		}
		migration, err := s.rota(ctx, s.nodes.APIs(), "relay", "postgres", "--print-migration")
		if err != nil {
			return "", err
		}
		_, err = conn.Exec(ctx, migration)
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			return "", err
		}
		if bounced {
			if err := d.bounce(ctx, t); err != nil {
				return "", err
			}
		}
		return "", d.relay(ctx, s, queue)
	}
}

// relay fills the table while two relays run, and waits until it is empty.
func (d *database) relay(ctx context.Context, s *scene, queue string) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	file := filepath.Join(d.dir, "dsn")
	if err := os.WriteFile(file, []byte(d.dsn()), 0o600); err != nil {
		return err
	}
	var relays []*rig.Process
	defer func() { killAll(relays) }()
	for range 2 {
		r, err := command{dir: s.dir, env: rig.Bare("ROTA_ADDR=" + s.nodes[0].API)}.serve(s.binary, "", "relay",
			"postgres", "--dsn-file", file)
		if err != nil {
			return err
		}
		relays = append(relays, r)
	}
	insert := fmt.Sprintf(
		`INSERT INTO rota_outbox (job_id, spec) SELECT '%s-' || i, '{"type":"t","queue":"%s"}' FROM generate_series(1, %d) i`,
		queue, queue, outboxRows)
	if _, err := conn.Exec(ctx, insert); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxOutbox)
	defer cancel()
	left := 0
	err = rig.Until(ctx, func() error {
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM rota_outbox").Scan(&left); err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d rows are left", left)
		}
		return nil
	})
	for _, r := range relays {
		if words := r.LastWords(1); words != "" && err != nil {
			err = fmt.Errorf("%w; a relay reports %s", err, words)
		}
		if text := r.Stderr.String(); strings.Contains(text, "prepared statement") {
			err = errors.Join(err, fmt.Errorf("a relay lost its statements: %s", r.LastWords(1)))
		}
		if !r.Running() {
			err = errors.Join(err, fmt.Errorf("a relay ended: %s", r.LastWords(maxSaid)))
		}
	}
	if err != nil {
		return err
	}
	_, err = s.rota(ctx, s.nodes.APIs(), "job", "show", fmt.Sprintf("%s-%d", queue, outboxRows))
	return err
}
