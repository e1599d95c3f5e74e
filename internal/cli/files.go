package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rotasched/rota/internal/flowfile"
)

// MaxKeyFile bounds a file of keys, or of an attestation.
const MaxKeyFile = 1 << 20

// ReadSmall reads a file of at most so many bytes.
func ReadSmall(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s too long: maximum %d bytes", path, most)
	}
	return text, err
}

// FileError returns what is wrong with a file: several faults a line each, before the
// one line that ends the command.
func (a *App) FileError(path string, err error) error {
	name := path
	if path == "-" {
		name = "stdin"
	}
	var faults flowfile.Faults
	if !errors.As(err, &faults) || len(faults) == 1 {
		return Usagef("%s: %w", name, err)
	}
	for _, fault := range faults {
		a.Talk("%s: %s", name, Clean(fault))
	}
	if len(faults) >= flowfile.MaxFaults {
		return Usagef("%s has these %d faults at least; nothing was submitted", name, len(faults))
	}
	return Usagef("%s has these %d faults; nothing was submitted", name, len(faults))
}
