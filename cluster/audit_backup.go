package cluster

import (
	"context"
	"log/slog"

	"github.com/rotasched/rota"
)

// AuditBackup is AuditData for a backup file, as far as the log in it goes back.
func AuditBackup(_ context.Context, path string, _ *slog.Logger) (rota.AuditReport, error) {
	return rota.AuditReport{}, rota.Refusef(rota.OutOfRange, "backup", "%s holds no log", path)
}
