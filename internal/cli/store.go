package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/secret"
	"github.com/rotasched/rota/snapshot"
)

// maxIdentityFile bounds the file of --identity: some hundred identities.
const maxIdentityFile = 64 << 10

// StoreFlags register how an S3 store is reached.
func StoreFlags(flags *pflag.FlagSet, o *depot.Options) {
	flags.StringVar(&o.Endpoint, "backup-endpoint", "",
		"`URL` of the S3 store, such as https://minio.example.org:9000; "+
			"by default AWS_ENDPOINT_URL_S3, then Amazon's")
	flags.StringVar(&o.Region, "backup-region", "",
		"`region` of the bucket; by default AWS_REGION, then the store's own region")
}

// BackupFlags say how a command gets at a backup that somebody stored.
type BackupFlags struct {
	Store            depot.Options
	identity, sha256 string
}

// Register defines the flags of an S3 store, --identity and --sha256.
func (f *BackupFlags) Register(flags *pflag.FlagSet) {
	StoreFlags(flags, &f.Store)
	f.registerIdentity(flags)
	flags.StringVar(&f.sha256, "sha256", "",
		"`hex` digest that the file must have, as of sha256sum")
}

func (f *BackupFlags) registerIdentity(flags *pflag.FlagSet) {
	flags.StringVar(&f.identity, "identity", "", "`file` with the age identity that opens an encrypted backup")
}

// opener opens a file, decrypted where it is encrypted.
func (f *BackupFlags) opener(file string) (snapshot.Opener, error) {
	var with depot.Identities
	if f.identity != "" {
		text, err := secret.ReadFile(f.identity, maxIdentityFile)
		if err != nil {
			return nil, Failf("read --identity: %w", err)
		}
		if with, err = depot.ParseIdentities(text); err != nil {
			return nil, Failf("read --identity %s: %w", f.identity, err)
		}
	}
	return func() (io.ReadCloser, error) {
		stored, err := snapshot.OpenFile(file)
		if err != nil {
			return nil, err
		}
		r, err := depot.Unseal(stored, with)
		if err != nil {
			return nil, errors.Join(err, stored.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{r, stored}, nil
	}, nil
}

// Take opens the backup at a path or an address. What is in a bucket is copied here first, as
// it is stored; done removes the copy.
func (f *BackupFlags) Take(ctx context.Context, at string) (open snapshot.Opener, done func(), err error) {
	if !depot.InBucket(at) {
		return f.taken(at, func() {})
	}
	to, file := path.Split(at)
	name, ok := depot.ParseName(file)
	if !ok {
		return nil, nil, Usagef("%s names no backup: list them with rota operator backup list --from %s", at, to)
	}
	options := f.Store
	options.To = to
	d, err := depot.Open(options)
	if err != nil {
		return nil, nil, AsFailure(err)
	}
	return f.Fetch(ctx, d, name)
}

// Fetch copies a backup here, so that what is checked cannot change meanwhile, and opens it.
func (f *BackupFlags) Fetch(ctx context.Context, d *depot.Depot,
	name depot.Name) (open snapshot.Opener, done func(), err error) {
	here, err := os.CreateTemp("", "rota-backup-*")
	if err != nil {
		return nil, nil, Failf("copy the backup here: %w", err)
	}
	done = func() { _ = os.Remove(here.Name()) }
	stored, err := d.Fetch(ctx, name)
	if err == nil {
		_, err = io.Copy(here, stored)
		err = errors.Join(err, stored.Close())
	}
	if err = errors.Join(err, here.Close()); err != nil {
		done()
		return nil, nil, Failf("fetch the backup (through %s; TMPDIR names another place): %w", here.Name(), err)
	}
	return f.taken(here.Name(), done)
}

// taken opens a file once it has the SHA-256 that is wanted.
func (f *BackupFlags) taken(file string, done func()) (open snapshot.Opener, _ func(), err error) {
	defer func() {
		if err != nil {
			done()
		}
	}()
	if f.sha256 != "" {
		if err := f.compare(file); err != nil {
			return nil, nil, err
		}
	}
	open, err = f.opener(file)
	return open, done, err
}

// compare refuses a file that has another SHA-256 than --sha256 says.
func (f *BackupFlags) compare(file string) error {
	var want rota.Hex
	if err := want.UnmarshalText([]byte(strings.TrimSpace(f.sha256))); err != nil || len(want) != sha256.Size {
		return Usagef("--sha256: got %q; use %d hexadecimal digits", f.sha256, 2*sha256.Size)
	}
	r, err := snapshot.OpenFile(file)
	if err != nil {
		return AsFailure(err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return Failf("read %s: %w", file, err)
	}
	if got := h.Sum(nil); !bytes.Equal(got, want) {
		return Failf("wrong file: its SHA-256 is %s, --sha256 is %s", rota.Hex(got), want)
	}
	return nil
}
