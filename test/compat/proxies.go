package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

const (
	// proxyIdle is longer than the default timeouts of all proxies here: 50 s and 60 s.
	proxyIdle = 65 * time.Second
	// maxSeen is the longest time for a job through a proxy, including the reconnects of a worker and a follower.
	maxSeen = 45 * time.Second
)

func proxyRows() []row {
	one := func(tool string, files []string, args ...string) row {
		return row{group: "proxies", tool: tool,
			does: "worker, `events tail --follow` and HTTP; idle for 65 s; restarted", most: 6 * time.Minute,
			try: through(files, args...)}
	}
	return []row{
		one("nginx", []string{"nginx.conf"}, "-c", "DIR/nginx.conf", "-e", "DIR/error.log"),
		one("HAProxy", []string{"haproxy.cfg"}, "-f", "DIR/haproxy.cfg"),
		one("Caddy", []string{"Caddyfile"}, "run", "--config", "DIR/Caddyfile", "--adapter", "caddyfile"),
		one("Traefik", []string{"traefik.yaml", "traefik-dynamic.yaml"}, "--configFile=DIR/traefik.yaml"),
	}
}

// proxy is a proxy in front of the shared cluster, with a port for gRPC and one for HTTP.
type proxy struct {
	t          *installed
	dir        string
	args       []string
	grpc, http string
	life       *rig.Process
}

// newProxy writes the configuration of a proxy, in which DIR, GRPC, HTTP and NODE1 to NODE3 are replaced.
func newProxy(s *scene, t *installed, files, args []string) (*proxy, error) {
	dir, err := s.temp("proxy")
	if err != nil {
		return nil, err
	}
	p := &proxy{t: t, dir: dir}
	for _, addr := range []*string{&p.grpc, &p.http} {
		if *addr, err = rig.FreeAddr(); err != nil {
			return nil, err
		}
	}
	words := []string{"DIR", dir, "GRPC", p.grpc, "HTTP", p.http}
	for i, n := range s.nodes {
		words = append(words, fmt.Sprintf("NODE%d", i+1), n.API)
	}
	fill := strings.NewReplacer(words...)
	for _, a := range args {
		p.args = append(p.args, fill.Replace(a))
	}
	top, err := s.top()
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash("test/compat/testdata/proxies"), name))
		if err != nil {
			return nil, err
		}
		_, body, _ := strings.Cut("\n"+string(text), "\n")
		for strings.HasPrefix(body, "#") { // comments contain words that are replaced elsewhere
			_, body, _ = strings.Cut(body, "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(body)), 0o600); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// start starts the proxy and waits until both ports answer, and the one of HTTP with an answer of a node: Traefik opens
// its ports before it knows the nodes.
func (p *proxy) start(ctx context.Context) (err error) {
	env := p.t.inherited()
	if p.t.env == nil {
		env = rig.Inherited("HOME=" + p.dir)
	}
	if p.life, err = (command{dir: p.dir, env: env}).serve(p.t.program, "", p.args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	return rig.Until(ctx, func() error {
		if !p.life.Running() {
			return rig.Final(fmt.Errorf("%s ended: %s", p.t.name, p.life.LastWords(maxSaid)))
		}
		for _, at := range []string{p.grpc, p.http} {
			conn, err := net.DialTimeout("tcp", at, time.Second)
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
		_, err := command{dir: p.dir}.run(ctx, "curl", "-sS", "-f", "-m", "5", "http://"+p.http+"/v1/queues")
		return err
	})
}

// through runs a worker, a follower of events and HTTP through a proxy.
func through(files []string, args ...string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (seen string, err error) {
		queue, err := s.queue(ctx)
		if err != nil {
			return "", err
		}
		p, err := newProxy(s, t, files, args)
		if err != nil {
			return "", err
		}
		if err := p.start(ctx); err != nil {
			return "", err
		}
		defer func() { p.life.KillAll() }()
		users, err := p.users(s, queue)
		if err != nil {
			return "", err
		}
		defer killAll(users)
		follower := users[1]
		if err := p.job(ctx, s, follower, queue, queue+"-first"); err != nil {
			return "", fmt.Errorf("at first: %w", err)
		}
		if err := pause(ctx, proxyIdle); err != nil {
			return "", err
		}
		if err := p.job(ctx, s, follower, queue, queue+"-idle"); err != nil {
			return "", fmt.Errorf("after %s idle: %w", proxyIdle, err)
		}
		_ = p.life.Stop(maxStop) // its exit status does not matter
		if err := p.start(ctx); err != nil {
			return "", fmt.Errorf("restarted: %w", err)
		}
		if err := p.job(ctx, s, follower, queue, queue+"-restarted"); err != nil {
			return "", fmt.Errorf("after a restart: %w", err)
		}
		for _, u := range users {
			if !u.Running() {
				return "", fmt.Errorf("%s ended: %s", u.Name, u.LastWords(maxSaid))
			}
		}
		return "", nil
	}
}

// killAll ends processes.
func killAll(all []*rig.Process) {
	for _, p := range all {
		p.Kill()
	}
}

// users starts a worker and a follower of events, which know only the proxy.
func (p *proxy) users(s *scene, queue string) ([]*rig.Process, error) {
	env := rig.Bare("ROTA_ADDR=" + p.grpc)
	worker, err := command{dir: p.dir, env: env}.serve(s.binary, filepath.Join(p.dir, "worker.log"), "worker", "run",
		"--queues", queue)
	if err != nil {
		return nil, err
	}
	follower, err := command{dir: p.dir, env: env}.serve(s.binary, "", "events", "tail", "--follow", "--kind",
		"jobCompleted", "--queue", queue)
	if err != nil {
		worker.Kill()
		return nil, err
	}
	return []*rig.Process{worker, follower}, nil
}

// job submits a job by HTTP through the proxy, and checks that it is completed, read through the proxy, and its event
// followed.
func (p *proxy) job(ctx context.Context, s *scene, follower *rig.Process, queue, job string) error {
	ctx, cancel := context.WithTimeout(ctx, maxSeen)
	defer cancel()
	at := "http://" + p.http + "/v1/jobs/" + job
	in := command{dir: p.dir}
	said, err := in.run(ctx, "curl", "-sS", "-f", "-X", "PUT", at, "-H", "Content-Type: application/json", "-d",
		`{"type":"t","queue":"`+queue+`"}`)
	if err != nil {
		return fmt.Errorf("submit by HTTP: %w", err)
	}
	if !strings.Contains(said, job) {
		return fmt.Errorf("submit by HTTP: got %s", said)
	}
	if said, err = in.run(ctx, "curl", "-sS", "-f", at+"?wait=30s"); err != nil ||
		!strings.Contains(said, rota.JobCompleted.String()) {
		return errors.Join(fmt.Errorf("the worker did not complete %s in 30 s: %.200s", job, said), err)
	}
	return rig.Until(ctx, func() error {
		switch text := follower.Stdout.String(); {
		case strings.Contains(text, job):
			return nil
		case !follower.Running():
			return rig.Final(fmt.Errorf("events tail ended: %s", follower.LastWords(maxSaid)))
		default:
			return fmt.Errorf("events tail did not print the end of %s", job)
		}
	})
}

// pause waits, or fails if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
