package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rotasched/rota"
)

// directory is a store in a file system.
type directory struct{ path string }

func openDirectory(path string) (directory, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return directory{}, &rota.Error{Kind: rota.KindInvalid, Subject: "backup-to",
			Text: fmt.Sprintf("backups cannot go to %s: make the directory "+
				"first", path), Cause: err}
	}
	return directory{path}, nil
}

func (d directory) place(name string) string { return filepath.Join(d.path, name) }

func (d directory) fill(_ context.Context, name string, r io.Reader) error {
	f, err := os.OpenFile(d.place(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d directory) open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(d.place(name))
}

func (d directory) rename(_ context.Context, from, to string) error {
	if err := os.Rename(d.place(from), d.place(to)); err != nil {
		return err
	}
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d directory) remove(_ context.Context, name string) error {
	if err := os.Remove(d.place(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d directory) look(_ context.Context, name string) (int64, rota.Date, error) {
	info, err := os.Stat(d.place(name))
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), rota.Date(info.ModTime().UnixMilli()), nil
}

func (d directory) list(ctx context.Context, yield func(name string, bytes int64, made rota.Date)) error {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		bytes, made, err := d.look(ctx, f.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // another node deleted it
		}
		if err != nil {
			return err
		}
		yield(f.Name(), bytes, made)
	}
	return nil
}
