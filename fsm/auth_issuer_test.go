package fsm

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

const idp = "https://idp.example"

func issuerOp(url string, maps ...*fsmpb.ClaimRole) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetIssuer{SetIssuer: &fsmpb.SetIssuer{Url: url, Audience: "rota", Maps: maps}}}
}

func mapTo(claim, value, role string) *fsmpb.ClaimRole {
	return &fsmpb.ClaimRole{Claim: claim, Value: value, Role: role}
}

func noIssuerOp(url string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteIssuer{DeleteIssuer: &fsmpb.DeleteIssuer{Url: url}}}
}

// exchangeOp exchanges an identity token, named by a byte, for an access token named by a letter.
func (b *bench) exchangeOp(jwt byte, letter string, change ...func(*fsmpb.Exchange)) *fsmpb.Op {
	x := &fsmpb.Exchange{Issuer: idp, Audience: "rota", Subject: "ann", Claim: "sub", Value: "ann",
		Role: access.RoleReader, JwtHash: make([]byte, 32),
		UntilMs: int64(b.Header.Date()) + 600_000, Id: tokenWish(letter, "x").GetId(), Hash: make([]byte, 32)}
	x.JwtHash[0], x.Hash[0] = jwt, letter[0]
	for _, f := range change {
		f(x)
	}
	return by(rota.Anonymous, &fsmpb.Op{Op: &fsmpb.Op_Exchange{Exchange: x}})
}

func TestExchange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindUnauthenticated, "issuer", b.exchangeOp(1, "a"))
	b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleReader), mapTo("repo", "acme/*", access.RoleSubmitter)))
	until := b.Header.Date() + 600_000
	first := b.exchangeOp(1, "a")
	if a := b.entry(first); len(a.Events) != 1 || a.Events[0].Payload != fmt.Sprintf(
		`{"what":"token","name":%q,"roles":["reader"],"expires_ms":%d,"by":"oidc:%s/ann"}`,
		first.GetExchange().GetId(), until, idp) {
		t.Fatalf("%+v %+v", a.Outcomes, a.Events)
	}
	made, ok := b.View.Access().Token(first.GetExchange().GetId())
	if !ok || made.By != "oidc:https://idp.example/ann" || made.Expires != until || len(made.Roles) != 1 ||
		made.Roles[0] != access.RoleReader {
		t.Errorf("%+v", made)
	}
	if o := b.ok(first); !o.GetExisted() { // the first answer was lost
		t.Errorf("again: %v", o)
	}
	b.refuses(rota.KindUnauthenticated, "jwt", b.exchangeOp(1, "b"))
	b.refuses(rota.KindConflict, "token", b.exchangeOp(2, "a"))
	b.ok(b.exchangeOp(2, "b", func(x *fsmpb.Exchange) {
		x.Claim, x.Value, x.Role = "repo", "acme/site", access.RoleSubmitter
	}))
	long := b.exchangeOp(3, "c", func(x *fsmpb.Exchange) { x.UntilMs = int64(b.Header.Date()) + 20*3_600_000 })
	b.ok(long)
	if made, _ := b.View.Access().Token(long.GetExchange().GetId()); made.Expires > b.Header.Date()+3_600_000 {
		t.Errorf("it counts until %s", made.Expires)
	}
	for name, c := range map[string]struct {
		kind    rota.Kind
		subject string
		change  func(*fsmpb.Exchange)
	}{
		"another issuer": {rota.KindUnauthenticated, "issuer",
			func(x *fsmpb.Exchange) { x.Issuer = "https://evil.example" }},
		"another audience": {rota.KindUnauthenticated, "issuer", func(x *fsmpb.Exchange) { x.Audience = "else" }},
		"another claim":    {rota.KindUnauthenticated, "claim", func(x *fsmpb.Exchange) { x.Claim = "email" }},
		"another value":    {rota.KindUnauthenticated, "claim", func(x *fsmpb.Exchange) { x.Value = "anna" }},
		"another role":     {rota.KindUnauthenticated, "claim", func(x *fsmpb.Exchange) { x.Role = access.RoleRoot }},
		"it is over": {rota.KindUnauthenticated, "jwt",
			func(x *fsmpb.Exchange) { x.UntilMs = int64(b.Header.Date()) }},
		"it never ends": {rota.KindUnauthenticated, "jwt", func(x *fsmpb.Exchange) { x.UntilMs = 1 << 45 }},
		"no hash":       {rota.KindInvalid, "hash", func(x *fsmpb.Exchange) { x.Hash = nil }},
		"no JWT's hash": {rota.KindInvalid, "hash", func(x *fsmpb.Exchange) { x.JwtHash = x.JwtHash[1:] }},
		"no subject":    {rota.KindInvalid, "subject", func(x *fsmpb.Exchange) { x.Subject = "" }},
		"no URL":        {rota.KindInvalid, "issuer", func(x *fsmpb.Exchange) { x.Issuer = "http://idp.example" }},
		"no id":         {rota.KindInvalid, "token", func(x *fsmpb.Exchange) { x.Id = "a" }},
	} {
		t.Log(name)
		b.refuses(c.kind, c.subject, b.exchangeOp(4, "d", c.change))
	}
	// The mapping is deleted between a node's check and the entry.
	late := b.exchangeOp(4, "d")
	b.ok(issuerOp(idp, mapTo("sub", "bob", access.RoleReader)))
	b.refuses(rota.KindUnauthenticated, "claim", late)
	b.ok(noIssuerOp(idp))
	b.refuses(rota.KindUnauthenticated, "issuer", late)
	// A revoked token does not come back, nor an expired one, while its identity token is valid.
	b.ok(revokeOp("a"))
	b.refuses(rota.KindUnauthenticated, "jwt", first)
	b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleReader)))
	again := proto.Clone(long).(*fsmpb.Op)
	b.tomorrow(2 * 3_600_000)
	if _, ok := b.View.Access().Token(long.GetExchange().GetId()); ok {
		t.Error("it counts for more than an hour")
	}
	b.refuses(rota.KindUnauthenticated, "jwt", again)
	if n := b.access.Spent.Len(); n != 1 {
		t.Errorf("%d identity tokens are remembered", n)
	}
	b.tomorrow(24 * 3_600_000)
	if n := b.access.Spent.Len(); n != 0 {
		t.Errorf("%d identity tokens are remembered after their end", n)
	}
	b.sound()
}

