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

// Calls holds the services that answer requests: those of gRPC, called in the same process.
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
	// Stats returns the node's figures, Live the states that viewers watch.
	Stats     func(ctx context.Context, coarse bool) (rest.Stats, error)
	Live      Live
	Keys      rotav1.KeysServer
	Budgets   rotav1.BudgetsServer
	Plans     rotav1.PlansServer
	Workflows rotav1.WorkflowsServer
	Webhooks  rotav1.WebhooksServer
	// Lanes returns the first lanes of a queue in an order, Views each node's view of every other node.
	Lanes func(ctx context.Context, queue string, most int, oldest bool, read *rotav1.Read) (rest.Lanes, *rotav1.ReadAt,
		error)
	Views func(ctx context.Context) (rest.Views, error)
	// DatesOf returns the first dates of a schedule that is not set yet.
	DatesOf func(times *rota.ScheduleTimes, most int) ([]rota.Date, error)
	// Round returns a round, computed again.
	Round func(ctx context.Context, epoch, height uint64) (rest.Round, *rotav1.ReadAt, error)
	// Submit is Jobs.Submit in Go types, Await is Jobs.Wait for one job.
	Submit func(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error)
	Await  func(ctx context.Context, id rota.JobID) error
	// The following are gRPC streams: each message to send is passed to the caller's function, and each next message is
	// requested from it.
	WaitJobs       func(ctx context.Context, ids []string, send func(*rotav1.Job) error) error
	ShowWorkflow   func(ctx context.Context, req *rotav1.GetWorkflowRequest, send func(*rotav1.ShowWorkflowResponse) error) error
	SubmitWorkflow func(ctx context.Context, next func() (*rotav1.SubmitWorkflowRequest, error)) (
		*rotav1.WorkflowSubmitted, error)
	SaveSnapshot func(ctx context.Context, send func(*rotav1.SnapshotChunk) error) error
}

// Door checks every request before anything of its body is read.
type Door interface {
	// Enter admits or rejects a request. A call's name is its method and its pattern, such as GET /v1/jobs/{id}; most
	// is its time limit.
	Enter(w http.ResponseWriter, r *http.Request, call string, most time.Duration) (Visit, error)
	// Table returns a value that identifies the current rights: any change yields a different one.
	Table() any
	// Stay admits a request with a long-lived answer: until its caller loses the right, or the node shuts down.
	Stay(r *http.Request, call string) (Visit, error)
}

// Visit is an admitted request.
type Visit interface {
	// Context returns the call's context, with its caller and its deadline.
	Context() context.Context
	// Count reserves n bytes of memory for a body and waits until the node has room. It returns an error when n is too
	// much, and for every call after that one. A negative n releases memory. Memory still reserved at the end is
	// released.
	Count(n int) error
	// Arrived reports that the body is complete.
	Arrived()
	// Settle checks the result of the call again under the current rights.
	Settle(err error) error
	// Class returns a name for what the caller may read now: callers of one class read the same.
	Class() string
	// Draining reports whether the node is shutting down.
	Draining() bool
	// Panicked logs a handler's panic, and returns the error for its caller.
	Panicked(reason any) error
	// Leave ends the request.
	Leave()
}

// Options holds everything that a Site needs.
type Options struct {
	Calls Calls
	Door  Door
	// Node and Version appear in each response.
	Node, Version string
	// Origins lists the origins, besides the node's own, whose pages may call.
	Origins []string
	// OfNode reports whether an origin belongs to a node of the cluster, whose pages may call too; with nil none does.
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
	// calls maps names of calls to gRPC methods.
	calls map[string]string
	stage *stage
	// plain holds the calls whose responses are never compressed: they are sent as they come.
	plain map[string]bool
	// compressed is the mux behind the compression handler.
	compressed http.Handler
}

// errorHook guards the library's global hook for the shape of errors, which is set once.
var errorHook sync.Once

// New returns the API.
func New(options Options) (*Site, error) {
	errorHook.Do(func() { huma.NewError = libraryError })
	s := &Site{options: options, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(),
		calls: make(map[string]string), plain: make(map[string]bool)}
	for _, origin := range options.Origins {
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return nil, rota.Refusef(rota.KindInvalid, "origin",
				"origin: got %.80q; use a scheme and a host, such as https://console.example", origin)
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
	s.budgets()
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

// settings returns the library's settings: JSON only, and no documentation pages, which would load foreign scripts.
func settings() huma.Config {
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	return huma.Config{
		OpenAPI: &huma.OpenAPI{OpenAPI: "3.1.0", Info: &huma.Info{Title: "rota", Version: "1",
			Description: "Jobs, queues, tenants, workers and the cluster of a replicated job scheduler. An error is " +
				"a problem (RFC 9457) with a kind. Times are Unix milliseconds in x_ms, each with x_at in RFC 3339.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
			Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer",
					Description: "A token, as printed by rota auth token create."},
			}},
			Security: []map[string][]string{{"token": {}}, {}}},
		Formats:       map[string]huma.Format{mediaType: {Marshal: write}, "json": {Marshal: write}},
		DefaultFormat: mediaType,
	}
}

const mediaType = "application/json"

// write encodes a body as the command line does.
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
	// Name is the method and the pattern; Call is the gRPC method whose rights it needs.
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
	if origin := r.Header.Get("Origin"); origin != "" { // allowed: Hosts has checked it
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers",
			"ETag, Location, Retry-After, Rota-Age-Ms, Rota-Index, Rota-Node, Rota-Version")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers",
				"Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Rota-Request-Id, Rota-Worker-Secret")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if n := len(r.URL.RequestURI()); n > maxURL {
		Refuse(w, rota.Refusef(rota.KindInvalid, "url", "url too long: got %d bytes, maximum %d", n, maxURL),
			http.StatusRequestURITooLong)
		return
	}
	if err := s.cross.Check(r); err != nil && !s.options.ofNode(r) {
		Refuse(w, rota.Refusef(rota.KindDenied, "origin",
			"a page of another site made this call: allow its origin with --cors-origin"), 0)
		return
	}
	switch {
	case !s.Serves(r):
		unknown(s, w, r)
		return
	case isStream(r):
		s.mux.ServeHTTP(w, r) // with compression, streamed data would wait for more
		return
	}
	if _, pattern := s.mux.Handler(r); s.plain[pattern] {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.compressed.ServeHTTP(w, r)
}

// ofNode reports whether the request comes from a page of another node of the cluster.
func (o *Options) ofNode(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin != "" && o.OfNode != nil && o.OfNode(origin)
}

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// unknown answers requests that match no call.
func unknown(s *Site, w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if s.Serves(&other) {
			w.Header().Add("Allow", method)
		}
	}
	if len(w.Header().Values("Allow")) > 0 {
		Refuse(w, rota.Refusef(rota.KindInvalid, "method", "%.16s is not a method of %.200q: see the header Allow",
			r.Method, r.URL.Path), http.StatusMethodNotAllowed)
		return
	}
	Refuse(w, rota.Refusef(rota.KindNotFound, "path",
		"unknown path %.200q: GET /openapi.json lists the calls; this port also serves gRPC (rota.v1), "+
			"the admin port serves health and metrics", r.URL.Path), 0)
}
