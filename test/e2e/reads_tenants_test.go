package e2e

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// ofTenants returns the requests of each call that a reader of one tenant may make, for a tenant's objects, whose ids
// begin with its name.
var ofTenants = map[protoreflect.FullName]func(tenant string) []proto.Message{
	"rota.v1.Jobs.Get": func(x string) (all []proto.Message) {
		for _, id := range []string{"-leased", "-ended", "-waits", "-flow/first", "-flow/second"} {
			all = append(all, &rotav1.GetJobRequest{Id: x + id})
		}
		return all
	},
	"rota.v1.Jobs.List": func(x string) []proto.Message {
		return []proto.Message{&rotav1.ListJobsRequest{}, &rotav1.ListJobsRequest{Tenant: x},
			&rotav1.ListJobsRequest{Queue: "default", Limit: 100},
			&rotav1.ListJobsRequest{Queue: x + "-queue"}}
	},
	"rota.v1.Jobs.Log": func(x string) []proto.Message {
		return []proto.Message{&rotav1.JobLogRequest{Id: x + "-leased"}}
	},
	"rota.v1.Jobs.Wait": func(x string) []proto.Message {
		return []proto.Message{&rotav1.WaitJobsRequest{Ids: []string{x + "-ended"}}}
	},
	"rota.v1.Workflows.Get":  ofFlow,
	"rota.v1.Workflows.Show": ofFlow,
	"rota.v1.Workflows.List": func(x string) []proto.Message {
		return []proto.Message{&rotav1.ListWorkflowsRequest{}, &rotav1.ListWorkflowsRequest{Tenant: x}}
	},
	"rota.v1.Workflows.Wait": func(x string) []proto.Message {
		return []proto.Message{&rotav1.WaitWorkflowRequest{Id: x + "-over"}}
	},
	"rota.v1.Queues.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListQueuesRequest{}} },
	"rota.v1.Queues.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetQueueRequest{Name: x + "-queue"}}
	},
	"rota.v1.Tenants.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListTenantsRequest{}} },
	"rota.v1.Tenants.Get":  func(x string) []proto.Message { return []proto.Message{&rotav1.GetTenantRequest{Id: x}} },
	"rota.v1.Keys.List":    func(string) []proto.Message { return []proto.Message{&rotav1.ListKeyRulesRequest{}} },
	"rota.v1.Keys.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetKeyRequest{Tenant: x, Key: x + "-key:" + x}}
	},
	"rota.v1.Keys.States": func(x string) []proto.Message {
		return []proto.Message{&rotav1.ListKeyStatesRequest{}, &rotav1.ListKeyStatesRequest{Tenant: x},
			&rotav1.ListKeyStatesRequest{Queue: x + "-queue"},
			&rotav1.ListKeyStatesRequest{Name: x + "-key"}}
	},
	"rota.v1.Budgets.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListBudgetsRequest{}} },
	"rota.v1.Budgets.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetBudgetRequest{Name: x + "-budget"}}
	},
	"rota.v1.Budgets.Accounts": func(x string) []proto.Message {
		return []proto.Message{&rotav1.ListBudgetAccountsRequest{Name: x + "-budget"},
			&rotav1.ListBudgetAccountsRequest{Name: x + "-budget", Of: x}}
	},
	"rota.v1.Schedules.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListSchedulesRequest{}} },
	"rota.v1.Schedules.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetScheduleRequest{Name: x + "-schedule"}}
	},
	"rota.v1.Schedules.Next": func(x string) []proto.Message {
		return []proto.Message{&rotav1.NextDatesRequest{Name: x + "-schedule"}}
	},
	"rota.v1.Batches.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListBatchesRequest{}} },
	"rota.v1.Batches.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetBatchRequest{Id: x + "-batch"}}
	},
	"rota.v1.Batches.Wait": func(x string) []proto.Message {
		return []proto.Message{&rotav1.WaitBatchRequest{Id: x + "-batch"}}
	},
	"rota.v1.Webhooks.List": func(string) []proto.Message { return []proto.Message{&rotav1.ListWebhooksRequest{}} },
	"rota.v1.Webhooks.Get": func(x string) []proto.Message {
		return []proto.Message{&rotav1.GetWebhookRequest{Name: x + "-hook"}}
	},
	"rota.v1.Explain.Why": func(x string) []proto.Message {
		return []proto.Message{&rotav1.WhyRequest{Id: x + "-leased"}, &rotav1.WhyRequest{Id: x + "-ended"},
			&rotav1.WhyRequest{Id: x + "-waits"}}
	},
	"rota.v1.Explain.Eta": func(x string) []proto.Message {
		return []proto.Message{&rotav1.EtaRequest{Id: x + "-leased"}, &rotav1.EtaRequest{Id: x + "-ended"},
			&rotav1.EtaRequest{Id: x + "-waits"}}
	},
	"rota.v1.Events.Tail": func(x string) []proto.Message {
		return []proto.Message{&rotav1.TailRequest{}, &rotav1.TailRequest{Job: x + "-ended"}}
	},
}

