package transport

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// requestHeader is the metadata by which a caller names its call.
const requestHeader = "rota-request-id"

var requestLetters = base32.StdEncoding.WithPadding(base32.NoPadding)

// withCaller returns a public call's context with who called, by which door, and the id of
// the call: its caller's, where that is an id, or one made up here.
func (s *Server) withCaller(ctx context.Context, method string) context.Context {
	if ofNodes(method) {
		return ctx
	}
	c := access.Caller{Actor: rota.Anonymous, Via: string(s.options.Self) + "/grpc"}
	if given := metadata.ValueFromIncomingContext(ctx, requestHeader); len(given) == 1 && rota.ValidID(given[0]) {
		c.Request = given[0]
	} else {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		c.Request = strings.ToLower(requestLetters.EncodeToString(b[:]))
	}
	return context.WithValue(ctx, access.CallerKey{}, c)
}
