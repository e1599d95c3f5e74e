package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/rotasched/rota"
)

const (
	// KeepLeast is the number of backups of a cluster that are never deleted, whatever the configured number.
	KeepLeast = 3
	// asidePrefix and asideSuffix surround the name of an incomplete backup.
	asidePrefix, asideSuffix = ".rota-", ".part"
)

// Options configure the place of backups and the accounts that can read them.
type Options struct {
	// To is a directory, or s3://bucket/prefix.
	To string
	// Endpoint is the URL of an S3 store, empty for Amazon's or the environment's AWS_ENDPOINT_URL_S3 or
	// AWS_ENDPOINT_URL; Region is the bucket's, empty for AWS_REGION or AWS_DEFAULT_REGION, or what the store reports.
	Endpoint, Region string
	// Recipients are the age recipients that backups are sealed for; none disables sealing.
	Recipients []string
}

// Depot holds backups. Several clusters, and the nodes of one, may share a store.
type Depot struct {
	store      store
	recipients []age.Recipient
}

// store is a directory or a bucket: an object has a name, and a size known at the end.
type store interface {
	// fill stores what it reads under a name that no backup has, replacing an existing object. If reading fails,
	// nothing is stored, or a part that remove deletes.
	fill(ctx context.Context, name string, r io.Reader) error
	open(ctx context.Context, name string) (io.ReadCloser, error)
	// rename renames atomically: the new name has the whole object, or its previous one.
	rename(ctx context.Context, from, to string) error
	// remove deletes the object of a name, and what a killed fill left.
	remove(ctx context.Context, name string) error
	// list calls yield for every stored name, including incomplete backups.
	list(ctx context.Context, yield func(name string, bytes int64, made rota.Date)) error
	look(ctx context.Context, name string) (bytes int64, made rota.Date, err error)
	// place returns the path or address of a name.
	place(name string) string
}

