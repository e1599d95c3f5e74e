package relay

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestConfigOf_unnamedStatements: statements have no name, as PgBouncer in transaction mode needs, and another mode
// than pgx's default stays as the DSN sets it.
func TestConfigOf_unnamedStatements(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://relay@db.example.org/app"
	for mode, want := range map[string]pgx.QueryExecMode{
		"":                pgx.QueryExecModeExec,
		"cache_statement": pgx.QueryExecModeExec,
		"simple_protocol": pgx.QueryExecModeSimpleProtocol,
		"describe_exec":   pgx.QueryExecModeDescribeExec,
	} {
		text := dsn
		if mode != "" {
			text += "?default_query_exec_mode=" + mode
		}
		config, err := configOf(text)
		if err != nil || config.DefaultQueryExecMode != want {
			t.Errorf("mode %q: got %v, %v, want %v", mode, config.DefaultQueryExecMode, err, want)
		}
	}
	if _, err := configOf("postgres://%zz"); err == nil {
		t.Error("an invalid DSN is accepted")
	}
}
