package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// overHTTP are the reads of a tenant's objects over HTTP.
var overHTTP = []string{"jobs", "jobs?view=full", "jobs/acme-waits", "jobs/acme-leased", "jobs/acme-ended",
	"jobs/acme-waits/why", "jobs/acme-leased/why",
	"jobs/acme-waits/eta", "queues", "queues/default", "queues/acme-queue", "tenants", "tenants/acme", "workflows",
	"workflows/acme-flow", "batches",
	"batches/acme-batch", "schedules", "schedules/acme-schedule", "webhooks", "key-rules", "key-states"}

// passing matches the parts of an answer that every entry of the log changes, for every reader: indexes, dates, and
// times that are counted from now.
var passing = regexp.MustCompile(
	`\d{12,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|in \d+ ms|for \d+ ms|"?index"?: *"?\d+"?|scanned: *"[0-9.]+"|"request_id":"[^"]*"`)

// fresh matches the age of an answer's state. An answer omits an age of 0.
var fresh = regexp.MustCompile(`\s*age_ms: *\d+`)

// run matches several such values in a row, such as the positions in a stream of events.
var run = regexp.MustCompile(`~(\s*~)+`)

// lasting returns an answer without these values.
func lasting(parts ...any) string {
	return run.ReplaceAllString(passing.ReplaceAllString(fresh.ReplaceAllString(fmt.Sprint(parts...), ""), "~"), "~")
}

// TestReads_otherLoad: no answer to a reader of one tenant, by any call over gRPC and HTTP, changes with one job of
// another tenant: one ahead of its jobs in their queue, one behind them, and one of a queue that it may not read.
func TestReads_otherLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, tenant := range []string{"acme", "umbrella"} {
		c.furnish(t, tenant)
	}
	c.rota(t, "auth", "role", "set", "acme", "--grant", "read tenant=acme", "--grant", "data tenant=acme").want(t, 0)
	reader := c.tokenFile(t, "--role", "acme")
	secret, err := os.ReadFile(reader[1])
	check(t, err)
	conn, err := grpc.NewClient(c.all[0].API, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	answers := func() map[string]string {
		t.Helper()
		all := make(map[string]string)
		protoregistry.GlobalFiles.RangeFilesByPackage("rota.v1", func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for k := range methods.Len() {
					method := methods.Get(k)
					requests := ofTenants[method.FullName()]
					if requests == nil {
						continue
					}
					for n, request := range requests("acme") {
						text, err := ask(t, conn, reader, method, request)
						all[fmt.Sprintf("%s %d", method.FullName(), n)] = lasting(text, err)
					}
				}
			}
			return true
		})
		for _, path := range overHTTP {
			got, body, err := request{method: "GET", path: "/v1/" + path,
				headers: []string{"Authorization", "Bearer " + strings.TrimSpace(string(secret))}}.ask(t, c.all[0])
			check(t, err)
			all["GET "+path] = lasting(got.StatusCode, body)
		}
		return all
	}
	differing := func(a, b map[string]string) (list []string) {
		for call, before := range a {
			if after := b[call]; after != before {
				list = append(list, fmt.Sprintf("%s:\n%s\nbecame\n%s", call, before, after))
			}
		}
		return list
	}
	for name, load := range map[string][]string{
		"before": {"--priority", "0"},
		"behind": {"--priority", "10"},
		"hidden": {"--queue", "umbrella-queue"},
	} {
		for try := 1; ; try++ {
			first := answers()
			if len(first) < 60 {
				t.Fatalf("only %d calls were made", len(first))
			}
			if passed := differing(first, answers()); len(passed) > 0 { // due to time: a silent worker, a hold due
				if try == 5 {
					t.Fatalf("answers change by themselves: %v", passed)
				}
				continue
			}
			c.rota(t, append([]string{"job", "submit", "--tenant", "umbrella", "--id",
				fmt.Sprintf("umbrella-%s-%d", name, try), "--type", "x"}, load...)...).want(t, 0)
			changed := differing(first, answers())
			if len(changed) == 0 {
				break
			}
			if try == 5 {
				t.Errorf("with one job more of another tenant, %s: %s", name, strings.Join(changed, "\n"))
				break
			}
		}
	}
}