func ofFlow(x string) []proto.Message {
	return []proto.Message{&rotav1.GetWorkflowRequest{Id: x + "-flow"}, &rotav1.GetWorkflowRequest{Id: x + "-over"}}
}

// ofNobody are the calls that return nothing about any tenant's objects, for every caller.
var ofNobody = []protoreflect.FullName{"rota.v1.Auth.WhoAmI", "rota.v1.Auth.Exchange", "rota.v1.Auth.OpenSession",
	"rota.v1.Auth.ClaimSession", "rota.v1.Auth.EndSession", "rota.v1.Explain.Past",
	"rota.v1.Cluster.Attention"}

// idless are the calls of ofTenants whose answers have no ids: for another tenant's object there is no answer.
var idless = []protoreflect.FullName{"rota.v1.Schedules.Next"}

// TestReads_everyCall: with every call of every service for clients, a reader of one tenant in one queue gets nothing
// of another tenant: no answer, of one message or many, has an id of it, and objects requested by id are not known.
// Calls that need another right are refused. Every other call is in ofTenants, with its requests.
func TestReads_everyCall(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, tenant := range []string{"acme", "umbrella"} {
		c.furnish(t, tenant)
	}
	c.rota(t, "auth", "role", "set", "acmes", "--grant", "read tenant=acme queue=default", "--grant",
		"read tenant=acme queue=acme-queue").want(t, 0)
	c.rota(t, "auth", "role", "set", "acme", "--grant", "read tenant=acme").want(t, 0)
	c.rota(t, "auth", "role", "set", "acme-keys", "--grant", "read tenant=* queue=acme-queue").want(t, 0)
	reader, ofTenant := c.tokenFile(t, "--role", "acmes"), c.tokenFile(t, "--role", "acme") // a tenant is in no queue
	c.rota(t, "auth", "role", "set", "acme-data", "--grant", "read tenant=acme", "--grant", "data tenant=acme").want(t,
		0)
	ofData := c.tokenFile(t, "--role", "acme-data")  // a log is data
	ofQueue := c.tokenFile(t, "--role", "acme-keys") // a rule is of no tenant
	conn, err := grpc.NewClient(c.all[0].API, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	calls := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("rota.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service, by := file.Services().Get(i), reader
			switch service.FullName() {
			case "rota.v1.Node":
				continue // calls between nodes need a node's certificate: TestMethods
			case "rota.v1.Tenants":
				by = ofTenant
			case "rota.v1.Webhooks", "rota.v1.Budgets":
				by = ofTenant // they see their tenant in every queue
			case "rota.v1.Keys":
				by = ofQueue
			}
			methods := service.Methods()
			for k := range methods.Len() {
				calls++
				if methods.Get(k).FullName() == "rota.v1.Jobs.Log" {
					by = ofData
				}
				t.Run(string(methods.Get(k).FullName()), func(t *testing.T) {
					readsNothingOfAnother(t, conn, by, methods.Get(k))
				})
			}
		}
		return true
	})
	if calls < 50 {
		t.Errorf("%d calls are found", calls)
	}
}

func readsNothingOfAnother(t *testing.T, conn *grpc.ClientConn, reader []string, method protoreflect.MethodDescriptor) {
	requests, known := ofTenants[method.FullName()]
	if !known {
		text, err := ask(t, conn, reader, method, dynamicpb.NewMessage(method.Input()))
		told := slices.Contains(ofNobody, method.FullName())
		if code := status.Code(err); !told && code != codes.PermissionDenied && code != codes.Unauthenticated ||
			strings.Contains(text, "umbrella") {
			t.Errorf("a reader is answered %s, %v: is it one of ofTenants?", text, err)
		}
		return
	}
	everything, own := "", ""
	for _, foreign := range requests("umbrella") {
		text, err := ask(t, conn, nil, method, foreign)
		if err != nil {
			t.Errorf("%v: a reader of everything gets %v", foreign, err)
		}
		everything += text
		text, err = ask(t, conn, reader, method, foreign)
		if code := status.Code(err); code != codes.OK && code != codes.NotFound {
			t.Errorf("%v: %v", foreign, err)
		}
		if strings.Contains(text, "umbrella") || err == nil && slices.Contains(idless, method.FullName()) {
			t.Errorf("%v is answered %s", foreign, text)
		}
	}
	for _, request := range requests("acme") {
		text, err := ask(t, conn, reader, method, request)
		if err != nil || strings.Contains(text, "umbrella") {
			t.Errorf("%v is answered %s, %v", request, text, err)
		}
		own += text
	}
	if slices.Contains(idless, method.FullName()) {
		if everything == "" || own == "" {
			t.Errorf("nothing is proven: a reader of everything gets %s, the reader of its own %s", clip(everything),
				clip(own))
		}
		return
	}
	if !strings.Contains(everything, "umbrella") || !strings.Contains(own, "acme") {
		t.Errorf("nothing is proven: a reader of everything gets %s, the reader of its own %s", clip(everything),
			clip(own))
	}
}

