package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// gossipKey is the cluster's gossip key.
const gossipKey = "0123456789abcdef0123456789abcdef"

// ours is the tenant of the actors; theirs the one that they attack. Payloads of the latter contain secretData.
const (
	ours, theirs rota.TenantID = "acme", "umbrella"
	secretData                 = "umbrella-data"
)

// scene is the attacked cluster, and the credentials and files of the actors.
type scene struct {
	dir, binary string
	plant       bool

	nodes                       rig.Nodes
	nodeCA, clientCA, foreignCA *authority
	tokens                      map[string]string
	root, acme, umbrella        *client.Client
	clerk, fleet                *client.Client
	life                        context.CancelFunc
	working                     sync.WaitGroup
	acknowledged                []rota.JobID
	held                        rota.Job
	recipient                   *age.X25519Recipient
	backup                      rota.StoredBackup
	// identities are those of data directories, by node.
	identities map[string]string
	loaded     rota.Index
}

// begin starts the nodes, locks them, and lets both tenants work.
func (s *scene) begin(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.found, s.lock, s.load, s.remove, s.store} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a file of the scene.
func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// found starts three nodes with certificates and a gossip key.
func (s *scene) found(ctx context.Context) (err error) {
	for _, a := range []struct {
		to   **authority
		name string
	}{{&s.nodeCA, "nodes"}, {&s.clientCA, "clients"}, {&s.foreignCA, "others"}} {
		if *a.to, err = newAuthority(a.name); err != nil {
			return err
		}
		if err := os.WriteFile(s.path(a.name+".pem"), (*a.to).pem(), 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.path("gossip.key"), []byte(gossipKey), 0o600); err != nil {
		return err
	}
	recipient, err := s.vault()
	if err != nil {
		return err
	}
	if s.nodes, err = rig.NewNodes(3, s.dir, s.binary); err != nil {
		return err
	}
	for _, n := range s.nodes {
		if err := s.certify(n); err != nil {
			return err
		}
		n.Flags = append(n.Flags, "--backup-to", s.path("backups"), "--backup-recipient", recipient)
	}
	return s.nodes.Start(ctx)
}

// certify gives a node its certificate and the flags of the cluster.
func (s *scene) certify(n *rig.Node) error {
	pair, err := s.nodeCA.node(n.ID)
	if err != nil {
		return err
	}
	n.Flags = append(n.Flags, "--tls-cert", s.path(n.ID+".pem"), "--tls-key", s.path(n.ID+".key"), "--node-ca",
		s.path("nodes.pem"), "--client-ca", s.path("clients.pem"), "--gossip-key-file", s.path("gossip.key"))
	return write(pair, s.path(n.ID+".pem"), s.path(n.ID+".key"))
}

// trusting returns the configuration with which clients verify a node.
func (s *scene) trusting(own ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.nodeCA.cert)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: own}
}

// dial returns a client with a token; empty is none.
func (s *scene) dial(token string) (*client.Client, error) {
	return client.Dial(s.nodes.APIs(), client.WithTLS(s.trusting()), client.WithToken(token),
		client.WithPatience(maxProbe/2))
}

// conn returns a bare connection to one node, with the given client certificates.
func (s *scene) conn(n *rig.Node, own ...tls.Certificate) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+n.API,
		grpc.WithTransportCredentials(credentials.NewTLS(s.trusting(own...))))
}

// lock makes the cluster require credentials, and makes the tokens.
func (s *scene) lock(ctx context.Context) error {
	local, err := client.Dial([]string{"unix:" + filepath.Join(s.nodes[0].Dir, "rota.sock")})
	if err != nil {
		return err
	}
	defer local.Close()
	soon := rota.DateOf(time.Now().Add(time.Hour))
	_, root, err := local.Auth().Init(ctx, soon)
	if err != nil {
		return err
	}
	s.tokens = map[string]string{"root": root}
	if s.root, err = s.dial(root); err != nil {
		return err
	}
	if _, err = s.root.Auth().SetRole(ctx, rota.Role{Name: "clerk",
		Grants: []rota.Grant{{Right: rota.RightAuth, Tenant: "*", Queue: "*"},
			{Right: rota.RightRead, Tenant: string(ours), Queue: "*"}}}); err != nil {
		return err
	}
	for name, want := range s.wanted(soon) {
		if _, s.tokens[name], err = s.root.Auth().CreateToken(ctx, want); err != nil {
			return fmt.Errorf("create token %s: %w", name, err)
		}
	}
	if err := s.root.Auth().RevokeToken(ctx, idOf(s.tokens["revoked"])); err != nil {
		return err
	}
	for name, to := range map[string]**client.Client{"acme": &s.acme, "umbrella": &s.umbrella, "clerk": &s.clerk,
		"fleet": &s.fleet} {
		if *to, err = s.dial(s.tokens[name]); err != nil {
			return err
		}
	}
	if s.plant {
		return s.root.Auth().SetAnonymous(ctx, []string{"root"})
	}
	return nil
}

