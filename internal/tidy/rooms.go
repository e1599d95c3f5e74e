package tidy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ┌────────────────────────────────────────────────────────────────────────┐
// │  DO NOT EDIT THIS TABLE TO MAKE A BUILD PASS.                          │
// │                                                                        │
// │  It is the import table of the architecture. A line here is a wall of  │
// │  the house. When the work shows that a wall is in the wrong place, move│
// │  it in a commit of its own that says why.                              │
// └────────────────────────────────────────────────────────────────────────┘

// A room is a folder with the packages in it and in its subfolders, unless a longer path makes a separate room. It may
// always import itself.
type room struct {
	path string
	// may lists the rooms that it may import; "*" is all.
	may []string
	// tests lists the additional rooms that its tests may import.
	tests []string
	// only, if not nil, lists all external modules and packages that its sources (not its tests) may import in addition
	// to the standard library.
	only []string
	// never lists what neither its sources nor its tests may import.
	never []string
}

const (
	raftLibrary   = "github.com/hashicorp/raft"
	systemCalls   = "golang.org/x/sys"
	raftLog       = "github.com/hashicorp/go-hclog"
	gossip        = "github.com/hashicorp/memberlist"
	grpcLibrary   = "google.golang.org/grpc"
	protoLibrary  = "google.golang.org/protobuf"
	errorDetails  = "google.golang.org/genproto/googleapis/rpc/errdetails"
	boltLibrary   = "go.etcd.io/bbolt"
	commandLine   = "github.com/spf13/cobra"
	settings      = "github.com/knadh/koanf"
	orderedTree   = "github.com/tidwall/btree"
	fastHash      = "github.com/zeebo/xxh3"
	compression   = "github.com/klauspost/compress/zstd"
	blockCoding   = "github.com/klauspost/compress/s2"
	errorGroup    = "golang.org/x/sync/errgroup"
	yamlLibrary   = "gopkg.in/yaml.v3"
	metricsClient = "github.com/prometheus/client_golang"
	natsClient    = "github.com/nats-io/nats.go"
	objectStore   = "github.com/minio/minio-go"
	encryption    = "filippo.io/age"
	httpLibrary   = "github.com/danielgtaylor/huma/v2"
	callMetrics   = "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	tracingAPI    = "go.opentelemetry.io/otel"
	httpGzip      = "github.com/klauspost/compress/gzhttp"
	webSocket     = "github.com/coder/websocket"
	// postgresDriver reads an outbox.
	postgresDriver = "github.com/jackc/pgx/v5"
)

// raftStore is listed separately: a prefix matches whole path elements.
const raftStore = "github.com/hashicorp/raft-boltdb"

