package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// signatures are the algorithms that issuers sign with here.
var signatures = []string{"RS256", "PS256", "ES384", "ES512", "EdDSA"}

func issuerRows() []row {
	const does = "RS256, PS256, ES384, ES512, EdDSA: sign in by the claim `realm_access.roles`; a replay is refused"
	return []row{
		{group: "issuers", tool: "oidc-provider", does: does, quick: true, most: 3 * time.Minute,
			try: signIns(oidcProvider)},
		{group: "issuers", tool: "Keycloak", does: does, most: 10 * time.Minute, try: signIns(keycloak)},
		{group: "issuers", tool: "dex", does: does, most: time.Minute},
	}
}

// issuer is a running identity provider: its URL, and the request that returns a token signed with an algorithm.
type issuer struct {
	url     string
	request func(algorithm string) (path, user string, form []string)
	process *rig.Process
}

// startIssuer starts an issuer with server.pem and server.key of its directory.
type startIssuer func(ctx context.Context, s *scene, t *installed, dir, addr string) (*issuer, error)

// signIns exchanges a token of each algorithm for an access token of a cluster that accepts the issuer.
func signIns(start startIssuer) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		dir, err := s.temp("issuer")
		if err != nil {
			return "", err
		}
		addr, err := rig.FreeAddr()
		if err != nil {
			return "", err
		}
		if err := writeCertificate(dir); err != nil {
			return "", err
		}
		i, err := start(ctx, s, t, dir, addr)
		if err != nil {
			return "", err
		}
		defer i.process.KillAll()
		node, err := rig.NewNode("n1", dir, s.binary)
		if err != nil {
			return "", err
		}
		node.Flags = []string{"--bootstrap-expect", "1"}
		if err := errors.Join(node.Start(), node.AwaitReady(ctx)); err != nil {
			return "", err
		}
		defer node.Kill()
		root, err := s.rota(ctx, []string{node.API}, "auth", "init", "--data", node.Dir)
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, "root.token")
		if err := os.WriteFile(file, []byte(root), 0o600); err != nil {
			return "", err
		}
		if _, err := s.rota(ctx, []string{node.API}, "auth", "issuer", "set", i.url, "--audience", "rota", "--map",
			"realm_access.roles=ops:operator", "--ca-file", filepath.Join(dir, "server.pem"), "--token-file",
			file); err != nil {
			return "", err
		}
		for _, algorithm := range signatures {
			if err := i.signIn(ctx, s, node, dir, algorithm); err != nil {
				return "", fmt.Errorf("%s: %w", algorithm, err)
			}
		}
		return "", nil
	}
}

// signIn gets a token from the issuer and exchanges it twice; the second time must be refused.
func (i *issuer) signIn(ctx context.Context, s *scene, node *rig.Node, dir, algorithm string) error {
	jwt, err := i.token(ctx, dir, algorithm)
	if err != nil {
		return err
	}
	in, out := filepath.Join(dir, algorithm+".jwt"), filepath.Join(dir, algorithm+".token")
	if err := os.WriteFile(in, []byte(jwt), 0o600); err != nil {
		return err
	}
	at := []string{node.API}
	if _, err := s.rota(ctx, at, "auth", "login", "--jwt-file", in, "--out", out); err != nil {
		return err
	}
	said, err := s.rota(ctx, at, "auth", "whoami", "--token-file", out)
	if err != nil {
		return err
	}
	if err := contains(said, "oidc:"+i.url+"/"); err != nil {
		return err
	}
	said, err = s.rota(ctx, at, "auth", "login", "--jwt-file", in, "--out", out+"2")
	if err == nil {
		return errors.New("the same token was accepted again")
	}
	return contains(said, "exchanged before")
}

// token waits until the issuer returns a token, and checks its algorithm.
func (i *issuer) token(ctx context.Context, dir, algorithm string) (string, error) {
	path, user, form := i.request(algorithm)
	args := []string{"-sS", "-m", "30", "--cacert", filepath.Join(dir, "server.pem"), "-u", user, i.url + path}
	for _, f := range form {
		args = append(args, "-d", f)
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	var last error
	err := rig.Until(ctx, func() (err error) {
		defer func() {
			if ctx.Err() == nil {
				last = err
			}
		}()
		if !i.process.Running() {
			return rig.Final(fmt.Errorf("the issuer ended: %s", i.process.LastWords(maxSaid)))
		}
		said, err := command{dir: dir}.run(ctx, "curl", args...)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(said), &answer); err != nil || answer.Token == "" {
			return rig.Final(fmt.Errorf("got %s, want a token", said))
		}
		return nil
	})
	if err != nil {
		return "", errors.Join(last, err)
	}
	first, _, _ := strings.Cut(answer.Token, ".")
	head, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return "", err
	}
	return answer.Token, contains(string(head), `"`+algorithm+`"`)
}

// oidcProvider starts an issuer of npm's oidc-provider.
func oidcProvider(ctx context.Context, s *scene, t *installed, dir, addr string) (*issuer, error) {
	script, _, err := s.sources(filepath.Join("issuers", "oidc-provider.mjs"), "")
	if err != nil {
		return nil, err
	}
	if err := (command{dir: dir}).steps(ctx, []string{"cp", script, "."},
		[]string{"ln", "-s", t.modules(), "node_modules"}); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, err := command{dir: dir}.serve("node", "", "oidc-provider.mjs", port, "server.pem", "server.key")
	return &issuer{url: "https://" + addr, process: p, request: func(algorithm string) (string, string, []string) {
		return "/token", "compat:compat-secret", []string{"grant_type=client_credentials",
			"resource=urn:rota:" + algorithm}
	}}, err
}

// keycloak starts Keycloak with a realm that has a client for each algorithm.
func keycloak(ctx context.Context, s *scene, t *installed, dir, addr string) (*issuer, error) {
	realm, _, err := s.sources(filepath.Join("issuers", "keycloak.json"), "")
	if err != nil {
		return nil, err
	}
	if err := (command{dir: dir}).steps(ctx, []string{"cp", "-r", t.dir, "keycloak"},
		[]string{"mkdir", "-p", "keycloak/data/import"},
		[]string{"cp", realm, "keycloak/data/import/compat.json"}); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	url := "https://" + addr
	p, err := command{dir: dir, env: rig.Inherited("JAVA_OPTS_KC_HEAP=-Xmx512m")}.serve(
		filepath.Join(dir, "keycloak", "bin", "kc.sh"), "", "start", "--optimized", "--import-realm", "--hostname", url,
		"--http-host", "127.0.0.1", "--https-port", port, "--https-certificate-file", filepath.Join(dir, "server.pem"),
		"--https-certificate-key-file", filepath.Join(dir, "server.key"))
	return &issuer{url: url + "/realms/compat", process: p, request: func(algorithm string) (string, string, []string) {
		return "/protocol/openid-connect/token", algorithm + ":compat-secret",
			[]string{"grant_type=client_credentials"}
	}}, err
}

// writeCertificate writes a certificate for 127.0.0.1 that is its own authority, and its key.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()),
		Subject: pkix.Name{CommonName: "compat"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	signed, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "server.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: signed}), 0o600),
		os.WriteFile(filepath.Join(dir, "server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
			Bytes: private}), 0o600))
}
