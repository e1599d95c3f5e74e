package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// database is a separate PostgreSQL cluster of this test, in a temporary directory, on a free port of loopback.
type database struct {
	dir  string
	port int
	as   *syscall.Credential
}

// newDatabase starts one. PostgreSQL refuses to run as root: then it runs as its package's account.
func newDatabase(t *testing.T) *database {
	t.Helper()
	for _, need := range []string{"initdb", "postgres", "psql"} {
		if _, err := exec.LookPath(need); err != nil {
			if os.Getenv("ROTA_OUTBOX") != "" {
				t.Fatalf("%s is not installed: `make setup-bench` installs it", need)
			}
			t.Skipf("LEFT OUT: no %s here, so no outbox was tested; `make setup-bench` installs it", need)
		}
	}
	dir, err := os.MkdirTemp("", "rota-outbox")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := rig.FreePort()
	check(t, err)
	d := &database{dir: dir, port: port}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		check(t, err)
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		check(t, os.Chown(dir, uid, gid))
		d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if out, err := d.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "rota", "-A", "trust",
		"-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server, err := rig.Start("postgres", d.command("postgres", "-D", filepath.Join(dir, "data"), "-p",
		strconv.Itoa(port), "-k", dir, "-h", "127.0.0.1", "-c", "fsync=off"), "")
	check(t, err)
	t.Cleanup(server.Kill)
	eventually(t, 60*time.Second, "the database answers", func() error {
		_, err := d.query("SELECT 1")
		return err
	})
	return d
}

func (d *database) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.dir, append(os.Environ(), "LC_ALL=C")
	if d.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.as}
	}
	return cmd
}

func (d *database) dsn() string {
	return fmt.Sprintf("postgres://rota@127.0.0.1:%d/postgres?sslmode=disable", d.port)
}

