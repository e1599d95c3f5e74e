package words

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
)

func TestStatus_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawError(t)
		err := ToStatus(errOrNil(want))
		if want == nil {
			if err != nil || FromStatus(err) != nil {
				t.Fatalf("no error became %v", err)
			}
			return
		}
		if got := status.Code(err); got != CodeOf(want.Kind) {
			t.Fatalf("%v has code %v", want.Kind, got)
		}
		if got := FromStatus(err); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func errOrNil(e *rota.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func TestStatus_codes(t *testing.T) {
	t.Parallel()
	for kind, code := range map[rota.Kind]codes.Code{
		rota.KindInvalid: codes.InvalidArgument, rota.KindNotFound: codes.NotFound,
		rota.KindConflict: codes.AlreadyExists,
		rota.KindStale:    codes.Aborted, rota.KindMode: codes.FailedPrecondition,
		rota.KindExhausted:   codes.ResourceExhausted,
		rota.KindUnavailable: codes.Unavailable, rota.KindTimeout: codes.DeadlineExceeded,
		rota.KindOutOfRange: codes.OutOfRange,
		rota.KindDenied:     codes.PermissionDenied, rota.KindInternal: codes.Internal,
		rota.KindUnauthenticated: codes.Unauthenticated,
	} {
		err := ToStatus(rota.Refusef(kind, "x", "no"))
		if status.Code(err) != code {
			t.Errorf("%v goes as %v, want %v", kind, status.Code(err), code)
		}
		if got := FromStatus(err).Kind; got != kind {
			t.Errorf("%v comes back as %v", kind, got)
		}
		// A third-party server sends no details: a proxy's INTERNAL is a transport fault on the way to a node.
		want := kind
		if kind == rota.KindInternal {
			want = rota.KindUnavailable
		}
		if got := FromStatus(status.Error(code, "no")).Kind; got != want {
			t.Errorf("%v without details comes back as %v, want %v", code, got, want)
		}
	}
}

// TestFromStatus_connections checks that the library's connection error becomes a text that identifies the server at
// the address.
func TestFromStatus_connections(t *testing.T) {
	t.Parallel()
	const preface = `connection error: desc = "error reading server preface: `
	for message, want := range map[string]string{
		preface + `raw-read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection"`:           "the port is open and nobody answers",
		preface + `http2: frame too large, note that the frame header looked like an HTTP/1.1 header"`: "no client port of a node",
		preface + `http2: frame too large"`:                      "or wants TLS",
		preface + `connection reset by peer"`:                    "or wants TLS (connection reset by peer)",
		"write tcp 127.0.0.1:1->127.0.0.1:2: write: broken pipe": "or wants TLS (broken pipe)",
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2: connect: connection refused"`: "dial tcp 127.0.0.1:2: connect: connection refused",
	} {
		if got := FromStatus(status.Error(codes.Unavailable, message)).Text; !strings.HasPrefix(got,
			"no connection: ") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, %q is wanted", message, got, want)
		}
	}
	const foreign = "unexpected HTTP status code received from server: 404 (Not Found); malformed header: missing HTTP content-type"
	if e := FromStatus(status.Error(codes.Unimplemented, foreign)); e.Kind != rota.KindUnavailable ||
		!strings.HasSuffix(e.Text, "which answered 404 (Not Found)") {
		t.Errorf("%+v", e)
	}
	if e := FromStatus(status.Error(codes.Unimplemented, "unknown method Past")); e.Kind != rota.KindInvalid {
		t.Errorf("a method that a node lacks: %+v", e)
	}
}

func TestToStatus_strangers(t *testing.T) {
	t.Parallel()
	var none *rota.Error
	if err := ToStatus(none); err != nil {
		t.Errorf("a nil *rota.Error became %v", err)
	}
	if got := status.Code(ToStatus(errors.New("disk"))); got != codes.Internal {
		t.Errorf("a stranger became %v", got)
	}
	wrapped := fmt.Errorf("read header: %w", &rota.Error{Kind: rota.KindNotFound, Op: "get", Text: "gone",
		Subject: "j1"})
	got := FromStatus(ToStatus(wrapped))
	if got.Kind != rota.KindNotFound || got.Subject != "j1" || got.Error() != "read header: get: gone" {
		t.Errorf("wrapped: got %+v", got)
	}
	cause := &rota.Error{Kind: rota.KindInternal, Op: "save", Text: "write", Cause: errors.New("disk full")}
	if got := FromStatus(ToStatus(cause)).Error(); got != "save: write: disk full" {
		t.Errorf("cause: got %q", got)
	}
	long := rota.Refusef(rota.KindInternal, strings.Repeat("s", 1<<20), "%s", strings.Repeat("é\xff", 1<<20))
	if got := FromStatus(ToStatus(long)); len(got.Text) > 2*maxStatusText || len(got.Subject) > 2*maxStatusText {
		t.Errorf("a long error has %d bytes of text", len(got.Text))
	}
}

// TestFromStatus_brokenOff checks codes without meaning, such as from a proxy that cut an idle stream. They are treated
// as a fault on the way, unless a node sent a kind with them.
func TestFromStatus_brokenOff(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Internal, codes.Unknown} {
		if got := FromStatus(status.Error(code,
			"stream terminated by RST_STREAM with error code: INTERNAL_ERROR")); got.Kind != rota.KindUnavailable {
			t.Errorf("%v became %s", code, got.Kind)
		}
	}
	if got := FromStatus(ToStatus(&rota.Error{Kind: rota.KindInternal, Text: "disk"})); got.Kind != rota.KindInternal {
		t.Errorf("a node's own fault became %s", got.Kind)
	}
}

func TestFromStatus_ofTheLibrary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		kind  rota.Kind
		cause error
	}{
		"oversize": {status.Error(codes.ResourceExhausted,
			"grpc: received message larger than max (9 vs. 4)"), rota.KindInvalid, nil},
		"connection":   {status.Error(codes.Unavailable, "connection refused"), rota.KindUnavailable, nil},
		"old server":   {status.Error(codes.Unimplemented, "unknown method"), rota.KindInvalid, nil},
		"own deadline": {context.DeadlineExceeded, rota.KindTimeout, context.DeadlineExceeded},
		"grpc deadline": {status.FromContextError(context.DeadlineExceeded).Err(), rota.KindTimeout,
			context.DeadlineExceeded},
		"own cancel":     {status.FromContextError(context.Canceled).Err(), rota.KindTimeout, context.Canceled},
		"stream reset":   {status.Error(codes.Canceled, "RST_STREAM"), rota.KindUnavailable, nil},
		"stranger":       {errors.New("what"), rota.KindInternal, nil},
		"already ours":   {rota.Refusef(rota.KindMode, "", "x"), rota.KindMode, nil},
		"no credentials": {status.Error(codes.Unauthenticated, "who"), rota.KindUnauthenticated, nil},
	} {
		got := FromStatus(c.err)
		if got.Kind != c.kind || (c.cause != nil && !errors.Is(got, c.cause)) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := FromStatus(ToStatus(&rota.Error{Kind: rota.KindExhausted,
		RetryAfter: 1500 * time.Microsecond})); got.RetryAfter != 1500*time.Microsecond {
		t.Errorf("delay is %v", got.RetryAfter)
	}
}
