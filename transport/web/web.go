package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// Calls are the services that answer: those of gRPC, called in the process.
type Calls struct {
	Jobs      rotav1.JobsServer
	Workers   rotav1.WorkersServer
	Queues    rotav1.QueuesServer
	Tenants   rotav1.TenantsServer
	Cluster   rotav1.ClusterServer
	Auth      rotav1.AuthServer
	Explain   rotav1.ExplainServer
	Batches   rotav1.BatchesServer
	Schedules rotav1.SchedulesServer
	Polling   Polling
	// Events calls send with the events that a filter selects, as the core does.
	Events func(ctx context.Context, filter rota.EventFilter, send func(*Batch) error) error
	// Stats are the node's figures, Live what viewers look at.
	Stats     func(ctx context.Context, coarse bool) (rest.Stats, error)
	Live      Live
	Keys      rotav1.KeysServer
	Plans     rotav1.PlansServer
	Workflows rotav1.WorkflowsServer
	Webhooks  rotav1.WebhooksServer
	// Lanes are the first lanes of a queue in an order, Views what each node finds of each other one.
	Lanes func(ctx context.Context, queue string, most int, oldest bool, read *rotav1.Read) (rest.Lanes, *rotav1.ReadAt, error)
	Views func(ctx context.Context) (rest.Views, error)
	// DatesOf are the first dates of a schedule that is not set yet.
	DatesOf func(times *rota.ScheduleTimes, most int) ([]rota.Date, error)
	// Round is a round as it is computed again.
	Round func(ctx context.Context, epoch, height uint64) (rest.Round, *rotav1.ReadAt, error)
	// Submit is Jobs.Submit in words, Await Jobs.Wait for one job.
	Submit func(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error)
	Await  func(ctx context.Context, id rota.JobID) error
	// These are streams of gRPC: what is sent or comes next is handed to or asked of the caller.
	WaitJobs       func(ctx context.Context, ids []string, send func(*rotav1.Job) error) error
	ShowWorkflow   func(ctx context.Context, req *rotav1.GetWorkflowRequest, send func(*rotav1.ShowWorkflowResponse) error) error
	SubmitWorkflow func(ctx context.Context, next func() (*rotav1.SubmitWorkflowRequest, error)) (*rotav1.WorkflowSubmitted, error)
	SaveSnapshot   func(ctx context.Context, send func(*rotav1.SnapshotChunk) error) error
}

// Door is what every request passes before anything of its body is read.
type Door interface {
	// Enter lets a request in, or refuses it. A call's name is its method and its pattern,
	// such as GET /v1/jobs/{id}; it gets so much time.
	Enter(w http.ResponseWriter, r *http.Request, call string, most time.Duration) (Visit, error)
	// Table identifies the rights of now: it is another one after any change.
	Table() any
	// Stay lets in a request whose answer goes on: until its caller loses the right, or the
	// node goes.
	Stay(r *http.Request, call string) (Visit, error)
}

// Visit is a request that was let in.
type Visit interface {
	// Context is the call's, with its caller and its deadline.
	Context() context.Context
	// Count counts memory that a body is going to take, waits until the node has room for it, and
	// refuses what is too much, and all once it was; below 0 is what is free again. What is counted at the end is
	// free by then.
	Count(n int) error
	// Arrived says that the body is whole.
	Arrived()
	// Settle judges how the call ended once more, by the rights of now.
	Settle(err error) error
	// Class names what the caller may read now: callers of one class read the same.
	Class() string
	// Draining reports that the node goes.
	Draining() bool
	// Panicked logs what a handler panicked with, and returns what its caller gets.
	Panicked(reason any) error
	// Leave ends it.
	Leave()
}

// Options is everything that a Site needs.
type Options struct {
	Calls Calls
	Door  Door
	// Node and Version stand in each response.
	Node, Version string
	// Origins are those of pages that may call beside the node's own.
	Origins []string
	// OfNode reports whether an origin is that of a node of the cluster, whose pages may call too;
	// nil is of none.
	OfNode func(origin string) bool
	// Life ends with the server.
	Life context.Context
}

// Site is the HTTP API.
type Site struct {
	options Options
	mux     *http.ServeMux
	api     huma.API
	cross   *http.CrossOriginProtection
	// calls are the methods of gRPC by the names of the calls.
	calls map[string]string
	stage *stage
	// plain are those whose responses are never compressed: they are sent as they come.
	plain map[string]bool
	// compressed is the mux behind what compresses responses.
	compressed http.Handler
}

// reckoned is set once: it is the library's own hook for what an error looks like.
var reckoned sync.Once