// tomorrow moves the date forward, and sweeps.
func (b *bench) tomorrow(ms int64) {
	b.t.Helper()
	b.stamped(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), WallMs: []int64{int64(b.Header.Date()) + ms},
		Ops: []*fsmpb.Op{sweepOp()}}, b.term)
}

// TestIssuers checks that a principal cannot set an issuer that grants more than its own rights, nor change or delete
// one that does.
func TestIssuers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(roleOp("few", rota.Grant{Right: rota.RightAuth, Tenant: "*", Queue: "*"},
		rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "*"}))
	b.ok(roleOp("reads", rota.Grant{Right: rota.RightRead, Tenant: "a*", Queue: "*"}))
	b.ok(tokenOp(tokenWish("f", "few")))
	few := actorNamed("f")
	b.refuses(rota.KindDenied, "issuer", by(few, issuerOp(idp, mapTo("sub", "ann", access.RoleRoot))))
	b.refuses(rota.KindDenied, "issuer", by(few, issuerOp(idp, mapTo("sub", "ann", "reads"),
		mapTo("sub", "bob", access.RoleSubmitter))))
	b.ok(by(few, issuerOp(idp, mapTo("sub", "ann", "reads"))))
	if o := b.ok(by(few, issuerOp(idp, mapTo("sub", "ann", "reads")))); !o.GetExisted() {
		t.Errorf("again: %v", o)
	}
	b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleRoot)))
	b.refuses(rota.KindDenied, "issuer", by(few, issuerOp(idp, mapTo("sub", "ann", "reads"))))
	b.refuses(rota.KindDenied, "issuer", by(few, noIssuerOp(idp)))
	b.refuses(rota.KindNotFound, "role", issuerOp(idp, mapTo("sub", "ann", "nobodys")))
	b.refuses(rota.KindNotFound, "issuer", noIssuerOp("https://else.example"))
	for _, m := range []*fsmpb.ClaimRole{mapTo("", "x", "reads"), mapTo("sub", "", "reads"), mapTo("sub", "*", "reads"),
		mapTo("sub", "a*b", "reads"),
		mapTo("sub", "a b", "reads"), mapTo("sub", "x", "no id")} {
		subject := "maps"
		if m.GetRole() != "reads" {
			subject = "role"
		}
		b.refuses(rota.KindInvalid, subject, issuerOp(idp, m))
	}
	for _, url := range []string{"", "http://idp.example", "https://", "https:///x", "https://u@idp.example",
		"https://idp.example?x", "https://idp.example#x", "https://idp example"} {
		b.refuses(rota.KindInvalid, "issuer", issuerOp(url, mapTo("sub", "x", "reads")))
	}
	b.refuses(rota.KindInvalid, "maps", issuerOp(idp))
	for i := range limits.MaxIssuers - 1 {
		b.ok(issuerOp(fmt.Sprintf("%s/%d", idp, i), mapTo("sub", "x", "reads")))
	}
	b.refuses(rota.KindExhausted, "issuer", issuerOp(idp+"/more", mapTo("sub", "x", "reads")))
	b.ok(noIssuerOp(idp))
	b.ok(issuerOp(idp+"/more", mapTo("sub", "x", "reads")))
	if all := b.View.Access().Issuers(); len(all) != limits.MaxIssuers {
		t.Errorf("%d issuers", len(all))
	}
	b.sound()
}
