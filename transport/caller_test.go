package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// rightsTable is a table of rights for tests: the rights of principals, by name.
type rightsTable struct {
	mu     sync.Mutex
	rights map[rota.Principal]access.Rights
	hash   map[string][32]byte
	issuer rota.Issuer
}

func (r *rightsTable) Prove(c access.Credential, _ rota.Date) (rota.Principal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hash, ok := r.hash[c.ID]; ok && c.Proves(hash) {
		return rota.TokenPrincipal(c.ID), nil
	}
	return "", rota.Refusef(rota.KindUnauthenticated, "credential", "the credential does not count")
}

func (r *rightsTable) Rights(p rota.Principal, _ rota.Date) (*access.Rights, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rights, ok := r.rights[p]; ok {
		return &rights, nil
	}
	if p == rota.Anonymous {
		return &access.Rights{}, nil
	}
	return nil, rota.Refusef(rota.KindUnauthenticated, "credential", "the credential does not count")
}

func (r *rightsTable) Token(id string) (rota.AccessToken, bool) {
	return rota.AccessToken{ID: id, By: rota.Local}, true
}

func (r *rightsTable) Issuer(url string) (rota.Issuer, bool) { return r.issuer, url == r.issuer.URL }

// give sets a principal's rights; with none its credential becomes invalid.
func (r *rightsTable) give(p rota.Principal, rights ...rota.Right) {
	grants := make([]rota.Grant, len(rights))
	for i, right := range rights {
		grants[i] = rota.Grant{Right: right, Tenant: access.Everything, Queue: access.Everything}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rights == nil {
		r.rights = make(map[rota.Principal]access.Rights)
	}
	if r.rights[p] = access.NewRights([]rota.Role{{Grants: grants}}, nil, nil); rights == nil {
		delete(r.rights, p)
	}
}

// holder returns a table with one token, and a context with its header.
func holder(rights ...rota.Right) (*rightsTable, rota.Principal, context.Context) {
	c := access.CredentialOf([40]byte{7})
	table, p := &rightsTable{hash: map[string][32]byte{c.ID: c.Hash()}}, rota.TokenPrincipal(c.ID)
	table.give(p, rights...)
	return table, p, bearing(c.Secret())
}

func bearing(tokens ...string) context.Context {
	ctx := context.Background()
	for _, token := range tokens {
		ctx = metadata.AppendToOutgoingContext(ctx, tokenHeader, tokenScheme+token)
	}
	return ctx
}

// TestCaller checks that an operation records its caller, the interface, and the caller's id of the call or one of the
// node's own.
func TestCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	table, who, ctx := holder(rota.RightControl)
	b.core.setTable(table)
	callers := make(chan access.Caller, 1)
	b.core.outcomes = func(ctx context.Context, _ []rota.JobID) ([]rota.JobOutcome, error) {
		c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
		callers <- c
		return []rota.JobOutcome{{}}, nil
	}
	of := func(ids ...string) access.Caller {
		for _, id := range ids {
			ctx := metadata.AppendToOutgoingContext(ctx, requestHeader, id)
			if _, err := b.jobs.Cancel(ctx, &rotav1.CancelJobsRequest{Ids: []string{"j1"}}); err != nil {
				t.Fatal(err)
			}
		}
		return <-callers
	}
	if c := of("r1"); c != (access.Caller{Actor: who, Via: "n1/grpc", Request: "r1"}) || c.Check() != nil {
		t.Errorf("%+v", c)
	}
	one, two := of("no id at all"), of("nor this")
	if one.Request == two.Request || one.Check() != nil || two.Check() != nil || len(two.Request) != 26 {
		t.Errorf("%+v %+v", one, two)
	}
}

// TestCredentials is the table of credentials that a caller may present, and the resulting caller.
func TestCredentials(t *testing.T) {
	t.Parallel()
	table, who, _ := holder(rota.RightStatus)
	s := &Server{options: Options{Self: "n1", Core: coreWith(table), TLS: &tls.Config{}}}
	token := tokenScheme + access.CredentialOf([40]byte{7}).Secret()
	other := tokenScheme + access.CredentialOf([40]byte{8}).Secret()
	for name, c := range map[string]struct {
		shown  edgeInfo
		header []string
		want   rota.Principal
	}{
		"nothing": {edgeInfo{}, nil, rota.Anonymous},
		"a token": {edgeInfo{}, []string{token}, who},
		"a scheme in lower case": {edgeInfo{}, []string{strings.ToLower(tokenScheme) + strings.TrimPrefix(token,
			tokenScheme)},
			who}, "a client's certificate": {edgeInfo{client: "cert:reader/ann"}, nil, "cert:reader/ann"},
		"a node's certificate":       {edgeInfo{node: "n2"}, nil, rota.Anonymous},
		"a node's, and a token":      {edgeInfo{node: "n2"}, []string{token}, who},
		"a certificate and a token":  {edgeInfo{client: "cert:reader/ann"}, []string{token}, ""},
		"the node's socket":          {edgeInfo{local: true}, nil, rota.Local},
		"the socket and a token":     {edgeInfo{local: true}, []string{token}, ""},
		"two tokens":                 {edgeInfo{}, []string{token, token}, ""},
		"an unknown token":           {edgeInfo{}, []string{other}, ""},
		"no scheme":                  {edgeInfo{}, []string{strings.TrimPrefix(token, tokenScheme)}, ""},
		"another scheme":             {edgeInfo{}, []string{"Basic cm9vdDo="}, ""},
		"an empty header":            {edgeInfo{}, []string{""}, ""},
		"the id with another secret": {edgeInfo{}, []string{token[:len(token)-1] + "b"}, ""},
	} {
		header := metadata.MD{}
		header.Set(tokenHeader, c.header...)
		got, err := s.authenticate(&c.shown, header)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, rota.ErrUnauthenticated) {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), strings.TrimPrefix(token, tokenScheme)[18:]) {
			t.Errorf("%s: the refusal quotes a secret: %v", name, err)
		}
	}
}

