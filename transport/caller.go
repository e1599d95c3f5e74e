package transport

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	link "google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
)

const (
	// requestHeader is the metadata in which a caller names its call.
	requestHeader = "rota-request-id"
	// tokenHeader carries the caller's token, after tokenScheme in any case (RFC 9110 §11.1).
	tokenHeader = "authorization"
	tokenScheme = "Bearer "
)

// bearer returns the text after the scheme in a header named tokenHeader.
func bearer(given string) (string, error) {
	if n := len(tokenScheme); len(given) >= n && strings.EqualFold(given[:n], tokenScheme) {
		return given[n:], nil
	}
	return "", rota.Refusef(rota.KindUnauthenticated, "credential",
		"the header authorization must have the form Bearer rota_ID_SECRET")
}

var requestLetters = base32.StdEncoding.WithPadding(base32.NoPadding)

// pass is the result of admitting a call.
type pass struct {
	need   need
	caller access.Caller
	// node is the calling node by its certificate.
	node   rota.NodeID
	rights *access.Rights
	// table is the table of rights under which the call was checked.
	table access.Table
	knock *knock
	// flight counts the messages of the call's connection; nil for a node's.
	flight *inflightConn
}

// passKey is the context key for the call's *pass.
type passKey struct{}

// tap checks a call by its header, before any byte of its message is read (SECURITY §5.1).
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	from, _ := link.FromContext(ctx)
	var shown edgeInfo
	if from != nil {
		shown, _ = from.AuthInfo.(edgeInfo)
	}
	need, known := methods[info.FullMethodName]
	if !known {
		return ctx, nil // it has no service, and gets no pass
	}
	k := &knock{server: s, method: info.FullMethodName}
	if from != nil {
		k.peer = from.Addr.String()
	}
	door := "grpc"
	if shown.local {
		door = "socket"
	}
	p, err := s.admit(need, k, &shown, info.Header, door)
	if err != nil {
		return ctx, words.ToStatus(err)
	}
	if !need.anybody {
		shown.seat.keep()
		shown.flight.belongs(p.caller.Actor)
	}
	p.flight = shown.flight
	return context.WithValue(ctx, passKey{}, p), nil
}

// admit authenticates a call, and checks its caller's rights.
func (s *Server) admit(need need, knock *knock, shown *edgeInfo, header metadata.MD, door string) (*pass, error) {
	p := &pass{need: need, knock: knock}
	p.caller = access.Caller{Via: string(s.options.Self) + "/" + door, Request: requestOf(header)}
	if need.anybody {
		p.caller.Actor = rota.Anonymous
		return p, nil
	}
	var err error
	if need.members {
		p.node = shown.node
		err = s.member(shown)
	} else if p.caller.Actor, err = s.authenticate(shown, header); err == nil {
		err = s.premature(s.judge(p))
	}
	if err != nil {
		p.denied(err)
		return nil, err
	}
	return p, nil
}

// premature returns the error to send instead of a refusal by the table of rights, while that table may be stale: a
// refusal is final for callers, but the same credential may count at another node.
func (s *Server) premature(refusal error) error {
	if kind := rota.KindOf(refusal); kind != rota.KindUnauthenticated && kind != rota.KindDenied ||
		s.options.Core.CaughtUp() {
		return refusal
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "credential", RetryAfter: comeBack,
		Text: "node " + string(s.options.Self) +
			" has not caught up with the cluster, so it cannot check the credential: ask another node, or try again"}
}

// member rejects a call between nodes that does not come from a node.
func (s *Server) member(shown *edgeInfo) error {
	switch {
	case shown.local:
		return rota.Refusef(rota.KindDenied, "socket", "calls between nodes are not accepted on a node's socket")
	case s.options.TLS == nil || shown.node != "":
		return nil
	case shown.bad != nil:
		return shown.bad
	}
	return rota.Refusef(rota.KindDenied, "certificate", "calls between nodes need a node certificate, got none")
}

