package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/idp"
)

// signIns is a cluster whose callers sign in by an identity provider.
type signIns struct {
	*nodes
	t       *testing.T
	idp     *idp.Provider
	root    []string
	planted canaries
	said    []*result
	denied  map[*node]int
}

// newSignIns starts three nodes where callers without a credential have no rights.
func newSignIns(t *testing.T) *signIns {
	t.Helper()
	c := &signIns{t: t, idp: idp.New(), planted: canaries{}, denied: make(map[*node]int),
		nodes: newCluster(t, 3, "--snapshot-entries", "64", "--snapshot-every", "1s", "--log-level", "debug")}
	t.Cleanup(c.idp.Close)
	made := command(t, nil, "", "auth", "init", "--data", c.all[0].Dir).want(t, 0)
	c.root = []string{"--token-file", writeFile(t, filepath.Join(t.TempDir(), "root.token"), made.stdout)}
	c.everywhere(c.root)
	return c
}

// at runs a command against one node.
func (c *signIns) at(n *node, code int, args ...string) *result {
	c.t.Helper()
	r := command(c.t, []string{"ROTA_ADDR=" + n.API}, "", args...).want(c.t, code)
	c.said = append(c.said, r)
	return r
}

// everywhere waits until each node knows a token.
func (c *signIns) everywhere(token []string) {
	c.t.Helper()
	for _, n := range c.all {
		eventually(c.t, 30*time.Second, n.ID+" knows the token", func() error {
			if r := command(c.t, []string{"ROTA_ADDR=" + n.API}, "", append(token, "auth", "whoami")...); r.code != 0 {
				return errors.New(r.stderr)
			}
			return nil
		})
	}
}

// issuer sets, changes or deletes the provider; afterwards each node has applied the change.
func (c *signIns) issuer(args ...string) {
	c.t.Helper()
	c.at(c.all[0], 0, slices.Concat([]string{"auth", "issuer"}, args, c.root)...)
	for _, n := range c.all {
		c.at(n, 0, append(c.root, "auth", "issuer", "list")...) // a read that waits for earlier changes
	}
}

// jwt makes the provider sign a token with the current time.
func (c *signIns) jwt(alg string, change map[string]any) string {
	now := time.Now().Unix()
	claims := map[string]any{"iss": c.idp.URL, "sub": "repo:acme/site", "aud": "rota", "iat": now - 10,
		"exp": now + 600,
		"jti": fmt.Sprint(len(c.planted))}
	maps.Copy(claims, change)
	jwt := c.idp.Sign(alg, claims)
	for i, part := range strings.Split(jwt, ".")[1:] {
		if len(part) > 0 {
			c.planted[fmt.Sprintf("part %d of JWT %d", i+1, len(c.planted))] = []byte(part)
		}
	}
	return jwt
}

// login exchanges a token at a node, and returns the flags that present the result.
func (c *signIns) login(n *node, jwt string, code int, parts ...string) []string {
	c.t.Helper()
	dir := c.t.TempDir()
	out := filepath.Join(dir, "out.token")
	r := c.at(n, code, "auth", "login", "--jwt-file", writeFile(c.t, filepath.Join(dir, "id.jwt"), jwt+"\n"), "--out",
		out)
	contains(c.t, "the answer", r.stdout+r.stderr, parts...)
	text, err := os.ReadFile(out)
	if code != 0 {
		if c.denied[n]++; err == nil {
			c.t.Errorf("the refused call wrote %q", text)
		}
		return nil
	}
	check(c.t, err)
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		c.t.Errorf("the token's file: %v, %v", info, err)
	}
	c.planted[fmt.Sprint("access token ", len(c.planted))] = text[strings.LastIndex(string(text), "_")+1 : len(text)-1]
	return []string{"--token-file", out}
}

// refusesReplays presents a token that was already exchanged to all nodes.
func (c *signIns) refusesReplays(jwt string) {
	c.t.Helper()
	for _, n := range c.all {
		c.login(n, jwt, 8, "exchanged before")
	}
}