// ask makes a call and returns all its answers, and the error; the error's text lacks the requested ids.
func ask(t *testing.T, conn *grpc.ClientConn, token []string, method protoreflect.MethodDescriptor,
	request proto.Message) (text string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(showing(t, t.Context(), token))
	defer cancel()
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: method.IsStreamingClient(), ServerStreams: true},
		name)
	check(t, err)
	_ = stream.SendMsg(request) // a refusal arrives when receiving
	_ = stream.CloseSend()
	for {
		answer := dynamicpb.NewMessage(method.Output())
		if err = stream.RecvMsg(answer); err != nil {
			break
		}
		text += prototext.Format(answer)
	}
	if errors.Is(err, io.EOF) {
		return text, nil
	}
	said := status.Convert(err).Message()
	request.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		asked := []string{v.String()}
		if f.IsList() {
			asked = nil
			for i := range v.List().Len() {
				asked = append(asked, v.List().Get(i).String())
			}
		}
		for _, id := range asked {
			said = strings.ReplaceAll(said, id, "")
		}
		return true
	})
	return text + said, err
}

// furnish creates objects of every kind for a tenant, each with the tenant's name in its id: jobs that are leased, have
// ended and wait, workflows alive and over, a queue, a worker, limits.
func (c *nodes) furnish(t *testing.T, tenant string) {
	t.Helper()
	c.rota(t, "tenant", "set", tenant, "--weight", "2").want(t, 0)
	c.rota(t, "queue", "set", tenant+"-queue").want(t, 0)
	c.rota(t, "budget", "set", tenant+"-budget", "--tenant", tenant, "--each", "tenant", "--unit", "u", "--limit", "99",
		"--default-cost", "1").want(t, 0)
	submit := func(id string, more ...string) {
		c.rota(t, append([]string{"job", "submit", "--tenant", tenant, "--id", tenant + id, "--type", "x", "--payload",
			tenant}, more...)...).want(t, 0)
	}
	worker := c.handOf(t, c.all[0], c.tokenFile(t, "--role", "worker", "--tenant", tenant), tenant+"-worker",
		rota.DefaultQueue, 1)
	submit("-ended")
	l := worker.serves(rota.JobID(tenant + "-ended"))
	worker.does(rota.VerbAck, l)
	worker.does(rota.VerbComplete, l)
	submit("-leased")
	worker.does(rota.VerbAck, worker.serves(rota.JobID(tenant+"-leased")))
	submit("-waits")
	c.rota(t, "key", "set", tenant+"-key", "--queue", tenant+"-queue", "--concurrency", "1").want(t, 0)
	submit("-elsewhere", "--queue", tenant+"-queue", "--key", tenant+"-key:"+tenant)
	c.rota(t, "schedule", "set", tenant+"-schedule", "--cron", "0 0 1 1 *", "--tenant", tenant, "--type", "x",
		"--payload", tenant).want(t, 0)
	c.rota(t, "auth", "role", "set", tenant+"-hooks", "--grant", "read tenant="+tenant, "--grant",
		"control tenant="+tenant).want(t, 0)
	c.rota(t, append([]string{"webhook", "set", tenant + "-hook", "--url", "https://example.com/" + tenant},
		c.tokenFile(t, "--role", tenant+"-hooks")...)...).want(t, 0)
	c.rota(t, "batch", "open", tenant+"-batch", "--tenant", tenant, "--type", "x").want(t, 0)
	c.rota(t, "batch", "seal", tenant+"-batch").want(t, 0)
	for _, id := range []string{"-flow", "-over"} {
		flow := writeFile(t, filepath.Join(t.TempDir(), "flow.yaml"), "id: "+tenant+id+"\ntenant: "+tenant+"\nnodes:\n"+
			"  - {id: first, type: x, delay_ms: 3600000}\n  - {id: second, type: x, parents: [first]}\n")
		c.rota(t, "workflow", "submit", flow).want(t, 0)
	}
	c.rota(t, "workflow", "cancel", tenant+"-over").want(t, 0)
	c.awaitFlow(t, tenant+"-over", 6)
}
