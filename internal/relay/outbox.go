package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Migration makes the table of an outbox.
const Migration = `CREATE TABLE IF NOT EXISTS rota_outbox (
    seq    bigserial PRIMARY KEY,
    job_id text NOT NULL UNIQUE,
    spec   jsonb NOT NULL,
    error  text
);
CREATE INDEX IF NOT EXISTS rota_outbox_open ON rota_outbox (seq) WHERE error IS NULL;
`

// Notification is what wakes relays at once. NOTIFY serialises commits, so it is not for tables that are
// written to by many at a time.
const Notification = `CREATE OR REPLACE FUNCTION rota_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('rota_outbox', ''); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER rota_outbox_notify AFTER INSERT ON rota_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION rota_outbox_notify();
`

const (
	// outboxRows is how many rows one transaction takes, specMost how large one may be: a payload of the
	// greatest size is 350 KiB in JSON.
	outboxRows = 200
	specMost   = 512 << 10
	// outboxPoll is how often an empty table is looked at.
	outboxPoll = 250 * time.Millisecond
	// submitMost bounds how long a transaction holds its rows for a cluster that does not answer.
	submitMost = 30 * time.Second
	// againLeast and againMost are how long it waits after a failure.
	againLeast = 250 * time.Millisecond
	againMost  = 10 * time.Second
	errorMost  = 1_000
)

// The rows are locked until the transaction ends, so that another relay takes others; one that died leaves
// them to whoever comes next.
const (
	takeRows = `SELECT seq, job_id, CASE WHEN octet_length(spec::text) <= $1 THEN spec::text END FROM rota_outbox
		WHERE error IS NULL ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED`
	dropRows = `DELETE FROM rota_outbox WHERE seq = ANY($1)`
	failRow  = `UPDATE rota_outbox SET error = $2 WHERE seq = $1`
)

// Outbox submits the jobs of a table of a PostgreSQL database.
type Outbox struct {
	Client *client.Client
	// DSN says which database.
	DSN string
	Log *slog.Logger
}

// Run submits what comes until ctx ends; where the database or the cluster does not answer it tries again.
func (o *Outbox) Run(ctx context.Context) error {
	if _, err := pgx.ParseConfig(o.DSN); err != nil {
		return errors.New("the DSN file holds no PostgreSQL DSN: one such as postgres://user@host/db?sslmode=verify-full is wanted") // err may quote a password
	}
	wait := againLeast
	for ctx.Err() == nil {
		worked, err := o.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if worked {
			wait = againLeast
		}
		o.Log.Warn("the outbox waits", "retry_in", wait.String(), "err", err)
		pause(ctx, wait)
		wait = min(2*wait, againMost)
	}
	return nil
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
	connecting, cancel := context.WithTimeout(ctx, submitMost)
	defer cancel()
	conn, err := pgx.Connect(connecting, o.DSN)
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
	for {
		n, wait, err := o.once(ctx, conn)
		if err != nil {
			return worked, err
		}
		worked = true
		switch {
		case wait > 0:
			pause(ctx, wait)
		case n < outboxRows:
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

// outboxRow is a job to be submitted.
type outboxRow struct {
	seq  int64
	id   string
	text *string
}

// once takes some rows. It returns how many, and for how long the cluster wants to be left alone.
func (o *Outbox) once(ctx context.Context, conn *pgx.Conn) (n int, wait time.Duration, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(undo) // nothing after a commit
	}()
	rows, err := tx.Query(ctx, takeRows, specMost, outboxRows)
	if err != nil {
		return 0, 0, err
	}
	taken, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row outboxRow, err error) {
		return row, r.Scan(&row.seq, &row.id, &row.text)
	})
	if err != nil || len(taken) == 0 {
		return 0, 0, err
	}
	done, failed, wait, err := o.submit(ctx, taken)
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

// submit submits rows, and sorts them: those that the cluster has, those that it will never have as they
// are, and the others, which stay. wait is how long it is to be left alone for their sake.
func (o *Outbox) submit(ctx context.Context, rows []outboxRow) (done []int64, failed map[int64]string, wait time.Duration, err error) {
	failed = make(map[int64]string)
	var jobs []rota.JobSpec
	var of []int64
	for _, r := range rows {
		spec, err := decodeRow(r)
		if err != nil {
			failed[r.seq] = errorText(err)
			continue
		}
		jobs, of = append(jobs, spec), append(of, r.seq)
	}
	if len(jobs) == 0 {
		return done, failed, 0, nil
	}
	submitting, cancel := context.WithTimeout(ctx, submitMost)
	defer cancel()
	outcomes, err := client.EachOutcome(o.Client.Submit(submitting, jobs...))
	if err != nil && len(outcomes) != len(jobs) {
		return nil, nil, 0, err
	}
	for i := range outcomes {
		switch refused := outcomes[i].Err; {
		case refused == nil && outcomes[i].State != rota.JobNone:
			done = append(done, of[i])
		case refused == nil:
			wait = max(wait, againLeast)
		case forGood(rota.KindOf(refused)):
			failed[of[i]] = errorText(refused)
			o.Log.Warn("a job of the outbox is refused", "job", string(jobs[i].ID), "err", refused)
		default:
			wait = max(wait, againLeast, min(rota.ErrorOf(refused).RetryAfter, againMost))
		}
	}
	if err != nil && len(done) == 0 && len(failed) == 0 {
		return nil, nil, 0, err
	}
	return done, failed, wait, nil
}

// forGood reports whether a refusal is one that time does not cure.
func forGood(k rota.Kind) bool {
	switch k {
	case rota.KindInvalid, rota.KindConflict, rota.KindNotFound, rota.KindDenied, rota.KindOutOfRange:
		return true
	}
	return false
}

// errorText is a refusal as it stands in the row: its kind, and what was refused.
func errorText(err error) string {
	s := rota.KindOf(err).String() + ": " + strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if len(s) > errorMost {
		s = s[:errorMost]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// decodeRow reads a row's job: as HTTP takes it, without unknown fields; what is not given has its default.
func decodeRow(r outboxRow) (rota.JobSpec, error) {
	spec := rota.NewJobSpec("", nil)
	if r.text == nil {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec has more than %d bytes", specMost)
	}
	if !strings.HasPrefix(*r.text, "{") {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader([]byte(*r.text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "spec: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return spec, rota.Refusef(rota.KindInvalid, "spec", "something follows the job's object")
	}
	if spec.ID != "" && string(spec.ID) != r.id {
		return spec, rota.Refusef(rota.KindInvalid, "id", "spec has the id %.80q, and job_id is %.80q: leave the first out", spec.ID, r.id)
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
