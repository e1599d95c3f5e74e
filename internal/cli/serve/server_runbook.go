package serve

import (
	"errors"
	"strings"

	"github.com/rotasched/rota/internal/cli"
)

// StartPages are the runbooks of refusals to start, each with words that only its refusals have.
var StartPages = []struct {
	Page  string
	words []string
}{
	{"StartDataInUse", []string{" is in use by ", " is locked by another process"}},
	{"StartOtherNode", []string{" belongs to node ", " belongs to cluster ", " belongs to cluster id "}},
	{"StartCopiedData", []string{" was copied or moved from elsewhere"}},
	{"StartOldData", []string{" is behind what node "}},
	{"StartOtherFormat", []string{" has format ", " of rota, from before its first release"}},
	{"StartRecoveryUnfinished", []string{"the recovery of data directory "}},
	{"StartDamagedHistory", []string{"archive.db is damaged", "archive.db is not usable",
		"archive.db holds the history of", "archive.db cannot be opened"}},
	{"StartDamagedData", []string{" is damaged: "}},
	{"StartKnownId", []string{" was removed from the cluster", " is known to the cluster but ",
		" belongs to another data directory", " is an old copy"}},
	{"StartDiskFull", []string{"no space left on device", " is full: free space", " MiB free (--disk-low "}},
	{"StartPortTaken", []string{": the port is taken", ": this machine has no such address",
		": this user may not listen on that port"}}, {"StartOpenFiles", []string{"this process may open "}},
	{"StartSecretOpen", []string{" is refused: it holds a secret, and its mode "}},
	{"StartCertificate", []string{"this node's certificate is refused", "read certificate ", "read authorities: "}},
	{"StartExposed", []string{" is no loopback address", " without a key lets everyone "}},
	{"StartAlone", []string{" is empty and neither --bootstrap-expect nor --join "}},
}

// StartSettings is the runbook of settings that are wrong in themselves.
const StartSettings = "StartSettings"

// startPage returns the page of a refusal to start; empty for none.
func startPage(err error) string {
	text := err.Error()
	for _, p := range StartPages {
		for _, words := range p.words {
			if strings.Contains(text, words) {
				return p.Page
			}
		}
	}
	var coded *cli.CodedError
	if errors.As(err, &coded) && coded.Code == cli.ExitUsage {
		return StartSettings
	}
	return ""
}

// pagedError is a refusal to start that names its runbook.
type pagedError struct {
	error
	page string
}

func (e *pagedError) Error() string {
	return e.error.Error() + " (runbook: " + cli.Runbooks + e.page + ".md)"
}
func (e *pagedError) Unwrap() error { return e.error }

// Paged has a refusal to start name its runbook, each of several its own.
func Paged(err error) error {
	var many cli.StartFaults
	if errors.As(err, &many) {
		each := make(cli.StartFaults, len(many))
		for i := range many {
			each[i] = Paged(many[i])
		}
		return each.Err()
	}
	if err == nil || startPage(err) == "" {
		return err
	}
	return &pagedError{err, startPage(err)}
}
