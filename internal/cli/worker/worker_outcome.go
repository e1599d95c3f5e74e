package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// leftFile is a file that a command is named by a variable of its environment, to leave
// something for its worker.
type leftFile struct{ variable, path string }

func newLeftFile(variable string) (leftFile, error) {
	f, err := os.CreateTemp("", "rota-left-")
	if err != nil {
		return leftFile{}, fmt.Errorf("make the file $%s for the command: %w", variable, err)
	}
	return leftFile{variable, f.Name()}, f.Close()
}

func (l leftFile) remove() { _ = os.Remove(l.path) }

// read returns at most so many bytes of what was left, nothing where the command removed the
// file. The command may have put anything in its place: what is no file is not waited for.
func (l leftFile) read(most int64) ([]byte, error) {
	f, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("$%s cannot be read: %w", l.variable, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no longer a file", l.path)
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, most))
	}
	if err != nil {
		return nil, fmt.Errorf("$%s cannot be read: %w", l.variable, err)
	}
	return text, nil
}

// askFile is where a command writes what it has spent, and what becomes of its job if it fails.
type askFile struct{ leftFile }

// maxAskFile limits what is read of it: one line that asks for something, and thousands of totals.
const maxAskFile = 256 << 10

// of reports what a command has spent, and returns how it failed with what it asks for. A command that did not fail, or
// declined, asks for nothing.
func (a askFile) of(failed error, spend func(string, rota.Cost) error) error {
	text, err := a.read(maxAskFile)
	if err != nil {
		if failed == nil || errors.Is(failed, ErrDeclined) {
			return failed // it may have removed the file, or put anything in its place
		}
		return fmt.Errorf("%w; %w", failed, err)
	}
	if len(text) == maxAskFile {
		text = text[:1+bytes.LastIndexByte(text, '\n')] // the last line may be a part of one
	}
	var lines, names []string
	totals := map[string]string{} // the newest total of each name
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		cost, isCost := strings.CutPrefix(line, "cost ")
		if !isCost {
			lines = append(lines, line)
			continue
		}
		name, total, _ := strings.Cut(cost, " ")
		if _, again := totals[name]; !again {
			names = append(names, name)
		}
		totals[name] = total
	}
	for _, name := range names {
		line := "cost " + name + " " + totals[name]
		if err := spent(name, totals[name], spend); err != nil && failed == nil {
			failed = fmt.Errorf("$ROTA_OUTCOME has %.60q: %w", line, err)
		} else if err != nil {
			failed = fmt.Errorf("%w; $ROTA_OUTCOME has %.60q: %w", failed, line, err)
		}
	}
	if failed == nil || errors.Is(failed, ErrDeclined) {
		return failed
	}
	return Asking(strings.TrimSpace(strings.Join(lines, "\n")), failed)
}

// spent reports a total.
func spent(name, amount string, spend func(string, rota.Cost) error) error {
	var total rota.Cost
	if err := total.UnmarshalText([]byte(strings.TrimSpace(amount))); err != nil || spend == nil {
		return err
	}
	return spend(name, total)
}

// Asking makes of a failure what a line asks for; "" asks for nothing.
func Asking(line string, failed error) error {
	verb, rest, timed := strings.Cut(line, " ")
	wait, err := time.ParseDuration(strings.TrimSpace(rest))
	timed = timed && err == nil && wait > 0
	switch {
	case line == "":
		return failed
	case line == "no-retry":
		return client.NoRetry(failed)
	case line == "cancel":
		return client.Cancel(failed)
	case verb == "retry-after" && timed:
		return client.RetryAfter(wait, failed)
	case verb == "snooze" && timed:
		return fmt.Errorf("%w: %w", failed, client.Snooze(wait))
	}
	if key, wait, ok := strings.Cut(rest, " "); ok && verb == "pause" {
		if d, err := time.ParseDuration(strings.TrimSpace(wait)); err == nil && d > 0 {
			return client.RetryAfterKey(key, d, failed)
		}
	}
	return fmt.Errorf("%w; $ROTA_OUTCOME has %.60q: use retry-after 5m, snooze 30s, pause KEY 30s, no-retry or cancel", failed, line)
}
