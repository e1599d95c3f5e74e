package depot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/rotasched/rota"
)

const (
	bucketScheme = "s3://"
	// amazon is the default store.
	amazon = "https://s3.amazonaws.com"
	// partBytes is the size of one request, and of the part of a backup in memory. A store accepts 10,000 parts, so a
	// backup may have 156 GiB.
	partBytes = 16 << 20
	// copyBytes is the most that a store copies in one request.
	copyBytes = 5 << 30
	// tries is the number of tries of one request: the next check of the backups tries everything again.
	tries = 3
)

// s3Store is a store in an S3 bucket. An object exists once it is complete: the parts of an interrupted upload are not
// an object. A rename copies within the store.
type s3Store struct {
	client         *minio.Client
	bucket, prefix string
	endpoint       string
	// maxCopy is copyBytes, less in tests.
	maxCopy int64
}

func openBucket(address string, o Options) (*s3Store, error) {
	name, prefix, _ := strings.Cut(address, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if name == "" {
		return nil, rota.Refusef(rota.KindInvalid, "backup-to",
			"backup-to: got %s%s without a bucket; use s3://bucket/prefix", bucketScheme, address)
	}
	endpoint, err := parseEndpoint(cmp.Or(o.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"),
		amazon))
	if err != nil {
		return nil, err
	}
	keys := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{}})
	if value, err := keys.GetWithContext(nil); err != nil || value.AccessKeyID == "" {
		return nil, rota.Refusef(rota.KindInvalid, "backup-to",
			"there are no credentials for %s%s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
				"or AWS_SHARED_CREDENTIALS_FILE to a file with them", bucketScheme, address)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: keys, Secure: endpoint.Scheme == "https",
		MaxRetries: tries, Region: cmp.Or(o.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))})
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindInvalid, Subject: "backup-to",
			Text: fmt.Sprintf("no store can be at %s", endpoint), Cause: err}
	}
	return &s3Store{client: client, bucket: name, prefix: prefix, endpoint: endpoint.String(), maxCopy: copyBytes}, nil
}

// parseEndpoint parses the URL of a store. Over a network in clear text a backup can be read or replaced: only a
// loopback address may go without TLS.
func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" ||
		u.User != nil || u.RawQuery != "":
		return nil, rota.Refusef(rota.KindInvalid, "backup-endpoint",
			"backup-endpoint: got %q; use a URL such as https://s3.example.org:9000", text)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, rota.Refusef(rota.KindInvalid, "backup-endpoint",
			"%s is refused: backups go over a network by https:// only", text)
	}
	u.Path = ""
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (b *s3Store) place(name string) string { return bucketScheme + b.bucket + "/" + b.prefix + name }

func (b *s3Store) fill(ctx context.Context, name string, r io.Reader) error {
	b.clear(ctx, name)
	// Without TLS, thus on loopback, the library would else sign pieces of a part, whose frame some stores keep as
	// data. The stored object is read back in any case.
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, r, -1, minio.PutObjectOptions{PartSize: partBytes,
		ContentType: "application/octet-stream", DisableContentSha256: true})
	return b.explain(err)
}

// clear aborts the interrupted uploads of a name. It is best effort: not every store lists them, and credentials may
// not permit it. Their parts are not an object, so a backup does not depend on it; the bucket's lifecycle removes the
// rest.
func (b *s3Store) clear(ctx context.Context, name string) {
	_ = b.client.RemoveIncompleteUpload(ctx, b.bucket, b.prefix+name)
}

func (b *s3Store) open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err)
	}
	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		return nil, b.explain(err)
	}
	return bucketReader{object, b}, nil
}

type bucketReader struct {
	*minio.Object
	b *s3Store
}

// Read adds to errors what to do about them.
func (r bucketReader) Read(p []byte) (int, error) {
	n, err := r.Object.Read(p)
	return n, r.b.explain(err)
}

func (b *s3Store) rename(ctx context.Context, from, to string) error {
	bytes, _, err := b.look(ctx, from)
	if err != nil {
		return err
	}
	dst, src := minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + to}, minio.CopySrcOptions{Bucket: b.bucket,
		Object: b.prefix + from}
	if bytes <= b.maxCopy {
		_, err = b.client.CopyObject(ctx, dst, src)
	} else {
		_, err = b.client.ComposeObject(ctx, dst, src)
	}
	if err != nil {
		return b.explain(err)
	}
	return b.remove(ctx, from)
}

func (b *s3Store) remove(ctx context.Context, name string) error {
	if Partial(name) {
		b.clear(ctx, name)
	}
	return b.explain(b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
}

func (b *s3Store) look(ctx context.Context, name string) (int64, rota.Date, error) {
	info, err := b.client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
	return info.Size, rota.Date(info.LastModified.UnixMilli()), b.explain(err)
}

func (b *s3Store) list(ctx context.Context, yield func(name string, bytes int64, made rota.Date)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing if an error ended this
	for o := range b.client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return b.explain(o.Err)
		}
		yield(strings.TrimPrefix(o.Key, b.prefix), o.Size, rota.Date(o.LastModified.UnixMilli()))
	}
	return ctx.Err()
}

// InBucket reports whether a place is in a bucket, not on this machine.
func InBucket(place string) bool { return strings.HasPrefix(place, bucketScheme) }
