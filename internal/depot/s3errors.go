package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/rotasched/rota"
)

// remedies are what to do about a store's refusal, by its code.
var remedies = map[string]string{
	"NoSuchBucket":                 "the bucket does not exist: create it, or fix the name",
	"NoSuchKey":                    "the object does not exist: list backups with `rota operator backup list`",
	"AccessDenied":                 "the store refuses these credentials here: they want to list, read, write and delete in the bucket",
	"InvalidAccessKeyId":           "the store does not know the access key: fix AWS_ACCESS_KEY_ID, or the file that has it",
	"SignatureDoesNotMatch":        "the secret key is wrong: fix AWS_SECRET_ACCESS_KEY, or the file that has it",
	"ExpiredToken":                 "the credentials have expired: get new ones",
	"RequestTimeTooSkewed":         "this machine's clock is wrong: set it",
	"AuthorizationHeaderMalformed": "the bucket is in another region: name it with --backup-region",
	"PermanentRedirect":            "the bucket is elsewhere: name its region with --backup-region, or its store with --backup-endpoint",
	"EntityTooLarge":               "the backup is larger than the store accepts",
	"XMinioStorageFull":            "the store is full: make room, or keep fewer with --backup-keep",
	"InsufficientStorage":          "the store is full: make room, or keep fewer with --backup-keep",
	"QuotaExceeded":                "the bucket's quota is used up: raise it, or keep fewer with --backup-keep",
	"SlowDown":                     "the store is overloaded; it is tried again",
	"ServiceUnavailable":           "the store is not available; it is tried again",
}

// explain describes a store's refusal and the remedy.
func (b *s3Store) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return err
	}
	var refused minio.ErrorResponse
	if !errors.As(err, &refused) {
		return err // not from the store: an error of the source, or of the network, which names the address
	}
	kind, remedy := rota.KindInvalid, remedies[refused.Code]
	switch {
	case remedy == "" && refused.StatusCode == http.StatusForbidden:
		remedy = remedies["AccessDenied"]
	case remedy == "" && refused.StatusCode == http.StatusInsufficientStorage:
		remedy = remedies["InsufficientStorage"]
	case remedy == "" && refused.StatusCode >= http.StatusInternalServerError:
		remedy = remedies["ServiceUnavailable"]
	case remedy == "":
		remedy = "see the store's log"
	}
	if refused.StatusCode >= http.StatusInternalServerError {
		kind = rota.KindUnavailable
	}
	return &rota.Error{Kind: kind, Subject: "backup-to", Text: fmt.Sprintf("%s%s at %s: %s", bucketScheme, b.bucket,
		b.endpoint, remedy), Cause: err}
}