// New makes the API.
func New(options Options) (*Site, error) {
	reckoned.Do(func() { huma.NewError = reckon })
	s := &Site{options: options, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), calls: make(map[string]string), plain: make(map[string]bool)}
	for _, origin := range options.Origins {
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return nil, rota.Refusef(rota.KindInvalid, "origin", "origin: got %.80q; use a scheme and a host, such as https://console.example", origin)
		}
	}
	s.stage = &stage{live: options.Calls.Live, table: func() any { return s.options.Door.Table() }}
	s.api = humago.New(s.mux, settings())
	s.api.UseMiddleware(s.enter)
	s.jobs()
	s.queues()
	s.tenants()
	s.workers()
	s.polling()
	s.cluster()
	s.operations()
	s.batches()
	s.schedules()
	s.streams()
	s.stats()
	s.plans()
	s.keys()
	s.access()
	s.policyKeys()
	s.workflows()
	s.manyJobs()
	s.webhooks()
	s.views()
	if err := s.own(); err != nil {
		return nil, err
	}
	var err error
	if s.compressed, err = compressing(s.mux); err != nil {
		return nil, err
	}
	return s, nil
}

// settings are those of the library: JSON and nothing else, no pages of documentation, which
// would load foreign scripts.
func settings() huma.Config {
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	return huma.Config{
		OpenAPI: &huma.OpenAPI{OpenAPI: "3.1.0", Info: &huma.Info{Title: "rota", Version: "1",
			Description: "Jobs, queues, tenants, workers and the cluster of a replicated job scheduler. An error is " +
				"a problem (RFC 9457) with a kind. Times are Unix milliseconds in x_ms, each with x_at in RFC 3339.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
			Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "A token, as printed by rota auth token create."},
			}},
			Security: []map[string][]string{{"token": {}}, {}}},
		Formats:       map[string]huma.Format{mediaType: {Marshal: write}, "json": {Marshal: write}},
		DefaultFormat: mediaType,
	}
}

const mediaType = "application/json"

// write writes a body as the command line does.
func write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if o, ok := v.(interface{ inner() any }); ok {
		v = o.inner()
	}
	return e.Encode(v)
}

// Route is a call of the API.
type Route struct {
	// Name is the method and the pattern; Call is the method of gRPC whose rights it needs.
	Name, Call string
}

// Routes returns every call of the API.
func (s *Site) Routes() (all []Route) {
	for name, call := range s.calls {
		all = append(all, Route{name, call})
	}
	return all
}

// Serves reports whether a request is for the API.
func (s *Site) Serves(r *http.Request) bool {
	_, pattern := s.mux.Handler(r)
	return pattern != ""
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Rota-Node", s.options.Node)
	h.Set("Rota-Version", s.options.Version)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if origin := r.Header.Get("Origin"); origin != "" { // it is one that may: Hosts has looked at it
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, Rota-Age-Ms, Rota-Index, Rota-Node, Rota-Version")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Rota-Request-Id, Rota-Worker-Secret")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if n := len(r.URL.RequestURI()); n > maxURL {
		Refuse(w, rota.Refusef(rota.KindInvalid, "url", "url too long: got %d bytes, maximum %d", n, maxURL), http.StatusRequestURITooLong)
		return
	}
	if err := s.cross.Check(r); err != nil && !s.options.ofNode(r) {
		Refuse(w, rota.Refusef(rota.KindDenied, "origin", "a page of another site made this call: allow its origin with --cors-origin"), 0)
		return
	}
	switch {
	case !s.Serves(r):
		unknown(s, w, r)
		return
	case isStream(r):
		s.mux.ServeHTTP(w, r) // compressed, what goes on would wait for more
		return
	}
	if _, pattern := s.mux.Handler(r); s.plain[pattern] {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.compressed.ServeHTTP(w, r)
}

// ofNode reports whether a page of another node of the cluster asks.
func (o *Options) ofNode(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin != "" && o.OfNode != nil && o.OfNode(origin)
}

// maxURL bounds an address.
const maxURL = 8 << 10

// unknown answers what is no call.
func unknown(s *Site, w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if s.Serves(&other) {
			w.Header().Add("Allow", method)
		}
	}
	if len(w.Header().Values("Allow")) > 0 {
		Refuse(w, rota.Refusef(rota.KindInvalid, "method", "%.16s is not a method of %.200q: see the header Allow", r.Method, r.URL.Path), http.StatusMethodNotAllowed)
		return
	}
	Refuse(w, rota.Refusef(rota.KindNotFound, "path", "there is no %.200q: GET /openapi.json lists the calls; gRPC (rota.v1) is served by this "+
		"port too, and health and metrics by the admin port", r.URL.Path), 0)
}