func (d *database) query(sql string) (string, error) {
	cmd := d.command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", d.dsn())
	cmd.Stdin = strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("psql: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// TestOutbox: 10,000 rows are submitted by two relays, one of which is killed again and again, also between submission
// and deletion: each becomes one job; permanently refused rows stay with the reason.
func TestOutbox(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := newCluster(t, 1)
	c.rota(t, "queue", "set", "default", "--set", "queue_cap=20000").want(t, 0)
	must := func(sql string) string {
		t.Helper()
		out, err := db.query(sql)
		check(t, err)
		return out
	}
	must(c.rota(t, "relay", "postgres", "--print-migration", "--notify").want(t, 0).stdout)
	must(c.rota(t, "relay", "postgres", "--print-migration").want(t, 0).stdout) // again
	must(`BEGIN; INSERT INTO rota_outbox (job_id, spec) VALUES ('undone', '{"type":"t"}'); ROLLBACK`)
	const rows = 10_000
	must(`INSERT INTO rota_outbox (job_id, spec) SELECT 'row-' || i, jsonb_build_object('type', 'mail', 'payload', 'n ' || i) FROM generate_series(1, ` +
		strconv.Itoa(rows) + `) i`)
	bad := map[string]string{"unknown-field": `{"type":"t","nonsense":1}`, "no-type": `{}`,
		"no-queue": `{"type":"t","queue":"none"}`, "other-id": `{"id":"x","type":"t"}`,
		"no-object": `[1]`, "priority": `{"type":"t","priority":99}`}
	for id, spec := range bad {
		must(fmt.Sprintf(`INSERT INTO rota_outbox (job_id, spec) VALUES ('%s', '%s')`, id, spec))
	}
	must(`INSERT INTO rota_outbox (job_id, spec) VALUES ('large', jsonb_build_object('type', 't', 'payload', repeat('x', 2000000)))`)
	c.rota(t, "job", "submit", "--type", "other", "--id", "taken").want(t, 0)
	must(`INSERT INTO rota_outbox (job_id, spec) VALUES ('taken', '{"type":"t"}')`)
	file := filepath.Join(t.TempDir(), "dsn")
	check(t, os.WriteFile(file, []byte(db.dsn()+"\n"), 0o600))
	// A relay that fails and dies between the submission and the deletion of its rows, which this trigger forbids.
	must(`CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'rows stay'; END $$;
		CREATE TRIGGER stay BEFORE DELETE ON rota_outbox FOR EACH STATEMENT EXECUTE FUNCTION stay()`)
	dies := launch(t, "relay", []string{c.env()}, "relay", "postgres", "--dsn-file", file)
	eventually(t, 60*time.Second, "the first row is a job", func() error {
		if got := c.rota(t, "job", "show", "row-1"); got.code != 0 {
			return fmt.Errorf("exit code %d: %s", got.code, got.stderr)
		}
		return nil
	})
	dies.Kill()
	if n := must(`SELECT count(*) FROM rota_outbox WHERE job_id LIKE 'row-%'`); n != strconv.Itoa(rows) {
		t.Errorf("%s rows are there before any was deleted, want %d", n, rows)
	}
	must(`DROP TRIGGER stay ON rota_outbox`)
	beside := launch(t, "relay", []string{c.env()}, "relay", "postgres", "--dsn-file", file)
	began := time.Now()
	kills, left := 0, rows
	for left > 0 {
		relay := launch(t, "relay", []string{c.env()}, "relay", "postgres", "--dsn-file", file)
		before := left
		eventually(t, 60*time.Second, "rows go", func() (err error) {
			if left, err = strconv.Atoi(must(`SELECT count(*) FROM rota_outbox WHERE error IS NULL`)); err == nil &&
				left > max(0, before-rows/8) {
				err = fmt.Errorf("%d are left", left)
			}
			return err
		})
		relay.Kill()
		kills++
	}
	beside.stop(t, 30*time.Second)
	t.Logf("%d rows in %s, the relay was killed %d times", rows, time.Since(began).Round(time.Millisecond), kills)
	jobs, err := client.Collect(c.dial(t).Jobs(t.Context(), rota.JobFilter{Type: "mail"}))
	check(t, err)
	seen := make(map[rota.JobID]bool)
	for i := range jobs {
		seen[jobs[i].ID] = true
	}
	if len(jobs) != rows || len(seen) != rows {
		t.Errorf("%d jobs of %d ids were made from %d rows", len(jobs), len(seen), rows)
	}
	stay := must(`SELECT job_id || ': ' || error FROM rota_outbox ORDER BY job_id`)
	if n := strings.Count(stay, "\n") + 1; n != len(bad)+2 {
		t.Errorf("%d rows remain: %s", n, stay)
	}
	for _, want := range []string{"unknown-field: INVALID", `nonsense`, "taken: CONFLICT", "no-queue: NOT_FOUND",
		"large: INVALID"} {
		if !strings.Contains(stay, want) {
			t.Errorf("no %q in the rest: %s", want, stay)
		}
	}
	c.rota(t, "job", "show", "undone").want(t, 3)
	relay := launch(t, "relay", []string{c.env()}, "relay", "postgres", "--dsn-file", file)
	must(`UPDATE rota_outbox SET error = NULL, spec = '{"type":"t"}' WHERE job_id = 'priority'`)
	eventually(t, 30*time.Second, "a row that was put right goes", func() error {
		if n := must(`SELECT count(*) FROM rota_outbox WHERE job_id = 'priority'`); n != "0" {
			return fmt.Errorf("%s exists", n)
		}
		return nil
	})
	relay.stop(t, 30*time.Second)
}

// TestOutbox_fullQueue: rows that a full queue accepts none of wait, more than a relay reads at once; those behind them
// for another queue become jobs meanwhile. Once there is room all of them go.
func TestOutbox_fullQueue(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	c := newCluster(t, 1)
	const cap, rows = 5, 450 // a relay reads 200 at once
	c.rota(t, "queue", "set", "full", "--set", fmt.Sprint("queue_cap=", cap)).want(t, 0)
	must := func(sql string) string {
		t.Helper()
		out, err := db.query(sql)
		check(t, err)
		return out
	}
	must(c.rota(t, "relay", "postgres", "--print-migration").want(t, 0).stdout)
	must(`INSERT INTO rota_outbox (job_id, spec) SELECT 'full-' || i, jsonb_build_object('type', 't', 'queue', 'full') FROM generate_series(1, ` +
		strconv.Itoa(rows) + `) i;
		INSERT INTO rota_outbox (job_id, spec) VALUES ('behind', '{"type":"t"}'), ('mistaken', '{"type":"t","queue":"none"}')`)
	file := filepath.Join(t.TempDir(), "dsn")
	check(t, os.WriteFile(file, []byte(db.dsn()), 0o600))
	relay := launch(t, "relay", []string{c.env()}, "relay", "postgres", "--dsn-file", file)
	defer relay.stop(t, 30*time.Second)
	count := func(where string) (n int) {
		n, err := strconv.Atoi(must(`SELECT count(*) FROM rota_outbox WHERE ` + where))
		check(t, err)
		return n
	}
	eventually(t, 60*time.Second, "the row behind the full queue's is a job", func() error {
		if got := c.rota(t, "job", "show", "behind"); got.code != 0 {
			return fmt.Errorf("exit code %d: %s", got.code, got.stderr)
		}
		return nil
	})
	eventually(t, 60*time.Second, "the faulty row has its error", func() error {
		if count(`job_id = 'mistaken' AND error LIKE 'NOT_FOUND%'`) != 1 {
			return fmt.Errorf("it is %s", must(`SELECT job_id, error FROM rota_outbox WHERE job_id = 'mistaken'`))
		}
		return nil
	})
	if left, failed := count(`spec->>'queue' = 'full'`), count(
		`spec->>'queue' = 'full' AND error IS NOT NULL`); left < rows-2*cap || failed != 0 {
		t.Errorf("of %d rows of a queue for %d jobs %d are left, %d with an error", rows, cap, left, failed)
	}
	c.rota(t, "queue", "set", "full", "--set", "queue_cap=10000").want(t, 0)
	eventually(t, 120*time.Second, "all rows of the queue are jobs", func() error {
		if left := count(`error IS NULL`); left != 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
	jobs, err := client.Collect(c.dial(t).Jobs(t.Context(), rota.JobFilter{Queue: "full"}))
	check(t, err)
	if len(jobs) != rows {
		t.Errorf("%d jobs were made from %d rows", len(jobs), rows)
	}
}
