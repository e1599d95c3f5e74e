package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/server"
	"github.com/rotasched/rota/transport"
	"github.com/spf13/cobra"
)

// recorder sits between commands and a node, and records the calls that pass.
type recorder struct {
	t    *testing.T
	mu   sync.Mutex
	seen []string
}

// taken returns the calls since its last call, each once.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	slices.Sort(seen)
	return slices.Compact(seen)
}

// wire passes messages on unchanged.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// listen serves at one address and forwards to the node at another.
func (r *recorder) listen(network, at, address string) string {
	r.t.Helper()
	lis, err := net.Listen(network, at)
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire{})))
	if err != nil {
		r.t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(wire{}),
		grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
			return r.pass(in, conn)
		}))
	go func() { _ = s.Serve(lis) }()
	r.t.Cleanup(func() {
		s.Stop()
		_ = conn.Close()
	})
	return lis.Addr().String()
}

func (r *recorder) pass(in grpc.ServerStream, conn *grpc.ClientConn) error {
	method, _ := grpc.MethodFromServerStream(in)
	r.mu.Lock()
	r.seen = append(r.seen, strings.TrimPrefix(method, "/rota.v1."))
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	md, _ := metadata.FromIncomingContext(ctx)
	out, err := conn.NewStream(metadata.NewOutgoingContext(ctx, md),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var message []byte
			if err := in.RecvMsg(&message); err != nil {
				_ = out.CloseSend()
				return
			}
			if out.SendMsg(&message) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		if err := out.RecvMsg(&message); err != nil {
			in.SetTrailer(out.Trailer())
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := in.SendMsg(&message); err != nil {
			return err
		}
	}
}

// step runs a command in a scene.
type step struct {
	// name is the command's name; args follow it.
	name, args string
	// code is its exit code.
	code int
}

// scene has every command that calls a cluster at least once, in an order in which it has something to do. Words in
// braces are replaced by the scene's. A token with the right to auth alone can grant no other right.
var scene = []step{
	{"auth init", "--data {data}", cli.ExitFailed}, // the scene has already created the first one
	{"auth reset", "--data {data}", 0},
	{"auth whoami", "", 0},
	{"console", "", 0},
	{"auth role set", "r --grant auth", 0},
	{"auth role list", "", 0},
	{"auth token create", "--role r --expires 1h", 0},
	{"auth token list", "", 0},
	{"auth token revoke", "{token}", 0},
	{"auth block", "r/ann", 0},
	{"auth blocks", "", 0},
	{"auth unblock", "r/ann", 0},
	{"auth anonymous", "none", 0},
	{"auth issuer set", "https://idp.example --audience rota --map sub=ann:r", 0},
	{"auth issuer list", "", 0},
	{"auth issuer delete", "https://idp.example", 0},
	{"auth login", "--jwt-file {jwt}", cli.ExitDenied}, // not signed by a known issuer
	{"auth role delete", "r", 0},
	{"queue set", "q --set attempt_max=1", 0},
	{"queue list", "", 0},
	{"queues", "", 0},
	{"queue show", "q", 0},
	{"queue pause", "q", 0},
	{"queue resume", "q", 0},
	{"tenant set", "acme --weight 2", 0},
	{"tenant list", "", 0},
	{"tenants", "", 0},
	{"tenant show", "acme", 0},
	{"key set", "k --sequence block", 0},
	{"key list", "", 0},
	{"key show", "k:1", 0},
	{"key top", "--held full", 0},
	{"key skip", "k:1 --job j", cli.ExitNotFound},
	{"key pause", "k:1 --for 5m --reason 429", 0},
	{"key pause", "k:1 --until 23:59", 0},
	{"key resume", "k:1", 0},
	{"key delete", "k", 0},
	{"budget set", "b --limit 5 --unit usd --then ask", 0},
	{"budget list", "", 0},
	{"budget list", "--asking", 0},
	{"budget show", "b", 0},
	{"budget show", "b --asking", 0},
	{"budget show", "b --by type,key,day", 0},
	{"budget grant", "b 2.5 --reason launch --id g", 0},
	{"budget reset", "b --id r", 0},
	{"budget delete", "b", 0},
	{"job list", "--queue q", 0},
	{"job export", "--queue q", 0},
	{"job list", "--filter state=DEAD --count", 0},
	{"jobs", "--queue q", 0},
	{"job submit", "--queue q --type t --id j1", 0},
	{"job submit", "--queue q --type t --id j2", 0},
	{"job list", "", 0},
	{"cost", "--by tenant,type", 0},
	{"jobs", "", 0},
	{"job show", "j1", 0},
	{"job why", "j1", 0},
	{"job why", "j1 --at 1", cli.ExitNotFound},
	{"job eta", "j1", 0},
	{"job logs", "j1", cli.ExitNotFound},
	{"job change", "j1 --priority 3", 0},
	{"job cancel", "j1", 0},
	{"job wait", "j1", cli.ExitOtherwise},
	{"job retry", "j1", 0},
	{"job interrupt", "j1", cli.ExitFailed},
	{"job run-now", "j1", 0},
	{"job cancel", "j1", 0},
	{"job delete", "j1", 0},
	{"batch open", "b --type t --queue q", 0},
	{"batch list", "", 0},
	{"batch show", "b", 0},
	{"batch seal", "b", 0},
	{"batch wait", "b", 0},
	{"job cancel", "b@done", 0},
	{"schedule set", "s --every 1h --type t --queue q", 0},
	{"schedule list", "", 0},
	{"schedule show", "s", 0},
	{"schedule next", "s", 0},
	{"tzdata install", "", 0},
	{"schedule pause", "s", 0},
	{"schedule resume", "s", 0},
	{"schedule backfill", "s 2020-01-01T00:00:00Z 2020-01-01T00:00:01Z", 0},
	{"schedule trigger", "s --id x", 0},
	{"schedule delete", "s", 0},
	{"job cancel", "s@+x", 0},
	{"webhook set", "h --url https://example.com/", 0},
	{"webhook list", "", 0},
	{"webhook show", "h", 0},
	{"webhook secret", "h --key-file {relay}", 0},
	{"webhook pause", "h", 0},
	{"webhook resume", "h", 0},
	{"webhook skip", "h", 0},
	{"webhook delete", "h", 0},
	{"plan start", "cancel --filter id=nothing --dry-run", 0},
	{"plan start", "cancel --filter id=nothing --id p", 0},
	{"plan start", "cancel --filter id=nothing --id p2 --wait", 0},
	{"plan list", "", 0},
	{"plan show", "p", 0},
	{"plan wait", "p", 0},
	{"plan cancel", "p", 0},
	{"worker run", "--queues q --id w --slots 1 --guard=false --exec true", 0},
	{"job submit", "--queue q --type t --id j3 --wait", 0},
	{"job wait", "j2", 0},
	{"job reject", "j2 --reason r", 0},
	{"workflow list", "--queue q", 0},
	{"workflows", "--queue q", 0},
	{"workflow submit", "{flow} --id w1 --queue q", 0},
	{"workflow wait", "w1", 0},
	{"workflow submit", "{flow} --id w2 --queue q --wait", 0},
	{"workflow list", "", 0},
	{"workflows", "", 0},
	{"workflow graph", "w1", 0},
	{"worker list", "", 0},
	{"workers", "", 0},
	{"worker show", "w", 0},
	{"worker drain", "w", 0},
	{"worker resume", "w", 0},
	{"worker suspend", "w", 0},
	{"worker retire", "w", 0},
	{"worker delete", "w", 0},
	{"workflow submit", "{flow} --id w3 --queue q", 0},
	{"workflow show", "w3", 0},
	{"workflow signal", "w3 a", cli.ExitUsage}, // no gate
	{"workflow cancel", "w3", 0},
	{"workflow retry", "w3", 0},
	{"events tail", "", 0},
	{"mode get", "", 0},
	{"mode set", "NORMAL --reason r", 0},
	{"status", "", 0},
	{"cluster status", "", 0},
	{"cluster set", "voters_wanted=3", 0},
	{"worker attest", "--key {key} --worker w --expires 1h", 0},
	{"operator raft list-peers", "", 0},
	{"operator raft transfer-leadership", "", cli.ExitFailed},
	{"operator raft remove-peer", "n9", cli.ExitNotFound},
	{"operator raft leave", "", cli.ExitFailed},
	{"operator verify", "", 0},
	{"operator upgrade check", "", cli.ExitFailed}, // a single node
	{"operator debug", "--out {data}/debug.tar.gz --interval 1s", 0},
	{"operator snapshot save", "{data}/snap", 0},
	{"operator backup now", "", cli.ExitUsage}, // no place for backups is set
	{"bench jobs", "--jobs 10 --workers 1 --costs", 0},
	{"bench fill", "--jobs 10", 0},
	{"bench workflow", "{flow} --workers 1 --slots 2 --bound 1ms", 0},
	{"bench trace", "{trace} --workers 1", 0},
	{"queue set", "gone", 0},
	{"queue delete", "gone", 0},
	{"tenant delete", "acme", 0},
}

// sights are rights that show a command the objects it works on, in addition to the rights of its calls: a webhook
// needs the right to read the events that it receives.
var sights = map[string][]rota.Right{
	"webhook set": {rota.RightRead}, "webhook show": {rota.RightRead}, "webhook pause": {rota.RightRead},
	"webhook resume": {rota.RightRead},
	"webhook skip":   {rota.RightRead}, "webhook delete": {rota.RightRead}, "webhook secret": {rota.RightRead},
}

// unheard are calls that no recorder records, with the reason.
var unheard = map[string]string{
	"worker run Workers/Gone":                                      "the guard's: TestGuard",
	"relay postgres Jobs/Submit":                                   "it needs a database: TestOutbox in test/e2e",
	"relay webhooks Workers/Work":                                  "it runs until it is stopped: TestWebhooks in test/e2e",
	"relay webhooks Webhooks/Get":                                  "it runs until it is stopped: TestWebhooks in test/e2e",
	"workflow wait Workflows/Get":                                  "only a terminal is shown progress",
	"workflow submit Workflows/Get":                                "only a terminal is shown progress",
	"auth anonymous Auth/ListTokens":                               "only of a caller without a credential",
	"operator backup now Cluster/StoreBackup":                      "the leader's own address is called",
	"operator raft remove-peer Cluster/RemovePeer":                 "the leader's own address is called",
	"operator debug Cluster/Peers":                                 "each node's own address is called",
	"operator raft transfer-leadership Cluster/TransferLeadership": "the leader's own address is called",
}

// stage is a cluster with a recorder in front of it.
type stage struct {
	t    *testing.T
	rec  *recorder
	root *client.Client
	// addr is the recorder's address, node the node's.
	addr, node string
	// words are the values for words in braces, tokens those with some rights.
	words  map[string]string
	tokens map[string]string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	cluster := running(t, "dev", "--nodes", "1", "--data", dir)
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	s := &stage{t: t, addr: strings.TrimPrefix(cluster.Text(), "ready addr="), tokens: make(map[string]string),
		rec: &recorder{t: t}}
	s.words = map[string]string{"data": filepath.Join(dir, "d")}
	if err := os.Mkdir(s.words["data"], 0o700); err != nil {
		t.Fatal(err)
	}
	s.node = s.addr
	s.addr = s.rec.listen("tcp", "127.0.0.1:0", s.node)
	s.rec.listen("unix", server.SocketPath(s.words["data"]), "unix:"+server.SocketPath(filepath.Join(dir, "n1")))
	for name, text := range map[string]string{
		"flow":  "queue: q\nnodes:\n  - {id: a, type: t, payload: one}\n  - {id: b, type: t, parents: [a]}\n",
		"jwt":   "e30.e30.e30",
		"relay": strings.Repeat("k", 64),
		"trace": "1 0 0 1 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1\n",
	} {
		s.words[name] = filepath.Join(dir, map[string]string{"flow": "f.yaml", "trace": "t.swf", "jwt": "id.jwt",
			"relay": "relay.key"}[name])
		if err := os.WriteFile(s.words[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.words["key"] = filepath.Join(dir, "signing.pem")
	s.run("worker attest", "--generate-key "+s.words["key"], "")
	_, root := s.run("auth init", "--data "+s.words["data"], "")
	c, err := client.Dial([]string{s.node}, client.WithToken(strings.TrimSpace(root)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s.root = c
	return s
}

// run runs a command with a token.
func (s *stage) run(name, args, token string) (code int, out string) {
	s.t.Helper()
	for word, is := range s.words {
		args = strings.ReplaceAll(args, "{"+word+"}", is)
	}
	var stdout, stderr bytes.Buffer
	code = run(append(strings.Fields(name), strings.Fields(args)...),
		[]string{"ROTA_ADDR=" + s.addr, "ROTA_TOKEN=" + token}, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

// token returns a token with the given rights over everything, and the right debug, which no call needs.
func (s *stage) token(rights ...rota.Right) string {
	s.t.Helper()
	key := fmt.Sprint("of", rights)
	if s.tokens[key] == "" {
		grants := []rota.Grant{{Right: rota.RightDebug, Tenant: "*", Queue: "*"}}
		for _, r := range rights {
			grants = append(grants, rota.Grant{Right: r, Tenant: "*", Queue: "*"})
		}
		role := fmt.Sprint("role", len(s.tokens))
		if _, err := s.root.Auth().SetRole(s.t.Context(), rota.Role{Name: role, Grants: grants}); err != nil {
			s.t.Fatal(err)
		}
		_, secret, err := s.root.Auth().CreateToken(s.t.Context(),
			rota.AccessToken{Roles: []string{role}, Expires: rota.DateOf(time.Now().Add(time.Hour))})
		if err != nil {
			s.t.Fatal(err)
		}
		s.tokens[key] = secret
	}
	return s.tokens[key]
}

// needed returns the rights that a run needs, without optional ones.
func needed(c calls, args string) []rota.Right {
	methods := slices.Clone(c.always)
	for _, more := range c.also {
		if flag, with := strings.CutPrefix(more.when, "with "); with && strings.Contains(args, flag) ||
			strings.HasPrefix(more.when, "without ") {
			methods = append(methods, more.calls...)
		}
	}
	return rightsOf(methods)
}

// TestCommandCalls: each command makes the calls in its row and no other; it does its work for a token that has exactly
// the rights of these, and none for one that lacks any.
func TestCommandCalls(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	made := make(map[string][]string)
	var worker *recorder
	for _, step := range scene {
		row, ok := commandCalls[step.name]
		if !ok {
			t.Errorf("%s has no row", step.name)
		}
		rights := needed(row, step.args)
		if strings.Contains(step.args, "{token}") {
			s.words["token"] = strings.Split(s.token(rota.RightAuth), "_")[1]
			s.tokens = make(map[string]string)
		}
		for i := range rights {
			if row.none != "" || strings.HasPrefix(step.name, "bench ") {
				break // it uses the socket, or counts refusals and continues
			}
			others := slices.Delete(slices.Clone(rights), i, i+1)
			if code, out := s.run(step.name, step.args, s.token(others...)); code != cli.ExitDenied {
				t.Errorf("%s %s without %s: got exit code %d, want %d: %s", step.name, step.args, rights[i], code,
					cli.ExitDenied, out)
			}
		}
		s.rec.taken()
		token := s.token(slices.Concat(rights, sights[step.name])...)
		s.rec.taken()
		if step.name == "worker run" {
			worker = s.work(step.args, token)
			continue
		}
		if code, out := s.run(step.name, step.args, token); code != step.code {
			t.Errorf("%s %s with %v: got exit code %d, want %d: %s", step.name, step.args, rights, code, step.code, out)
		}
		made[step.name] = append(made[step.name], s.rec.taken()...)
	}
	made["worker run"] = worker.taken()
	for _, name := range slices.Sorted(maps.Keys(commandCalls)) {
		want := commandCalls[name].methods()
		for _, m := range want {
			if !slices.Contains(made[name], m) && unheard[name+" "+m] == "" {
				t.Errorf("%s does not call %s", name, m)
			}
		}
		for _, m := range made[name] {
			if !slices.Contains(want, m) {
				t.Errorf("%s calls %s, which its row does not list", name, m)
			}
		}
	}
}

// methods returns all calls of a row.
func (c calls) methods() []string {
	all := slices.Clone(c.always)
	for _, more := range c.also {
		all = append(all, more.calls...)
	}
	return all
}

// work runs a worker until the test's end, through its own recorder.
func (s *stage) work(args, token string) *recorder {
	s.t.Helper()
	rec := &recorder{t: s.t}
	ctx, cancel := context.WithCancel(context.Background())
	a := &cli.App{Environ: []string{"ROTA_ADDR=" + rec.listen("tcp", "127.0.0.1:0", s.node), "ROTA_TOKEN=" + token},
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &cli.LockedWriter{W: io.Discard}}
	root := rootCommand(a)
	root.SetArgs(append([]string{"worker", "run"}, strings.Fields(args)...))
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		<-done // it was retired
	})
	return rec
}

// publicCalls returns the methods of rota's services that clients may call, by reflection over everything linked into
// the binary.
func publicCalls() (methods []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("rota.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if service.Name() == "Node" {
				continue // between nodes
			}
			for k := range service.Methods().Len() {
				methods = append(methods, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(k).Name()))
			}
		}
		return true
	})
	return methods
}

// ofThePage are calls of the console's page, in its own session; no command uses one. `rota auth token revoke` ends
// sessions of others.
var ofThePage = []string{rotav1.Auth_ClaimSession_FullMethodName, rotav1.Auth_EndSession_FullMethodName}

// TestCommandCalls_complete: every command that does something has a row, every row is of an existing command and names
// existing calls, and every call for users has a command.
func TestCommandCalls_complete(t *testing.T) {
	t.Parallel()
	there, called := make(map[string]bool), make(map[string]bool)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if cmd.HasSubCommands() {
			return
		}
		path := pathOf(cmd)
		there[path] = true
		if _, ok := commandCalls[path]; !ok {
			t.Errorf("%s has no row in commandCalls: specify which calls it makes", path)
		}
		if cmd.Annotations[rightsKey] == "" || !strings.Contains(cmd.UsageString(),
			"Rights:\n  "+cmd.Annotations[rightsKey]) {
			t.Errorf("the help of %s lacks its rights %q", path, cmd.Annotations[rightsKey])
		}
	}
	walk(rootCommand(&cli.App{}))
	for path, c := range commandCalls {
		if !there[path] {
			t.Errorf("the row of %s is stale", path)
		}
		for _, m := range c.methods() {
			called["/rota.v1."+m] = true
			if _, ok := transport.Needs("/rota.v1." + m); !ok {
				t.Errorf("%s calls %s, which is not a call for clients", path, m)
			}
		}
		if c.none != "" && len(c.also) > 0 || c.none == "" && len(c.methods()) == 0 {
			t.Errorf("the row of %s must have either calls or a reason for having none, not both", path)
		}
	}
	for _, m := range publicCalls() {
		if !called[m] && !slices.Contains(ofThePage, m) {
			t.Errorf("%s is called by no command", m)
		}
	}
}