// TestOIDC: an identity token gives, once, only the rights that its issuer maps it to, at every node and under every
// leader; any other is refused with a reason, and no node keeps one (SECURITY §1.18).
func TestOIDC(t *testing.T) {
	t.Parallel()
	c := newSignIns(t)
	ca := writeFile(t, filepath.Join(t.TempDir(), "idp.pem"), c.idp.CA)
	early := c.jwt("ES256", nil)
	c.login(c.all[0], early, 8, "not set", "rota auth issuer set")
	c.issuer("set", c.idp.URL, "--audience", "rota", "--map", "groups=ops:operator", "--map",
		"sub=repo:acme/*:submitter", "--ca-file", ca)

	var spent []string
	var token []string
	for i, alg := range []string{"RS256", "ES512", "PS256"} {
		jwt := c.jwt(alg, nil)
		token = c.login(c.all[i], jwt, 0, "token", "counts until")
		c.everywhere(token)
		spent = append(spent, jwt)
		n := c.all[(i+1)%3]
		var who rota.Identity
		check(t, json.Unmarshal([]byte(c.at(n, 0, append(token, "auth", "whoami", "-o", "json")...).stdout), &who))
		if want := rota.OIDCPrincipal(c.idp.URL, "repo:acme/site"); who.By != want ||
			!strings.HasPrefix(string(who.Principal), "token:") {
			t.Errorf("%s: it is %s by %s, want %s", alg, who.Principal, who.By, want)
		}
		c.at(n, 0, append(token, "job", "submit", "--type", "x", "--payload", string(seenByAll))...)
		for _, args := range [][]string{{"auth", "token", "list"}, {"queue", "set", "default"},
			{"auth", "issuer", "delete", c.idp.URL}} {
			c.at(n, 8, append(token, args...)...)
		}
	}
	operator := c.login(c.all[1], c.jwt("ES256", map[string]any{"groups": []string{"dev", "ops"}}), 0)
	c.everywhere(operator)
	c.at(c.all[2], 0, append(operator, "queue", "set", "default")...)
	c.at(c.all[2], 8, append(operator, "auth", "token", "list")...)

	now := time.Now().Unix()
	good := strings.Split(c.jwt("RS256", nil), ".")
	other := idp.New()
	defer other.Close()
	for i, bad := range []struct {
		jwt  string
		says []string
	}{
		{c.jwt("RS256", map[string]any{"aud": "else"}), []string{`for audience "rota"`, `got "else"`}},
		{c.jwt("none", nil), []string{`signed with "none"`}},
		{c.jwt("HS256", nil), []string{`signed with "HS256"`, "RS256, RS384"}},
		{good[0] + "." + good[1] + ".", []string{"not signed by a key"}},
		{c.jwt("ES256", map[string]any{"exp": now - 1, "iat": now - 100}),
			[]string{"ended at", "ask the issuer for another"}},
		{c.jwt("ES256", map[string]any{"iat": now - 10, "exp": now + 86_400}), []string{"maximum 24h"}},
		{c.jwt("ES256", map[string]any{"nbf": now + 3_600}), []string{"does not count yet"}},
		{c.jwt("ES256", map[string]any{"iss": other.URL}), []string{other.URL, "not set"}},
		{c.jwt("ES256", map[string]any{"sub": "repo:acme"}), []string{"maps no claim", "rota auth issuer list"}},
	} {
		c.login(c.all[i%3], bad.jwt, 8, bad.says...)
	}
	for _, jwt := range spent {
		c.refusesReplays(jwt)
	}
	was := c.leads()
	c.at(c.all[0], 0, append(c.root, "operator", "raft", "transfer-leadership")...)
	eventually(t, 30*time.Second, "another node leads", func() error {
		if is := c.leads(); is == was || is == "" {
			return fmt.Errorf("leader is %q", is)
		}
		return nil
	})
	c.refusesReplays(spent[0])

	late := c.jwt("ES256", nil)
	c.issuer("set", c.idp.URL, "--audience", "rota", "--map", "sub=repo:acme/other:submitter", "--ca-file", ca)
	c.login(c.all[1], late, 8, "maps no claim")
	c.issuer("delete", c.idp.URL)
	c.login(c.all[2], late, 8, "not set")
	c.at(c.all[1], 0, append(token, "job", "list")...) // earlier exchanges remain valid
	c.at(c.all[1], 0, slices.Concat([]string{"auth", "token", "revoke", tokenIn(t, token)}, c.root)...)
	c.at(c.all[1], 8, append(token, "job", "list")...)
	c.tellsNobody()
}

// leads returns the leader that the nodes report.
func (c *signIns) leads() string {
	r := command(c.t, []string{c.env()}, "", append(c.root, "cluster", "status", "-o", "json")...)
	var s rota.ClusterStatus
	if r.code != 0 || json.Unmarshal([]byte(r.stdout), &s) != nil {
		return ""
	}
	return string(s.Leader)
}

// tokenIn returns the id of a token that flags name.
func tokenIn(t *testing.T, flags []string) string {
	t.Helper()
	text, err := os.ReadFile(flags[1])
	check(t, err)
	return strings.Split(string(text), "_")[1]
}

// tellsNobody checks that refusals are counted, and that no identity token is in any file, event, log or answer.
func (c *signIns) tellsNobody() {
	c.t.Helper()
	t := c.t
	events := c.at(c.all[0], 0, append(c.root, "events", "tail", "-o", "jsonl")...)
	contains(t, "the events", events.stdout, `"authChanged"`, "oidc:"+c.idp.URL+"/repo:acme/site")
	for _, n := range c.all {
		contains(t, "the metrics", metricsOf(t, n),
			fmt.Sprintf(`rota_calls_denied_total{method="/rota.v1.Auth/Exchange",reason="UNAUTHENTICATED"} %d`,
				c.denied[n]))
		eventually(t, 30*time.Second, n.ID+" has a snapshot", func() error {
			if len(snapshots(t, n.Dir)) == 0 {
				return errors.New("there is none")
			}
			return nil
		})
	}
	seen := 0
	for _, n := range c.all {
		n.stop(t, 20*time.Second)
		c.planted.find(t, "the log of "+n.ID, []byte(n.Stdout.String()+n.Stderr.String()))
		plainly, packed := c.planted.findIn(t, n.Dir)
		seen += plainly + packed
		denied, err := os.ReadFile(filepath.Join(n.Dir, "denied.log"))
		check(t, err)
		if lines := strings.Count(string(denied), "/rota.v1.Auth/Exchange"); lines != c.denied[n] {
			t.Errorf("%s: got %d lines of refused exchanges, want %d: %s", n.ID, lines, c.denied[n], denied)
		}
	}
	for _, r := range c.said {
		c.planted.find(t, "the output of rota "+strings.Join(r.args, " "), []byte(r.stdout+r.stderr))
	}
	if seen == 0 {
		t.Error("no file contains a payload: the search finds nothing")
	}
}
