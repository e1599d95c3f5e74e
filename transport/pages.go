package transport

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// pageBytes is the maximum size of a page of a list, except for a single row.
	pageBytes = 1 << 20
	// wholeBytes is the maximum size of a list without pages: gRPC clients accept 4 MiB by default.
	wholeBytes = 3 << 20
	// rowBytes is the overhead of a row: tag and length.
	rowBytes = 8
	// maxCursorBytes bounds the cursor that a client sends back.
	maxCursorBytes = 1 << 10
)

// reply converts the core's answer to its protocol message, or returns its error.
func reply[T, M any](toWire func(*T) *M) func(T, error) (*M, error) {
	return func(v T, err error) (*M, error) {
		if err != nil {
			return nil, err
		}
		return toWire(&v), nil
	}
}

// ifMatch returns the context of a call that changes one version only; "" means any.
func ifMatch(ctx context.Context, version string) (context.Context, error) {
	if version == "" {
		return ctx, nil
	}
	return context.WithValue(ctx, access.VersionKey{}, version), access.CheckVersion(version)
}

// listRequest requests a list, whole or in pages.
type listRequest interface {
	GetRead() *rotav1.Read
	GetLimit() int32
	GetCursor() string
}

// wholeList returns a list that the core reads whole.
func wholeList[T any, M proto.Message](ctx context.Context, req listRequest,
	read func(context.Context, peer.ReadOptions) ([]T, rota.ReadAt, error), key func(*T) string, toWire func(*T) M,
) (rows []M, at *rotav1.ReadAt, next string, err error) {
	if err := checkLimit(req.GetLimit(), req.GetCursor()); err != nil {
		return nil, nil, "", err
	}
	all, seen, err := read(ctx, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, nil, "", err
	}
	rows, next, err = cutPage(all, key, req.GetLimit(), req.GetCursor(), toWire)
	return rows, words.ReadAtToWire(seen), next, err
}

// principalOf parses the principal that filters a list; an empty one does not filter.
func principalOf(text string) (rota.Principal, error) {
	p := rota.Principal(text)
	if p == "" {
		return p, nil
	}
	if err := access.CheckPrincipal(p); err != nil {
		e := *rota.ErrorOf(err)
		e.Subject = "by"
		return p, &e
	}
	return p, nil
}

// madeBy filters a list that the core reads whole by the principal that created or changed it last.
func madeBy[T any](by string, of func(*T) rota.Principal,
	read func(context.Context, peer.ReadOptions) ([]T, rota.ReadAt,
		error)) func(context.Context, peer.ReadOptions) ([]T, rota.ReadAt, error) {
	if by == "" {
		return read
	}
	return func(ctx context.Context, opt peer.ReadOptions) ([]T, rota.ReadAt, error) {
		who, err := principalOf(by)
		if err != nil {
			return nil, rota.ReadAt{}, err
		}
		all, at, err := read(ctx, opt)
		return slices.DeleteFunc(all, func(x T) bool { return of(&x) != who }), at, err
	}
}

// onePage returns a page of a list whose cursors only the core can make: a page of too many bytes is read again with a
// limit that fits.
func onePage[P any, M proto.Message](limit *int, rows func(*P) []M, read func() (*P, error)) (*P, error) {
	for {
		page, err := read()
		if err != nil {
			return nil, err
		}
		fit := fitting(rows(page), pageBytes)
		if fit == len(rows(page)) {
			return page, nil
		}
		*limit = fit
	}
}

// fitting returns how many of the first rows fit the given bytes, at least one, as otherwise paging could not get past
// that row.
func fitting[M proto.Message](rows []M, most int) int {
	size := 0
	for i, row := range rows {
		if size += proto.Size(row) + rowBytes; size > most && i > 0 {
			return i
		}
	}
	return len(rows)
}

// checkLimit rejects a limit above the maximum page; 0 means the caller's default.
func checkLimit(limit int32, cursor string) error {
	if limit < 0 || limit > limits.MaxPage {
		return rota.Refusef(rota.KindInvalid, "limit", "limit must be between 0 and %d, got %d", limits.MaxPage, limit)
	}
	if len(cursor) > maxCursorBytes {
		return rota.Refusef(rota.KindInvalid, "cursor",
			"cursor too long: got %d bytes, maximum %d; use the next_cursor "+
				"of the previous page", len(cursor), maxCursorBytes)
	}
	return nil
}

// cutPage cuts one page out of a whole list, in the order of its keys; the cursor is the last key of the previous page.
// Limit 0 requests the whole list, which is rejected if it is too long for one answer.
func cutPage[W any, M proto.Message](all []W, key func(*W) string, limit int32, cursor string,
	toWire func(*W) M) (rows []M, next string, err error) {
	order := func(a, b W) int { return strings.Compare(key(&a), key(&b)) }
	if !slices.IsSortedFunc(all, order) {
		all = slices.SortedFunc(slices.Values(all), order)
	}
	first := 0
	if cursor != "" {
		at, found := slices.BinarySearchFunc(all, cursor, func(w W,
			c string) int {
			return strings.Compare(key(&w), c)
		})
		if first = at; found {
			first++
		}
	}
	last := len(all)
	if limit > 0 {
		last = min(last, first+int(limit))
	}
	rows = make([]M, 0, last-first)
	size, most := 0, pageBytes
	if limit == 0 {
		most = wholeBytes
	}
	for i := first; i < last; i++ {
		row := toWire(&all[i])
		if size += proto.Size(row) + rowBytes; size > most && i > first {
			if limit == 0 {
				return nil, "", rota.Refusef(rota.KindInvalid, "limit", "the list has more than %d bytes: read it in "+
					"pages, with limit and cursor", wholeBytes)
			}
			last = i
			break
		}
		rows = append(rows, row)
	}
	if last < len(all) && last > first {
		next = key(&all[last-1])
	}
	return rows, next, nil
}
