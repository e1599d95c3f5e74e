package virtual

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keepImage copies a data directory.
func keepImage(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, from)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to+rel, 0o700)
		}
		return copySparse(path, to+rel)
	})
}

// copySparse copies a file and skips zeros, which make up most of a young bbolt file.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	var zero, block [64 << 10]byte
	for at := int64(0); ; {
		n, err := io.ReadFull(in, block[:])
		if n > 0 && !bytes.Equal(block[:n], zero[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

// restoreImage restores the content of a directory from an image. The directory and LOCK remain the same files: by them
// a node knows that it was not copied.
func restoreImage(from, to string) error {
	beneath, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, d := range beneath {
		if d.Name() == "LOCK" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(to, d.Name())); err != nil {
			return err
		}
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, from)
		switch {
		case d.IsDir():
			return os.MkdirAll(to+rel, 0o700)
		case d.Name() == "LOCK":
			return nil
		}
		return os.Rename(path, to+rel)
	})
}