// authenticate returns the caller: by its token, its certificate, the node's socket, or as anonymous. An invalid
// credential is never treated as anonymous, and two credentials are rejected. A node's certificate does not identify a
// client here.
func (s *Server) authenticate(shown *edgeInfo, header metadata.MD) (rota.Principal, error) {
	given := header.Get(tokenHeader)
	switch {
	case shown.stranger != nil:
		return "", shown.stranger
	case len(given) > 1 || len(given) == 1 && (shown.client != "" || shown.local):
		return "", rota.Refusef(rota.KindUnauthenticated, "credential",
			"the call has two credentials: send either a token or a client "+
				"certificate, and neither on the node's socket")
	case shown.local:
		return rota.Local, nil
	case shown.client != "":
		return shown.client, nil
	case len(given) == 0:
		return rota.Anonymous, nil
	}
	text, err := bearer(given[0])
	if err != nil {
		return "", err
	}
	credential, err := access.ParseCredential(text)
	if err != nil {
		return "", err
	}
	table := s.options.Core.Access()
	if table == nil {
		return "", s.noTable()
	}
	who, err := table.Prove(credential, s.today())
	return who, s.premature(err)
}

func (s *Server) noTable() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "cluster", RetryAfter: comeBack,
		Text: "node " + string(s.options.Self) + " has not joined a cluster yet, so it cannot check rights: try again"}
}

// unfounded holds everyone's rights while there is no cluster yet and a node is open.
var unfounded = access.NewRights([]rota.Role{{Grants: []rota.Grant{{Right: rota.RightStatus, Tenant: access.Everything,
	Queue: access.Everything}}}}, nil, nil)

// judge rejects a caller that lacks the right that its call needs, under the current rights.
func (s *Server) judge(p *pass) error {
	p.table = s.options.Core.Access()
	if p.table == nil {
		if !s.options.Open || !unfounded.Some(p.need.right) {
			return s.noTable()
		}
		p.rights = &unfounded
		return nil
	}
	rights, err := s.desk.rights(p.table, p.caller.Actor, s.today())
	if err != nil {
		return err
	}
	p.rights = rights
	if p.need.admits(rights) {
		return nil
	}
	if p.caller.Actor == rota.Anonymous {
		return rota.Refusef(rota.KindUnauthenticated, "credential",
			"the call needs the right to %s, which callers without a credential do not have: "+
				"send a token or a client certificate", p.need.right)
	}
	return rota.Refusef(rota.KindDenied, p.need.right.String(),
		"%s has no right to %s%s: ask for a role that grants it", p.caller.Actor, p.need.right,
		p.need.where())
}

// answerable checks a call again if its answer was made under a newer table of rights: a default read is checked after
// its barrier (SECURITY §5.4).
func (s *Server) answerable(p *pass) error {
	if p.need.anybody || p.need.members || p.need.judged || s.options.Core.Access() == p.table {
		return nil
	}
	return s.judge(p)
}

// passOf returns the pass of a call; it returns an error for a call that was not admitted.
func passOf(ctx context.Context) (*pass, error) {
	if p, ok := ctx.Value(passKey{}).(*pass); ok {
		return p, nil
	}
	return nil, rota.Refusef(rota.KindUnauthenticated, "credential", "the call was not authenticated")
}

// context returns a call's context with its caller, for a client's call.
func (p *pass) context(ctx context.Context) context.Context {
	if p.need.members {
		return ctx
	}
	return context.WithValue(ctx, access.CallerKey{}, p.caller)
}

// requestOf returns the id of a call: the caller's if it is valid, otherwise a random one.
func requestOf(header metadata.MD) string {
	if given := header.Get(requestHeader); len(given) == 1 && rota.ValidID(given[0]) {
		return given[0]
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return strings.ToLower(requestLetters.EncodeToString(b[:]))
}

// today returns the date of this node's own clock: a credential ends by it or by the log's date, whichever comes first
// (SECURITY §5.5).
func (s *Server) today() rota.Date {
	if wall := s.options.Wall; wall != nil {
		return rota.DateOf(wall())
	}
	return rota.DateOf(time.Now())
}

// admitWeb is admit for an HTTP request.
func (s *Server) admitWeb(r *http.Request, method string) (*pass, error) {
	header := metadata.MD{tokenHeader: r.Header.Values(tokenHeader), requestHeader: r.Header.Values(requestHeader)}
	shown, _ := r.Context().Value(shownKey{}).(edgeInfo)
	return s.admit(methods[method], &knock{server: s, method: method, peer: r.RemoteAddr}, &shown, header, "http")
}

// shownKey is the context key for the credentials that a connection has presented.
type shownKey struct{}
