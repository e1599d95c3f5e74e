package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// redisServer is one Redis on loopback that syncs each write before it answers.
type redisServer struct {
	dir, address string
	process      *rig.Process
}

const redisSetting = "One Redis with `appendonly yes` and `appendfsync always`."

func startRedis(ctx context.Context, b *bench) (*redisServer, error) {
	if p := missing("redis-server"); p != "" {
		return nil, fmt.Errorf("%s is not installed: make setup-bench installs it", p)
	}
	dir, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	address, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	r := &redisServer{dir: dir, address: address}
	err = r.start(ctx)
	return r, err
}

func (r *redisServer) start(ctx context.Context) error {
	_, port, _ := net.SplitHostPort(r.address)
	var err error
	r.process, err = rig.Start("redis", exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir",
		r.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction"),
		filepath.Join(r.dir, "log"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReady)
	defer cancel()
	return rig.Until(ctx, r.ping)
}

// ping returns an error until the server has loaded its data.
func (r *redisServer) ping() error {
	conn, err := net.DialTimeout("tcp", r.address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+PONG") {
		err = fmt.Errorf("redis answered %q", line)
	}
	return err
}

func (r *redisServer) version() string {
	said, _ := exec.Command("redis-server", "--version").Output()
	if fields := strings.Fields(string(said)); len(fields) > 2 {
		return "Redis " + strings.TrimPrefix(fields[2], "v=")
	}
	return "Redis"
}

func (r *redisServer) addresses() []string { return []string{r.address} }

func (r *redisServer) crash(context.Context) (func(context.Context) error, error) {
	r.process.Kill()
	return r.start, nil
}

func (r *redisServer) stop() { r.process.Kill() }
