package transport

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// sessionsTable has one valid session, and one valid token.
type sessionsTable struct {
	everything
	session, token access.Credential
	ended, away    bool
}

func (s *sessionsTable) Prove(c access.Credential, _ rota.Date) (rota.Principal, error) {
	switch {
	case s.away:
		return "", &rota.Error{Kind: rota.KindUnavailable, Subject: "cluster", Text: "the rights are unknown"}
	case c == s.session && !s.ended:
		return rota.SessionPrincipal(c.ID, rota.TokenPrincipal(s.token.ID)), nil
	case c == s.token:
		return rota.TokenPrincipal(c.ID), nil
	}
	return "", rota.Refusef(rota.KindUnauthenticated, "credential", "the credential does not count")
}

func (s *sessionsTable) Token(id string) (rota.AccessToken, bool) {
	return rota.AccessToken{ID: id, Expires: 1 << 50}, true
}

// TestUISession checks that the cookie is set only for a session over TLS, and counts only at this one path and for the
// console's own page. Any other request is rejected, and a session that was signed out is invalid.
func TestUISession(t *testing.T) {
	t.Parallel()
	ui := func(w http.ResponseWriter, _ *http.Request, _ []string) { _, _ = w.Write([]byte("page")) }
	const origin = "https://rota.example"
	table := &sessionsTable{session: access.CredentialOf([40]byte{1}), token: access.CredentialOf([40]byte{2})}
	b := setup(t, func(o *Options) { o.Console, o.Hosts.UI = ui, origin })
	b.core.tables = table
	p := webOf(t, b)
	bearer, root := "Bearer "+table.session.Secret(), "Bearer "+table.token.Secret()
	cookie := sessionCookie + "=" + table.session.Secret()
	for name, c := range map[string]struct {
		method string
		header []string
		want   int
	}{
		"a foreign origin":           {"POST", []string{"Origin", "https://evil.example", "Cookie", cookie}, 403},
		"a cookie without an origin": {"POST", []string{"Cookie", cookie}, 403},
		"no origin of a page":        {"POST", []string{"Origin", "null", "Cookie", cookie}, 403},
		"another port":               {"POST", []string{"Origin", origin + ":8443", "Cookie", cookie}, 403},
		"another site": {"POST", []string{"Origin", origin, "Sec-Fetch-Site", "cross-site", "Cookie", cookie},
			403},
		"the origin in clear text":       {"POST", []string{"Origin", "http://rota.example", "Cookie", cookie}, 403},
		"sign-out by a foreign page":     {"DELETE", []string{"Origin", "https://evil.example", "Cookie", cookie}, 403},
		"sign-out without an origin":     {"DELETE", []string{"Cookie", cookie}, 403},
		"a token that is not a session":  {"POST", []string{"Origin", origin, "Authorization", root}, 403},
		"an unknown credential":          {"POST", []string{"Origin", origin, "Authorization", "Bearer rota_x"}, 401},
		"two cookies":                    {"POST", []string{"Origin", origin, "Cookie", cookie + "; " + cookie}, 401},
		"read":                           {"GET", []string{"Cookie", cookie}, 405},
		"a session as bearer":            {"POST", []string{"Origin", origin, "Authorization", bearer}, 200},
		"the cookie alone, on this path": {"POST", []string{"Origin", origin, "Cookie", cookie}, 200},
	} {
		answer, text := p.call(c.method, "/ui/session", "", c.header...)
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
		if c.want != 200 && (len(answer.Cookies()) > 0 || strings.Contains(text, table.session.Secret())) {
			t.Errorf("%s: %q, with cookies %v", name, text, answer.Cookies())
		}
	}
	if len(b.core.ended) > 0 {
		t.Errorf("a stranger's page signed out %v", b.core.ended)
	}
	answer, _ := p.call("POST", "/ui/session", "", "Origin", origin, "Authorization", bearer)
	set := answer.Cookies()
	if len(set) != 1 || set[0].Name != "__Host-rota-ui" || !set[0].Secure || !set[0].HttpOnly ||
		set[0].SameSite != http.SameSiteStrictMode ||
		set[0].Path != "/" || set[0].Domain != "" || set[0].MaxAge < 1 {
		t.Fatalf("the cookies are %v", set)
	}
	if answer, text := p.call("POST", "/ui/session", "", "Origin", "http://"+p.host, "Authorization",
		bearer); len(answer.Cookies()) > 0 || answer.StatusCode != 200 {
		t.Errorf("in clear text: %d %s, cookies %v", answer.StatusCode, text, answer.Cookies())
	}
	kept := func() (got uiSession) {
		t.Helper()
		_, text := p.call("POST", "/ui/session", "", "Origin", origin, "Cookie", cookie)
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(text, err)
		}
		return got
	}
	if got := kept(); got.Token != table.session.Secret() {
		t.Errorf("after a reload: %+v", got)
	}
	table.away = true // a reload at a node without a table keeps the cookie; a sign-out there fails
	if answer, _ := p.call("POST", "/ui/session", "", "Origin", origin, "Cookie", cookie); answer.StatusCode != 503 ||
		len(answer.Cookies()) > 0 {
		t.Errorf("at a node without rights: %d, cookies %v", answer.StatusCode, answer.Cookies())
	}
	if answer, _ := p.call("DELETE", "/ui/session", "", "Origin", origin, "Cookie", cookie); answer.StatusCode != 503 ||
		len(b.core.ended) > 0 {
		t.Errorf("signed out at a node without rights: %d, ended %v", answer.StatusCode, b.core.ended)
	}
	table.away = false
	if answer, _ := p.call("DELETE", "/ui/session", "", "Origin", origin, "Cookie", cookie); answer.StatusCode != 200 ||
		answer.Cookies()[0].MaxAge >= 0 {
		t.Errorf("signed out: %d, cookies %v", answer.StatusCode, answer.Cookies())
	}
	if len(b.core.ended) != 1 || b.core.ended[0] != table.session.ID {
		t.Errorf("ended: %v", b.core.ended)
	}
	table.ended = true
	if got := kept(); got != (uiSession{Alone: true}) {
		t.Errorf("the cookie of a session that has ended gives %+v", got)
	}
}
