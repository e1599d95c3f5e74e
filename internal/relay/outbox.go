package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/jsonparts"
)

// Migration creates the table of an outbox.
const Migration = `CREATE TABLE IF NOT EXISTS rota_outbox (
    seq    bigserial PRIMARY KEY,
    job_id text NOT NULL UNIQUE,
    spec   jsonb NOT NULL,
    error  text
);
CREATE INDEX IF NOT EXISTS rota_outbox_open ON rota_outbox (seq) WHERE error IS NULL;
`

// Notification wakes relays at once. NOTIFY serialises commits, so do not use it for tables with many concurrent
// writers.
const Notification = `CREATE OR REPLACE FUNCTION rota_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('rota_outbox', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER rota_outbox_notify AFTER INSERT ON rota_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION rota_outbox_notify();
`

const (
	// outboxRows is how many rows one transaction takes, maxSpec how large one may be: a payload of the greatest size
	// is 350 KiB in JSON.
	outboxRows = 200
	maxSpec    = 512 << 10
	// outboxPoll is how often an empty table is polled.
	outboxPoll = 250 * time.Millisecond
	// maxSubmit bounds how long a transaction holds its rows for a cluster that does not answer.
	maxSubmit = 30 * time.Second
	// minAgain and maxAgain are the pauses after a failure.
	minAgain = 250 * time.Millisecond
	maxAgain = 10 * time.Second
	maxError = 1_000
	// maxLanes is how many lanes may wait while others are served, laneSaid how often a waiting lane is logged.
	maxLanes = 1_000
	laneSaid = time.Minute
	// lookShare bounds the database load of searching for rows after waiting ones: the next search starts after a pause
	// of lookShare times the duration of the last one.
	lookShare = 10
)

// The rows are locked until the transaction ends, so that another relay takes others; the rows of a relay that died are
// free for the next one.
const (
	takeRows = `SELECT seq, job_id, CASE WHEN octet_length(spec::text) <= $1 THEN spec::text END, ` + laneOf + ` FROM rota_outbox
		WHERE error IS NULL AND NOT (` + laneOf + ` = ANY($3)) ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED`
	// laneOf is a row's lane: its job's queue and tenant. If the cluster refuses jobs of a lane for now, its rows wait
	// in their order, without delaying others.
	laneOf   = `(COALESCE(NULLIF(spec->>'queue', ''), 'default') || '/' || COALESCE(NULLIF(spec->>'tenant', ''), 'default'))`
	dropRows = `DELETE FROM rota_outbox WHERE seq = ANY($1)`
	failRow  = `UPDATE rota_outbox SET error = $2 WHERE seq = $1`
)

// Outbox submits the jobs of a table of a PostgreSQL database.
type Outbox struct {
	Client *client.Client
	// DSN selects the database.
	DSN string
	Log *slog.Logger
}

// Run submits new rows until ctx ends; if the database or the cluster does not answer it tries again.
func (o *Outbox) Run(ctx context.Context) error {
	if _, err := configOf(o.DSN); err != nil {
		return err
	}
	wait := minAgain
	for ctx.Err() == nil {
		worked, err := o.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if worked {
			wait = minAgain
		}
		o.Log.Warn("the outbox waits", "retry_in", wait.String(), "err", err)
		pause(ctx, wait)
		wait = min(2*wait, maxAgain)
	}
	return nil
}

// configOf returns the settings of a DSN. Statements have no name and are not kept, also for cache_statement, the mode of
// a DSN without default_query_exec_mode: PgBouncer in transaction mode runs each transaction on another connection.
func configOf(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New(
			"the DSN file has no PostgreSQL DSN: use one such as postgres://user@host/db?sslmode=verify-full") // err may quote a password
	}
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return config, nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// session works over one connection until that fails, and reports whether anything was done.
func (o *Outbox) session(ctx context.Context) (worked bool, err error) {
	connecting, cancel := context.WithTimeout(ctx, maxSubmit)
	defer cancel()
	config, err := configOf(o.DSN)
	if err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return false, fmt.Errorf("no connection to the database: %w", err) // pgx quotes no password
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN rota_outbox"); err != nil {
		return false, err
	}
	l := make(lanes)
	for {
		began := time.Now()
		n, wait, err := o.once(ctx, conn, l)
		if err != nil {
			return worked, toldMissing(err)
		}
		worked = true
		switch {
		case wait > 0:
			pause(ctx, wait)
		case n < outboxRows:
			if took := time.Since(began); n == 0 && len(l) > 0 && took*lookShare > outboxPoll {
				pause(ctx, min(took*lookShare, maxAgain))
			}
			waiting, cancel := context.WithTimeout(ctx, outboxPoll)
			_, err = conn.WaitForNotification(waiting)
			cancel()
			if err != nil && ctx.Err() == nil && waiting.Err() == nil {
				return worked, err
			}
		}
		if ctx.Err() != nil {
			return worked, ctx.Err()
		}
	}
}

// toldMissing adds to the error what to do if there is no table.
func toldMissing(err error) error {
	const undefinedTable = "42P01"
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == undefinedTable {
		return fmt.Errorf(
			"the database has no table rota_outbox: run the output of `rota relay postgres --print-migration` in it: %w",
			err)
	}
	return err
}

// outboxRow is a job to be submitted.
type outboxRow struct {
	seq  int64
	id   string
	text *string
	lane string
}

// lanes are those whose jobs the cluster refused for now.
type lanes map[string]*lane

// lane waits until a moment; said is the time of the last log line about it.
type lane struct{ until, said time.Time }

// waiting returns the names of those that are still waiting.
func (l lanes) waiting(now time.Time) []string {
	names := []string{}
	for name, one := range l {
		if now.Before(one.until) {
			names = append(names, name)
		}
	}
	return names
}

