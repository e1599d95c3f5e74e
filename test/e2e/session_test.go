package e2e

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser makes requests as a page of a node's own would.
type browser struct {
	*http.Client
	t *testing.T
}

func newBrowser(t *testing.T) browser {
	t.Helper()
	return browser{&http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, t} //nolint:gosec // the test asks loopback addresses
}

// ask makes a request of a page at one node, and returns the answer.
func (b browser) ask(n *node, method, path, bearer, cookie string,
	body any) (status int, text string, set []*http.Cookie) {
	b.t.Helper()
	var written []byte
	if body != nil {
		var err error
		written, err = json.Marshal(body)
		check(b.t, err)
	}
	req, err := http.NewRequest(method, "https://"+n.API+path, bytes.NewReader(written))
	check(b.t, err)
	req.Header.Set("Origin", "https://"+n.API)
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if cookie != "" {
		req.Header.Set("Cookie", sessionCookie+"="+cookie)
	}
	answer, err := b.Do(req)
	check(b.t, err)
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	check(b.t, err)
	return answer.StatusCode, string(read), answer.Cookies()
}

const sessionCookie = "__Host-rota-ui"

// sum is the hash that a cluster keeps of a credential.
func sum(id, secret string) string {
	hash := sha256.Sum256([]byte("rota|token|" + id + "|" + secret))
	return hex.EncodeToString(hash[:])
}

// claim opens the link of `rota console` at a node, and returns the session's credential.
func (b browser) claim(n *node, link, secret string) (id, session string) {
	b.t.Helper()
	_, code, ok := strings.Cut(strings.TrimSpace(link), "/ui/#code=")
	if !ok {
		b.t.Fatalf("rota console prints %q", link)
	}
	id = strings.Split(code, "_")[1]
	eventually(b.t, 30*time.Second, "the link is answered", func() error { // where a leader was lost, by the next
		if status, text, _ := b.ask(n, "POST", "/v1/sessions/"+id+"/claim", code, "",
			map[string]string{"hash": sum(id, secret)}); status != 200 {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	return id, "rota_" + id + "_" + secret
}

// signIn signs a browser in by a link, keeps the session in a cookie, works with it and signs out.
func (c *nodes) signIn(t *testing.T, ca *authority, token []string, planted canaries) *result {
	t.Helper()
	said := c.rota(t, append(token, "console")...).want(t, 0)
	code := said.stdout[strings.Index(said.stdout, "#code=")+len("#code="):]
	planted["a link's code"] = []byte(strings.Split(strings.TrimSpace(code), "_")[2])
	planted["a session's secret"] = []byte("canarysession234canarysession234canarysession234abcd")
	b := newBrowser(t)
	id, session := b.claim(c.all[0], said.stdout, string(planted["a session's secret"]))
	status, text, set := b.ask(c.all[0], "POST", "/ui/session", session, "", nil)
	if status != 200 || len(set) != 1 || set[0].Value != session {
		t.Fatalf("the session is not kept: %d %s %v", status, text, set)
	}
	shown := c.rota(t, "queue", "list", "--tls-ca", ca.file, "--token-file",
		writeFile(t, filepath.Join(t.TempDir(), "session"), session)).want(t, 0)
	if status, text, _ := b.ask(c.all[1], "DELETE", "/v1/sessions/"+id, session, "", nil); status != 200 {
		t.Fatalf("the session is not signed out: %d %s", status, text)
	}
	return shown // the output of the command is the link itself
}

// TestSession_leaderKilled: a link that was made before the leader was killed signs in afterwards, at another node,
// once; the session continues at all nodes, and ends at all with its token's revocation.
func TestSession_leaderKilled(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := &nodes{t: t}
	for _, id := range []string{"n1", "n2", "n3"} {
		c.all = append(c.all, newNode(t, id, append(ca.flags(t, id), "--client-ca", ca.file, "--bootstrap-expect",
			"3")...))
	}
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	root := ca.client(t, "root", "ann")
	made := strings.TrimSpace(c.rota(t, append(root, "auth", "token", "create", "--role", "operator", "--expires",
		"1h")...).want(t, 0).stdout)
	token := []string{"--tls-ca", ca.file, "--token-file", writeFile(t, filepath.Join(t.TempDir(), "token"), made)}
	link := c.rota(t, append(token, "console")...).want(t, 0).stdout

	b := newBrowser(t)
	_, text, _ := b.ask(c.all[0], "GET", "/v1/cluster", made, "", nil)
	var at struct{ Leader string }
	check(t, json.Unmarshal([]byte(text), &at))
	leader := c.byID(at.Leader)
	leader.Kill()
	var alive []*node
	for _, n := range c.all {
		if n != leader {
			alive = append(alive, n)
		}
	}
	secret := strings.Repeat("abcd2345", 6) + "abcd"
	id, session := b.claim(alive[0], link, secret)
	_, code, _ := strings.Cut(strings.TrimSpace(link), "#code=")
	if status, text, _ := b.ask(alive[1], "POST", "/v1/sessions/"+id+"/claim", code, "",
		map[string]string{"hash": sum(id, strings.Repeat("z", 52))}); status != 401 {
		t.Errorf("the link counts twice: %d %s", status, text)
	}
	leader.start(t)
	leader.awaitReady(t)
	for _, n := range c.all {
		eventually(t, 20*time.Second, n.ID+" takes the session", func() error { return b.want(n, session, 200) })
		if status, text, _ := b.ask(n, "GET", "/v1/whoami", "", session, nil); status != 200 ||
			!strings.Contains(text, `"anonymous"`) {
			t.Errorf("the API of %s takes a cookie: %d %s", n.ID, status, text)
		}
		if status, text, _ := b.ask(n, "POST", "/ui/session", "", session, nil); status != 200 ||
			!strings.Contains(text, session) {
			t.Errorf("after a reload at %s: %d %s", n.ID, status, text)
		}
	}
	c.rota(t, append(root, "auth", "token", "revoke", strings.Split(made, "_")[1])...).want(t, 0)
	for _, n := range c.all {
		eventually(t, 20*time.Second, n.ID+" has applied the revocation",
			func() error { return b.want(n, session, 401) })
		if status, text, set := b.ask(n, "POST", "/ui/session", "", session, nil); status != 200 ||
			strings.Contains(text, "rota_") || len(set) != 1 || set[0].MaxAge >= 0 {
			t.Errorf("the cookie of a session that has ended, at %s: %d %s %v", n.ID, status, text, set)
		}
	}
}

// want lists jobs with a bearer.
func (b browser) want(n *node, bearer string, code int) error {
	status, text, _ := b.ask(n, "GET", "/v1/jobs", bearer, "", nil)
	if status != code {
		return fmt.Errorf("%d %s, want %d", status, text, code)
	}
	return nil
}