// Check returns all faults of the options for which Open would fail, and those of options that need no place. It stores
// nothing, and sends nothing to a bucket.
func Check(o Options) (faults []error) {
	if _, err := parseRecipients(o.Recipients); err != nil {
		faults = append(faults, err)
	}
	o.Recipients = nil
	switch {
	case o.To != "":
		if _, err := Open(o); err != nil {
			faults = append(faults, err)
		}
	case o.Endpoint != "":
		if _, err := parseEndpoint(o.Endpoint); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Open returns a depot. A directory must exist; for a bucket it sends no request yet, but requires credentials.
func Open(o Options) (*Depot, error) {
	recipients, err := parseRecipients(o.Recipients)
	if err != nil {
		return nil, err
	}
	d := &Depot{recipients: recipients}
	if address, ok := strings.CutPrefix(o.To, bucketScheme); ok {
		d.store, err = openBucket(address, o)
	} else {
		d.store, err = openDirectory(o.To)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Put stores the output of write under the name that check finds in it, after reading it back. The backup is complete,
// or absent; it replaces one of the same name.
func (d *Depot) Put(ctx context.Context, by rota.NodeID, write func(io.Writer) error,
	check func(io.Reader) (Name, error)) (b Backup, err error) {
	aside := asidePrefix + string(by) + asideSuffix
	defer func() {
		if err == nil {
			return
		}
		if e := d.store.remove(context.WithoutCancel(ctx), aside); e != nil {
			err = fmt.Errorf("%w (and %s stays: %w)", err, d.store.place(aside), e)
		}
	}()
	name, sum, err := d.fill(ctx, aside, write, check)
	if err != nil {
		return b, fmt.Errorf("write %s: %w", d.store.place(aside), err)
	}
	if err := d.readBack(ctx, aside, sum); err != nil {
		return b, fmt.Errorf("read %s back: %w", d.store.place(aside), err)
	}
	if err := d.store.rename(ctx, aside, name.String()); err != nil {
		return b, fmt.Errorf("name the backup: %w", err)
	}
	b, err = d.look(ctx, name)
	b.SHA256 = sum
	return b, err
}

// fill stores an incomplete backup under a temporary name, sealed if there are recipients, and returns the SHA-256 of
// the bytes to be stored. check reads the unsealed bytes: afterwards this process cannot read them.
func (d *Depot) fill(ctx context.Context, aside string, write func(io.Writer) error,
	check func(io.Reader) (Name, error)) (name Name, sum []byte, err error) {
	stored, out := io.Pipe()
	h := sha256.New()
	sealed := make(chan error, 1)
	go func() {
		err := d.seal(io.MultiWriter(live{ctx}, h, out), func(w io.Writer) error {
			var err error
			name, err = checked(w, write, check)
			return err
		})
		out.CloseWithError(err)
		sealed <- err
	}()
	err = d.store.fill(ctx, aside, stored)
	stored.CloseWithError(cmpError(err, io.ErrClosedPipe))
	if e := <-sealed; e != nil && !errors.Is(e, err) && !errors.Is(e, io.ErrClosedPipe) {
		err = e // the underlying error
	}
	name.Sealed = len(d.recipients) > 0
	return name, h.Sum(nil), err
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// checked writes, and has the written bytes checked at the same time.
func checked(w io.Writer, write func(io.Writer) error, check func(io.Reader) (Name, error)) (Name, error) {
	type found struct {
		name Name
		err  error
	}
	r, beside := io.Pipe()
	done := make(chan found, 1)
	go func() {
		name, err := check(r)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		r.CloseWithError(err)
		done <- found{name, err}
	}()
	err := write(io.MultiWriter(w, beside))
	beside.CloseWithError(err)
	f := <-done
	return f.name, cmpError(err, f.err)
}

// live refuses bytes once a context has ended.
type live struct{ ctx context.Context } //nolint:containedctx // a writer for one call

func (l live) Write(p []byte) (int, error) { return len(p), context.Cause(l.ctx) }

// readBack compares the stored bytes with those written.
func (d *Depot) readBack(ctx context.Context, name string, sum []byte) error {
	r, err := d.store.open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		return errors.New("it holds other bytes than were written")
	}
	return nil
}

func (d *Depot) look(ctx context.Context, name Name) (Backup, error) {
	bytes, made, err := d.store.look(ctx, name.String())
	return Backup{Name: name, File: d.store.place(name.String()), Bytes: bytes, Made: made}, err
}

// Fetch opens a backup's bytes as stored; pass sealed ones to Unseal.
func (d *Depot) Fetch(ctx context.Context, n Name) (io.ReadCloser, error) {
	return d.store.open(ctx, n.String())
}

// List returns all backups, of every cluster; other files are left out.
func (d *Depot) List(ctx context.Context) ([]Backup, error) {
	list := []Backup{}
	err := d.store.list(ctx, func(s string, bytes int64, made rota.Date) {
		if name, ok := ParseName(s); ok {
			list = append(list, Backup{Name: name, File: d.store.place(s), Bytes: bytes, Made: made})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	return list, nil
}

// Prune removes a cluster's oldest backups beyond keep, never the last KeepLeast, and returns them. Only those up to an
// index count: a backup beyond it is not yet known to be the cluster's own.
func (d *Depot) Prune(ctx context.Context, cluster rota.ClusterID, upTo rota.Index,
	keep int) (gone []Backup, err error) {
	all, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	own := Of(all, cluster)
	for len(own) > 0 && own[len(own)-1].Index > upTo {
		own = own[:len(own)-1]
	}
	own = own[:max(0, len(own)-max(keep, KeepLeast))]
	for i, b := range own {
		if err := d.store.remove(ctx, b.Name.String()); err != nil {
			return own[:i], fmt.Errorf("remove %s: %w", b.File, err)
		}
	}
	return own, nil
}

// Partial reports whether a name is that of a backup that is being written, or whose writing was interrupted.
func Partial(name string) bool {
	return strings.HasPrefix(name, asidePrefix) && strings.HasSuffix(name, asideSuffix)
}