var rooms = []room{
	{path: ".", may: []string{"internal/jsonparts", "internal/millis", "internal/nearest"}, only: []string{}},
	{path: "sched", may: []string{".", "internal/limits"}, only: []string{orderedTree}},
	{path: "fsm", may: []string{".", "internal/access", "internal/filter", "internal/limits", "internal/peer", "sched",
		"fsm/entry", "fsm/fsmpb", "fsm/internal/authz", "fsm/internal/batches", "fsm/internal/budgets",
		"fsm/internal/hooks", "fsm/internal/keys", "fsm/internal/learn", "fsm/internal/plans", "fsm/internal/refuse",
		"fsm/internal/schedules", "fsm/internal/state", "fsm/internal/unique", "fsm/tree", "internal/jsonparts",
		"internal/millis"}, only: []string{orderedTree, fastHash, protoLibrary}, never: []string{raftLibrary,
		raftStore, gossip, grpcLibrary, boltLibrary, commandLine, settings}},
	{path: "fsm/internal/authz", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "fsm/tree", "internal/access", "internal/limits", "sched"}, only: []string{}},
	{path: "fsm/internal/batches", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/access", "internal/limits"}, only: []string{}},
	{path: "fsm/internal/budgets", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/limits", "sched"}, only: []string{orderedTree}},
	{path: "fsm/internal/hooks", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/access", "internal/filter", "internal/limits"}, only: []string{}},
	{path: "fsm/internal/keys", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "fsm/tree", "internal/access", "internal/limits", "internal/peer",
		"sched"}, only: []string{orderedTree}},
	{path: "fsm/internal/learn", may: []string{".", "fsm/internal/state", "internal/limits", "internal/millis",
		"sched"}, only: []string{orderedTree}},
	{path: "fsm/internal/plans", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/access", "internal/filter", "internal/limits"}, only: []string{}},
	{path: "fsm/internal/refuse", may: []string{".", "fsm/internal/state"}, only: []string{}},
	{path: "fsm/internal/schedules", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/access", "internal/limits", "internal/millis"}, only: []string{}},
	{path: "fsm/internal/unique", may: []string{".", "fsm/entry", "fsm/fsmpb", "fsm/internal/refuse",
		"fsm/internal/state", "internal/access", "internal/jsonparts", "internal/limits", "sched"}, only: []string{}},
	{path: "fsm/internal/state", may: []string{".", "internal/access", "internal/filter", "internal/limits",
		"internal/peer", "sched", "fsm/entry", "fsm/fsmpb", "fsm/tree", "internal/jsonparts", "internal/millis"},
		only: []string{orderedTree, fastHash, protoLibrary}},
	{path: "fsm/entry", may: []string{".", "internal/peer", "internal/filter", "internal/limits", "fsm/fsmpb",
		"internal/millis"}, only: []string{protoLibrary}}, {path: "fsm/tree", only: []string{orderedTree}},
	{path: "fsm/fsmpb", only: []string{protoLibrary}},
	{path: "snapshot", may: []string{"."}, only: []string{fastHash, compression},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary, boltLibrary, commandLine, settings}},
	{path: "snapshot/archive", may: []string{".", "internal/peer", "fsm"}, tests: []string{"fsm/entry", "fsm/fsmpb"},
		only: []string{boltLibrary, compression, blockCoding}},
	{path: "cluster", may: []string{".", "internal/access", "internal/peer", "internal/limits", "fsm", "fsm/entry",
		"fsm/fsmpb", "snapshot", "snapshot/archive", "internal/depot", "internal/failpoint", "internal/logs",
		"cluster/audit", "cluster/gossip", "cluster/history", "cluster/internal/caller", "cluster/internal/chores",
		"cluster/internal/clock", "cluster/internal/explain", "cluster/internal/fault", "cluster/internal/memory",
		"cluster/internal/meter", "cluster/internal/zones", "cluster/raftstore", "cluster/rebuild", "cluster/replica",
		"cluster/stream", "cluster/verbs", "internal/millis"},
		tests: []string{"cluster/recovery", "cluster/raftstore/wal", "internal/cron", "internal/joblog"},
		never: []string{grpcLibrary, commandLine, settings}},
	{path: "cluster/internal/caller", may: []string{".", "internal/access", "fsm/fsmpb"}, only: []string{}},
	{path: "cluster/internal/chores", may: []string{".", "internal/access", "internal/cron", "internal/depot",
		"internal/filter", "internal/limits", "internal/logs", "internal/peer", "fsm", "fsm/entry", "fsm/fsmpb",
		"snapshot", "cluster/history", "cluster/internal/clock", "cluster/internal/fault", "cluster/internal/meter",
		"cluster/internal/zones", "cluster/replica"}, only: []string{metricsClient}},
	{path: "cluster/internal/clock", only: []string{systemCalls}},
	{path: "cluster/internal/explain", may: []string{".", "internal/access", "internal/foresight/eta",
		"internal/limits", "internal/peer", "sched", "fsm", "fsm/fsmpb", "cluster/audit", "cluster/internal/fault",
		"cluster/verbs"}, only: []string{protoLibrary}},
	{path: "cluster/internal/fault", may: []string{".", "internal/peer", "fsm", "fsm/entry"}, only: []string{}},
	{path: "cluster/internal/memory", only: []string{}},
	{path: "cluster/internal/meter", may: []string{".", "internal/limits", "internal/peer", "fsm"},
		only: []string{metricsClient}},
	{path: "cluster/internal/zones", may: []string{".", "internal/cron", "fsm", "cluster/replica"},
		only: []string{metricsClient}},
	{path: "cluster/audit", may: []string{".", "internal/cron", "internal/limits", "fsm", "fsm/entry", "fsm/fsmpb",
		"snapshot", "cluster/raftstore"}, tests: []string{"internal/peer"}, only: []string{raftLibrary, protoLibrary}},
	{path: "cluster/gossip", may: []string{".", "internal/logs", "internal/secret"}, only: []string{gossip}},
	{path: "cluster/history", may: []string{".", "internal/access", "internal/peer", "fsm", "snapshot/archive",
		"internal/boltfile", "internal/failpoint",
		"internal/logs"}, tests: []string{"fsm/entry", "fsm/fsmpb"}, only: []string{boltLibrary, metricsClient}},
	{path: "cluster/rebuild", may: []string{".", "internal/peer", "fsm", "fsm/fsmpb", "snapshot", "snapshot/archive",
		"internal/failpoint", "internal/logs",
		"cluster/audit", "cluster/history", "cluster/raftstore"}, only: []string{raftLibrary, metricsClient}},
	{path: "cluster/replica", may: []string{".", "internal/access", "internal/failpoint", "internal/joblog",
		"internal/limits", "internal/peer", "fsm", "fsm/entry", "fsm/fsmpb", "snapshot", "cluster/internal/fault",
		"cluster/internal/meter", "cluster/rebuild"}, only: []string{compression}},
	{path: "cluster/recovery", may: []string{".", "fsm", "snapshot", "snapshot/archive", "cluster/history",
		"cluster/raftstore"},
		tests: []string{"fsm/entry", "fsm/fsmpb"}, only: []string{raftLibrary}},
	{path: "cluster/raftstore", may: []string{".", "cluster/raftstore/wal", "internal/boltfile", "internal/failpoint",
		"internal/logs"}, only: []string{raftLibrary, raftStore, boltLibrary, systemCalls}},
	{path: "cluster/raftstore/wal", may: []string{"internal/failpoint"}, only: []string{raftLibrary, systemCalls}},
	{path: "cluster/stream", may: []string{".", "internal/logs"}, tests: []string{"internal/identity"},
		only: []string{raftLibrary}},
	{path: "cluster/verbs", may: []string{".", "internal/access", "internal/cron", "internal/failpoint", "internal/filter",
		"internal/limits", "internal/millis", "internal/peer", "sched", "fsm", "fsm/entry",
		"fsm/fsmpb", "cluster/audit", "cluster/history", "cluster/internal/caller", "cluster/internal/fault",
		"cluster/internal/meter", "cluster/internal/zones", "cluster/raftstore", "cluster/replica"}, only: []string{}},
	{path: "api/rota/v1", only: []string{protoLibrary, grpcLibrary}},
	{path: "api/rest", may: []string{"."}, only: []string{}},
	{path: "api/words", may: []string{".", "internal/access", "internal/millis", "internal/peer", "internal/limits",
		"api/rest", "api/rota/v1"}, only: []string{protoLibrary, grpcLibrary, errorDetails}},
	{path: "transport/oidc", may: []string{".", "internal/access", "internal/jsonparts", "internal/limits"},
		tests: []string{"test/idp"}, never: []string{grpcLibrary}},
	{path: "transport/web", may: []string{".", "internal/jsonparts", "internal/limits", "internal/millis",
		"internal/nearest", "api/rest", "api/rota/v1", "api/words"}, only: []string{httpLibrary, httpGzip, webSocket}},
	{path: "transport", may: []string{".", "internal/access", "internal/joblog", "internal/peer", "internal/limits",
		"internal/logs", "internal/millis", "api/rest", "api/rota/v1", "api/words",
		"transport/oidc", "transport/web"}, tests: []string{"internal/identity", "test/idp", "api/rest"},
		never: []string{raftLibrary, raftStore, gossip, boltLibrary, commandLine, settings}},
	{path: "client", may: []string{".", "internal/access", "internal/joblog", "internal/peer", "internal/limits",
		"internal/secret", "api/rota/v1", "api/words"}, tests: []string{"test/rig", "test/idp"},
		never: []string{raftLibrary, raftStore, gossip, boltLibrary, commandLine, settings}},
	{path: "client/otelrota", may: []string{".", "client"}, only: []string{tracingAPI}},
	{path: "client/promrota", may: []string{"client"}, tests: []string{"client/rotatest"},
		only: []string{metricsClient, callMetrics}},
	{path: "client/rotatest", may: []string{".", "client", "cluster", "cluster/audit", "internal/virtualnet"},
		only: []string{}}, {path: "console", only: []string{}},
	{path: "cmd/rota", may: []string{"*"}},
	{path: "internal/cli", may: []string{"*"}},
	{path: "internal/filter", may: []string{".", "internal/limits"}, only: []string{fastHash}},
	{path: "internal/flowfile", may: []string{".", "internal/jsonparts", "internal/nearest", "internal/millis"},
		only: []string{yamlLibrary}}, {path: "internal/boltfile", may: []string{"."}, only: []string{}},
	{path: "internal/cron", may: []string{"."}, only: []string{}},
	{path: "internal/depot", may: []string{"."}, tests: []string{"test/bucket"},
		only: []string{objectStore, encryption}}, {path: "internal/failpoint", only: []string{boltLibrary}},
	{path: "internal/guard", may: []string{"."}, only: []string{systemCalls}},
	{path: "internal/identity", may: []string{"."}, only: []string{}},
	{path: "internal/secret", may: []string{"."}, only: []string{systemCalls}},
	{path: "internal/joblog", may: []string{".", "internal/limits"}, tests: []string{"api/rota/v1"},
		only: []string{protoLibrary}}, {path: "internal/logs", only: []string{raftLog}},
	{path: "internal/server", may: []string{".", "console", "internal/logs", "internal/peer", "cluster", "transport"},
		only:  []string{metricsClient, systemCalls},
		never: []string{raftLibrary, raftStore, gossip, commandLine, settings}},
	{path: "internal/relay", may: []string{".", "internal/jsonparts", "internal/limits", "internal/secret", "client"},
		tests: []string{"test/rig"}, only: []string{postgresDriver}},
	{path: "internal/loadgen", may: []string{".", "internal/limits", "client", "internal/flowfile", "internal/millis"},
		only: []string{errorGroup}},
	{path: "internal/foresight", may: []string{".", "internal/cron", "internal/limits", "internal/flowfile",
		"internal/millis", "internal/nearest", "fsm", "fsm/entry", "fsm/fsmpb"}, only: []string{}},
	{path: "internal/foresight/eta", may: []string{".", "internal/limits", "fsm", "fsm/entry", "fsm/fsmpb"},
		tests: []string{"internal/flowfile", "internal/foresight"}, only: []string{}},
	{path: "internal/access", may: []string{".", "internal/limits"}, only: []string{}},
	{path: "internal/limits", may: []string{"."}, only: []string{}},
	{path: "internal/peer", may: []string{"."}, only: []string{}},
	{path: "internal/virtualnet", may: []string{".", "internal/peer", "internal/server", "snapshot/archive", "cluster",
		"cluster/gossip", "transport"}, only: []string{boltLibrary}}, {path: "internal/jsonparts", only: []string{}},
	{path: "internal/millis", only: []string{}},
	{path: "internal/nearest", only: []string{}},
	{path: "internal/tidy", tests: []string{".", "api/rota/v1", "fsm/fsmpb", "internal/generate"}, only: []string{}},
	{path: "internal/upgrade", may: []string{"."}, only: []string{}},
	{path: "internal/generate", may: []string{".", "internal/peer"},
		only: []string{protoLibrary, "github.com/bufbuild/protocompile", "google.golang.org/genproto/googleapis/rpc"}},
	{path: "test/sim", may: []string{".", "internal/access", "internal/peer", "internal/limits", "sched", "fsm",
		"fsm/entry", "fsm/fsmpb", "snapshot",
		"internal/millis", "internal/cron"}, never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/virtual", may: []string{".", "internal/millis", "internal/peer", "internal/limits",
		"internal/virtualnet", "fsm", "snapshot",
		"cluster", "client", "test/jepsen-lite/check"}, tests: []string{"internal/flowfile", "internal/foresight"},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary, commandLine, settings}},
	{path: "test/e2e", may: []string{".", "client", "api/rota/v1", "api/words", "test/rig"},
		tests: []string{"internal/millis", "test/bucket", "test/idp", "internal/peer", "internal/limits"},
		never: []string{raftLibrary, raftStore, gossip}},
	{path: "test/conformance", may: []string{".", "client", "test/rig"},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/conformance/driver", may: []string{".", "client"},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary}}, {path: "test/bite", only: []string{}},
	{path: "test/bucket", only: []string{}},
	{path: "test/idp", only: []string{}},
	{path: "test/rig", may: []string{".", "client"}, only: []string{systemCalls}},
	{path: "test/bench", may: []string{".", "client", "api/rota/v1", "test/rig"},
		never: []string{raftLibrary, raftStore, gossip}},
	{path: "deploy/packages", only: []string{"github.com/goreleaser/nfpm/v2", "github.com/CycloneDX/cyclonedx-go"}},
	{path: "deploy/helm", only: []string{"helm.sh/helm/v3", "k8s.io/api", "sigs.k8s.io/kustomize/api",
		"sigs.k8s.io/kustomize/kyaml", "sigs.k8s.io/yaml"}},
	{path: "test/bench/peerjobs", only: []string{natsClient, "github.com/riverqueue/river", "github.com/jackc/pgx/v5",
		"github.com/hibiken/asynq", "github.com/beanstalkd/go-beanstalk", errorGroup}},
	{path: "test/upgrade", may: []string{".", "client", "test/rig"},
		tests: []string{"api/rota/v1", "fsm", "fsm/entry", "fsm/fsmpb", "snapshot"},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/crash", may: []string{".", "client", "test/rig"},
		never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/hostile", may: []string{".", "client", "api/rota/v1", "test/rig"},
		never: []string{raftLibrary, raftStore, gossip}},
	{path: "test/compat", may: []string{".", "client", "test/rig"}, only: []string{postgresDriver}},
	{path: "test/limits", may: []string{".", "client", "test/rig"}, only: []string{}},
	{path: "test/limits/peers/gopeers", only: []string{"github.com/hibiken/asynq", "go.temporal.io/api",
		"go.temporal.io/sdk"}},
	{path: "test/jepsen-lite/check", may: []string{"."}, never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/jepsen-lite/fault", may: []string{".", "client", "test/rig", "test/jepsen-lite/check"},
		tests: []string{"cluster/raftstore/wal"}, never: []string{raftLibrary, raftStore, gossip, grpcLibrary}},
	{path: "test/jepsen-lite/workload", may: []string{".", "internal/limits", "client", "api/rota/v1", "test/rig",
		"test/jepsen-lite/check",
		"test/jepsen-lite/fault"},
		never: []string{raftLibrary, raftStore, gossip}},
	{path: "test/jepsen-lite", may: []string{"test/rig", "test/jepsen-lite/check", "test/jepsen-lite/fault",
		"test/jepsen-lite/workload"}, never: []string{raftLibrary, raftStore, gossip}},
}

// roomOf returns the room that a folder belongs to: the longest path above it.
func roomOf(dir string) (room, bool) {
	best, found := room{}, false
	for _, r := range rooms {
		if beneath(dir, r.path) && (!found || len(r.path) > len(best.path)) {
			best, found = r, true
		}
	}
	return best, found
}

// beneath reports whether path is prefix or is under it; "." is itself only.
func beneath(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// checkRooms checks every import against the table.
func checkRooms(t *tree) []string {
	var faults []string
	for _, dir := range t.dirs() {
		if _, ok := roomOf(dir); !ok {
			faults = append(faults, fmt.Sprintf("%s: the table of rooms (internal/tidy/rooms.go) has no such room: "+
				"put the package into one, or build a room and say why in docs/architecture.md", dir))
		}
	}
	for _, f := range t.files {
		own, ok := roomOf(f.dir())
		if !ok {
			continue
		}
		for _, imp := range f.syntax.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s: import %s: %v", t.at(imp.Pos()), imp.Path.Value, err))
				continue
			}
			if why := own.refuses(path, f.test(), f.generated); why != "" {
				faults = append(faults, fmt.Sprintf("%s: room %s may not import %s: %s", t.at(imp.Pos()), own.path,
					path, why))
			}
		}
	}
	return faults
}

// refuses returns why a room may not import path, or "".
func (r room) refuses(path string, test, generated bool) string {
	if path == module || strings.HasPrefix(path, module+"/") {
		dir := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if dir == "" {
			dir = "."
		}
		target, ok := roomOf(dir)
		switch {
		case !ok:
			return "no room of the table"
		case target.path == r.path, slices.Contains(r.may, target.path), slices.Contains(r.may, "*"):
			return ""
		case test && slices.Contains(r.tests, target.path):
			return ""
		}
		return fmt.Sprintf("it may import %s only", list(r.may))
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return "" // the standard library: see checkPure
	}
	for _, p := range r.never {
		if beneath(path, p) {
			return "it must never see " + p
		}
	}
	if r.only == nil || test {
		return ""
	}
	for _, p := range r.only {
		if beneath(path, p) {
			return ""
		}
	}
	return fmt.Sprintf("from outside it may import %s only", list(r.only))
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