// hold makes a lane wait, and reports whether to log that; ok is false if too many wait already.
func (l lanes) hold(name string, until, now time.Time) (say, ok bool) {
	one := l[name]
	if one == nil {
		if len(l) >= maxLanes {
			maps.DeleteFunc(l, func(_ string, old *lane) bool { return !now.Before(old.until) })
		}
		if len(l) >= maxLanes {
			return false, false
		}
		one = &lane{}
		l[name] = one
	}
	if one.until.Before(until) {
		one.until = until
	}
	if say = now.Sub(one.said) >= laneSaid; say {
		one.said = now
	}
	return say, true
}

// once submits some rows. It returns how many, and for how long the cluster asks for a pause.
func (o *Outbox) once(ctx context.Context, conn *pgx.Conn, l lanes) (n int, wait time.Duration, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(undo) // no effect after a commit
	}()
	rows, err := tx.Query(ctx, takeRows, maxSpec, outboxRows, l.waiting(time.Now()))
	if err != nil {
		return 0, 0, err
	}
	taken, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row outboxRow, err error) {
		return row, r.Scan(&row.seq, &row.id, &row.text, &row.lane)
	})
	if err != nil || len(taken) == 0 {
		return 0, 0, err
	}
	done, failed, wait, err := o.submit(ctx, taken, l)
	if err != nil {
		return 0, 0, err
	}
	if _, err := tx.Exec(ctx, dropRows, done); err != nil {
		return 0, 0, err
	}
	for seq, why := range failed {
		if _, err := tx.Exec(ctx, failRow, seq, why); err != nil {
			return 0, 0, err
		}
	}
	return len(taken), wait, tx.Commit(ctx)
}

// submit submits rows, and sorts them: those that the cluster has accepted, those that it will never accept as they
// are, and the others, which stay. Rows of a full lane wait with it; wait is the pause for the rest.
func (o *Outbox) submit(ctx context.Context, rows []outboxRow,
	l lanes) (done []int64, failed map[int64]string, wait time.Duration, err error) {
	failed = make(map[int64]string)
	var jobs []rota.JobSpec
	var of []outboxRow
	for _, r := range rows {
		spec, err := decodeRow(r)
		if err != nil {
			failed[r.seq] = errorText(err)
			o.Log.Warn("a row of the outbox is refused", "job", r.id, "err", err)
			continue
		}
		jobs, of = append(jobs, spec), append(of, r)
	}
	if len(jobs) == 0 {
		return done, failed, 0, nil
	}
	submitting, cancel := context.WithTimeout(ctx, maxSubmit)
	defer cancel()
	outcomes, err := client.EachOutcome(o.Client.Submit(submitting, jobs...))
	if err != nil && len(outcomes) != len(jobs) {
		return nil, nil, 0, err
	}
	for i := range outcomes {
		after := minAgain
		if refused := outcomes[i].Err; refused != nil {
			after = max(minAgain, min(rota.ErrorOf(refused).RetryAfter, maxAgain))
		}
		switch refused, r := outcomes[i].Err, of[i]; {
		case refused == nil && outcomes[i].State != rota.JobNone:
			done = append(done, r.seq)
		case refused != nil && forGood(rota.KindOf(refused)):
			failed[r.seq] = errorText(refused)
			o.Log.Warn("a job of the outbox is refused", "job", r.id, "err", refused)
		case rota.KindOf(refused) == rota.KindExhausted:
			now := time.Now()
			say, ok := l.hold(r.lane, now.Add(after), now)
			if !ok {
				wait = max(wait, after)
			}
			if say {
				o.Log.Warn("rows of the outbox wait: the cluster refuses jobs for now", "queue/tenant", r.lane,
					"err", refused)
			}
		default:
			wait = max(wait, after)
		}
	}
	if err != nil && wait > 0 && len(done) == 0 && len(failed) == 0 {
		return nil, nil, 0, err
	}
	return done, failed, wait, nil
}

// forGood reports whether a refusal is permanent.
func forGood(k rota.Kind) bool {
	switch k {
	case rota.KindInvalid, rota.KindConflict, rota.KindNotFound, rota.KindDenied, rota.KindOutOfRange:
		return true
	}
	return false
}

// errorText returns a refusal as stored in the row: its kind and its subject.
func errorText(err error) string {
	s := rota.KindOf(err).String() + ": " + strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if len(s) > maxError {
		s = s[:maxError]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// decodeRow parses a row's job: as HTTP accepts it, without unknown fields; missing fields have their defaults.
func decodeRow(r outboxRow) (rota.JobSpec, error) {
	spec := rota.NewJobSpec("", nil)
	if r.text == nil {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec has more than %d bytes", maxSpec)
	}
	if !strings.HasPrefix(*r.text, "{") {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec: want a JSON object")
	}
	switch err := jsonparts.Read([]byte(*r.text), &spec, true); {
	case errors.Is(err, jsonparts.ErrMore):
		return spec, rota.Refusef(rota.KindInvalid, "spec", "something follows the job's object")
	case err != nil:
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec: %v", err)
	}
	if spec.ID != "" && string(spec.ID) != r.id {
		return spec, rota.Refusef(rota.KindInvalid, "id",
			"spec has the id %.80q, but job_id is %.80q: omit the id in spec", spec.ID, r.id)
	}
	spec.ID = rota.JobID(r.id)
	if spec.Queue == "" {
		spec.Queue = rota.DefaultQueue
	}
	if spec.Tenant == "" {
		spec.Tenant = rota.DefaultTenant
	}
	err := spec.CheckShape(rota.MaxPayloadBytes)
	return spec, err
}
