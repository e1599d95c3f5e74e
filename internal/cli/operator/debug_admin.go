package operator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/server"
)

// adminPage is a page of an admin port, or why there is none.
type adminPage struct {
	name string
	body []byte
	why  string
}

// adminPages are those of one node.
type adminPages []adminPage

// maxAdmin bounds one page.
const maxAdmin = 8 << 20

// usualAdmins guesses the admin ports of nodes whose API addresses are known.
func usualAdmins(nodes []string) (admins []string) {
	_, port, _ := net.SplitHostPort(serve.DefaultAdmin)
	for _, addr := range nodes {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			admins = append(admins, net.JoinHostPort(host, port))
		}
	}
	return unnamed(admins)
}

// askAdmin asks an admin port for its pages: metrics at both ends of a time in which the CPU is
// profiled.
func (a Commands) askAdmin(ctx context.Context, addr string, interval time.Duration) adminPages {
	dir := "admin/" + strings.NewReplacer(":", "_", "/", "_").Replace(addr) + "/"
	get, err := a.adminGetter(addr)
	if err != nil {
		return adminPages{{name: dir, why: err.Error()}}
	}
	page := func(name, path string, most time.Duration) adminPage {
		body, err := get(ctx, path, most)
		if err != nil {
			return adminPage{name: dir + name, why: err.Error()}
		}
		return adminPage{name: dir + name, body: body}
	}
	began := time.Now()
	first := page("metrics-1.txt", "/metrics", debugCall)
	if first.why != "" {
		return adminPages{{name: dir, why: first.why}}
	}
	pages := adminPages{first, page("readyz.txt", "/readyz", debugCall)}
	seconds := max(1, int(interval/2/time.Second))
	// In this order: a heap's profile costs a little CPU.
	for _, p := range []struct {
		name, path string
		most       time.Duration
	}{
		{"cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds),
			time.Duration(seconds)*time.Second + debugCall},
		{"heap.pprof", "/debug/pprof/heap", debugCall}, {"goroutines.txt", "/debug/pprof/goroutine?debug=2", debugCall},
	} {
		pages = append(pages, page(p.name, p.path, p.most))
	}
	if err := cli.Pause(ctx, interval-time.Since(began)); err != nil {
		return pages
	}
	return append(pages, page("metrics-2.txt", "/metrics", debugCall))
}

// adminGetter returns what reads a page of an admin port. Beyond loopback the port is
// encrypted where nodes have certificates.
func (a Commands) adminGetter(addr string) (func(ctx context.Context, path string, most time.Duration) (
	[]byte, error), error) {
	scheme, transport := "http", &http.Transport{DisableKeepAlives: true}
	if a.TLS != (cli.TLSFiles{}) && !server.Loopback(addr) {
		config, err := a.TLS.Client()
		if err != nil {
			return nil, err
		}
		scheme = "https"
		if transport.TLSClientConfig, err = config(); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, path string, most time.Duration) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+path, nil)
		if err != nil {
			return nil, err
		}
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAdmin+1))
		switch {
		case err != nil:
			return nil, err
		case answer.StatusCode == http.StatusNotFound && strings.HasPrefix(path, "/debug/"):
			return nil, fmt.Errorf("the node was started without --pprof")
		case answer.StatusCode != http.StatusOK && path != "/readyz":
			return nil, fmt.Errorf("it answered %s", answer.Status)
		case len(body) > maxAdmin:
			return nil, fmt.Errorf("it has more than %d bytes", maxAdmin)
		}
		return body, nil
	}, nil
}