// wanted returns the tokens of a run.
func (s *scene) wanted(soon rota.Date) map[string]rota.AccessToken {
	of := func(tenant rota.TenantID, role string) rota.AccessToken {
		return rota.AccessToken{Roles: []string{role}, Tenants: []string{string(tenant)}, Expires: soon}
	}
	bound := func(tenant rota.TenantID) rota.AccessToken {
		t := of(tenant, "worker")
		t.Queues, t.WorkerPrefix = []string{string(tenant)}, string(tenant)+"-"
		return t
	}
	short := of(ours, "submitter")
	short.Expires = rota.DateOf(time.Now().Add(2 * time.Second))
	all := map[string]rota.AccessToken{"acme": of(ours, "submitter"), "umbrella": of(theirs, "submitter"),
		"acme worker":     bound(ours),
		"umbrella worker": bound(theirs), "clerk": {Roles: []string{"clerk"}, Expires: soon},
		"fleet":   {Roles: []string{"clerk", "worker"}, WorkerPrefix: string(ours) + "-", Expires: soon},
		"revoked": of(ours, "submitter"), "expired": short}
	if s.plant {
		all["acme"] = rota.AccessToken{Roles: []string{"root"}, Expires: soon}
	}
	return all
}

func idOf(token string) string { return strings.Split(token, "_")[1] }

// load lets both tenants submit, and their workers work; one job of each is held under a lease, another waits.
func (s *scene) load(ctx context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.life = cancel
	for _, tenant := range []rota.TenantID{ours, theirs} {
		if _, err := s.root.SetQueue(ctx, rota.QueueName(tenant), "", nil); err != nil {
			return err
		}
		if err := s.worker(life, tenant); err != nil {
			return err
		}
	}
	for tenant, by := range map[rota.TenantID]*client.Client{ours: s.acme, theirs: s.umbrella} {
		for _, typ := range []rota.JobType{"done", "held", "idle"} {
			spec := rota.NewJobSpec(typ, []byte(string(tenant)+"-data"))
			spec.ID, spec.Tenant, spec.Queue = rota.JobID(string(tenant)+"-"+
				string(typ)), tenant, rota.QueueName(tenant)
			if _, err := by.Submit(ctx, spec); err != nil {
				return err
			}
			s.acknowledged = append(s.acknowledged, spec.ID)
		}
		nodes := []rota.NodeSpec{rota.NewNodeSpec("a", "idle", nil), rota.NewNodeSpec("b@run", "idle", nil, "a")}
		if _, err := by.SubmitWorkflow(ctx, rota.WorkflowSpec{ID: rota.WorkflowID(string(tenant) + "-flow"),
			Tenant: tenant,
			Queue:  rota.QueueName(tenant), Nodes: nodes}); err != nil {
			return err
		}
		job := rota.NewJobSpec("idle", nil)
		job.Tenant, job.Queue = tenant, rota.QueueName(tenant)
		daily := rota.NewScheduleSpec(rota.ScheduleName(tenant)+"-daily", job)
		daily.Every = 24 * time.Hour
		if _, err := by.Schedules().Set(ctx, daily); err != nil {
			return err
		}
		if _, err := client.BatchesOf(by).Open(ctx, rota.BatchSpec{ID: rota.BatchID(tenant) + "-batch",
			Callback: job}); err != nil {
			return err
		}
	}
	err := rig.Until(ctx, func() error {
		for id, state := range map[rota.JobID]rota.JobState{"acme-done": rota.JobCompleted,
			"umbrella-done": rota.JobCompleted, "umbrella-held": rota.JobRunning} {
			j, err := s.root.Job(ctx, id)
			if err != nil {
				return err
			}
			if j.State != state {
				return fmt.Errorf("job %s is %s, want %s", id, j.State, state)
			}
			if id == "umbrella-held" {
				s.held = j
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	status, err := s.root.Status(ctx)
	s.loaded = status.AppliedIndex
	return err
}

// worker starts the worker of a tenant: it ends jobs done, holds those held, and accepts no others.
func (s *scene) worker(life context.Context, tenant rota.TenantID) error {
	by, err := s.dial(s.tokens[string(tenant)+" worker"])
	if err != nil {
		return err
	}
	w, err := client.NewWorker(by, rota.WorkerSpec{ID: rota.WorkerID(tenant) + "-w",
		Queues: []rota.QueueName{rota.QueueName(tenant)}, Slots: 2, Types: []rota.JobType{"done", "held"}},
		client.WithHardStop(life), client.WithSecret([]byte(workerSecret)))
	if err != nil {
		return err
	}
	w.Handle("done", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
	w.Handle("held", func(ctx context.Context, _ *client.Job) (client.Result, error) {
		<-ctx.Done()
		return client.Result{}, context.Cause(ctx)
	})
	s.working.Go(func() { _ = w.Run(life); _ = by.Close() })
	return nil
}

// end ends all started processes and workers.
func (s *scene) end() {
	if s.life != nil {
		s.life()
	}
	s.working.Wait() // while there is still a cluster to report to
	s.nodes.Kill()
	for _, c := range []*client.Client{s.root, s.acme, s.umbrella, s.clerk, s.fleet} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// refused turns the answer of a call that must be refused into a probe's: by one of the kinds.
func refused(err error, kinds ...rota.Kind) (string, error) {
	if err == nil {
		return "", errors.New("it was accepted")
	}
	for _, k := range kinds {
		if rota.KindOf(err) == k {
			return err.Error(), nil
		}
	}
	return "", fmt.Errorf("refused for another reason: %w", err)
}