// TestDoor_lags checks that a node that may lag behind gives a final refusal only to calls that no table could admit;
// otherwise it serves from what it has.
func TestDoor_lags(t *testing.T) {
	t.Parallel()
	table, _, _ := holder(rota.RightStatus)
	core := coreWith(table)
	s := &Server{options: Options{Self: "n1", Core: core}}
	known, unknown := tokenScheme+access.CredentialOf([40]byte{7}).Secret(), tokenScheme+access.CredentialOf(
		[40]byte{8}).Secret()
	status, mode := need{right: rota.RightStatus}, need{right: rota.RightOperate}
	for name, c := range map[string]struct {
		need      need
		header    metadata.MD
		now, then rota.Kind // while the node lags, and once it does not
	}{
		"a token that it knows": {status, metadata.Pairs(tokenHeader, known), rota.KindNone, rota.KindNone},
		"a token that it may lack": {status, metadata.Pairs(tokenHeader, unknown), rota.KindUnavailable,
			rota.KindUnauthenticated},
		"a right that it may lack": {mode, metadata.Pairs(tokenHeader, known), rota.KindUnavailable, rota.KindDenied},
		"no credential":            {mode, nil, rota.KindUnavailable, rota.KindUnauthenticated},
		"an invalid token": {status, metadata.Pairs(tokenHeader, tokenScheme+"x"), rota.KindUnauthenticated,
			rota.KindUnauthenticated},
		"two credentials": {status, metadata.Pairs(tokenHeader, known, tokenHeader, known),
			rota.KindUnauthenticated, rota.KindUnauthenticated},
	} {
		for lags, want := range map[bool]rota.Kind{true: c.now, false: c.then} {
			core.lags.Store(lags)
			_, err := s.admit(c.need, nil, &edgeInfo{}, c.header, "grpc")
			if rota.KindOf(err) != want {
				t.Errorf("%s, lagging %t: got %v, want %s", name, lags, err, want)
			}
			if want == rota.KindUnavailable && !strings.Contains(err.Error(), "ask another node") {
				t.Errorf("%s: the refusal lacks a remedy: %v", name, err)
			}
		}
	}
}

// TestDoor checks over a real connection, before the message is read, that each call passes with exactly the right in
// the table.
func TestDoor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		for method, need := range methods {
			if need.anybody || need.members || need.known || strings.HasPrefix(method, "GET ") {
				continue
			}
			for right := rota.RightSubmit; right <= rota.RightDebug; right++ {
				table, _, _ := holder(right)
				s := &Server{options: Options{Self: "n1", Core: coreWith(table)}}
				header := metadata.Pairs(tokenHeader, tokenScheme+access.CredentialOf([40]byte{7}).Secret())
				_, err := s.admit(need, nil, &edgeInfo{}, header, "grpc")
				if (err == nil) != (right == need.right || right == need.also) || err != nil &&
					!errors.Is(err, rota.ErrDenied) {
					t.Errorf("%s with the right to %s: %v; it takes %s", method, right, err, need.right)
				}
			}
			table, _, ctx := holder()
			b.core.setTable(table)
			for name, c := range map[string]struct {
				ctx  context.Context
				want codes.Code
			}{
				"no credential":         {context.Background(), codes.Unauthenticated},
				"one that counts not":   {bearing(access.CredentialOf([40]byte{9}).Secret()), codes.Unauthenticated},
				"one without the right": {ctx, codes.Unauthenticated},
			} {
				stream, err := b.conn.NewStream(c.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
					method)
				if err == nil {
					err = stream.RecvMsg(&rotav1.GetJobResponse{}) // nothing was sent
				}
				if status.Code(err) != c.want {
					t.Errorf("%s with %s: %v", method, name, err)
				}
			}
		}
	})
}

// TestStreamsAreJudgedAnew checks that a caller that loses its right is cut off from an open stream, with the reason.
func TestStreamsAreJudgedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		table, who, ctx := holder(rota.RightRead, rota.RightAudit, rota.RightData)
		b.core.setTable(table)
		b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
			if err := send(peer.EventBatch{Events: []rota.ServedEvent{{Event: rota.Event{Job: "j1",
				Tenant: "acme"}}}}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		stream, err := rotav1.NewEventsClient(b.conn).Tail(ctx, &rotav1.TailRequest{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		table.give(who) // revoked
		if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
			t.Errorf("after a revocation: %v", err)
		}
		t.Logf("cut off after %v", time.Since(began))
	})
}

// TestWebDoor checks that events over WebSocket accept the same credentials, and that refusals use HTTP's form.
func TestWebDoor(t *testing.T) {
	t.Parallel()
	table, who, _ := holder(rota.RightRead)
	b := setup(t)
	b.core.setTable(table)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.lis.DialContext(ctx) }}}
	ask := func(token string) int {
		req, err := http.NewRequest(http.MethodGet, "http://localhost"+eventsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", tokenScheme+token)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	own := access.CredentialOf([40]byte{7}).Secret()
	if code := ask(""); code != http.StatusUnauthorized {
		t.Errorf("without a credential: %d", code)
	}
	if code := ask(access.CredentialOf([40]byte{8}).Secret()); code != http.StatusUnauthorized {
		t.Errorf("with an unknown one: %d", code)
	}
	if code := ask(own); code != http.StatusOK {
		t.Errorf("with one that counts: %d", code)
	}
	table.give(who, rota.RightStatus)
	if code := ask(own); code != http.StatusForbidden {
		t.Errorf("with one without the right: %d", code)
	}
}
