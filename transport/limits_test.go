package transport

import (
	"context"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
)

func join(tables ...map[string]unaryRow) map[string]unaryRow {
	all := make(map[string]unaryRow)
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// limitsUnary returns each call about limits, tenants, modes and proofs.
func limitsUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	tenant := func(id, key, value string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.tenants.Set(ctx, &rotav1.SetTenantRequest{Id: id,
				Set: []*rotav1.Setting{{Key: key, Value: value}}})
		}
	}
	mode := func(mode, reason string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.cluster.SetMode(ctx, &rotav1.SetModeRequest{Mode: mode, Reason: reason})
		}
	}
	gone := func(id string, secret []byte) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.workers.Gone(ctx, &rotav1.WorkerGoneRequest{Id: id, Session: 7, Secret: secret})
		}
	}
	keyRule := func(name string, concurrency int64) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.keys.Set(ctx, &rotav1.SetKeyRuleRequest{Rule: &rotav1.KeyRule{Name: name,
				Concurrency: concurrency}})
		}
	}
	key := func(tenant, key string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.keys.Get(ctx, &rotav1.GetKeyRequest{Tenant: tenant, Key: key})
		}
	}
	skip := func(key, job string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.keys.Skip(ctx, &rotav1.SkipKeyRequest{Tenant: "t", Key: key, Job: job})
		}
	}
	pause := func(tenant, key string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.keys.Pause(ctx, &rotav1.PauseKeyRequest{Tenant: tenant, Key: key, UntilMs: 5})
		}
	}
	resume := func(tenant, key string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.keys.Resume(ctx, &rotav1.ResumeKeyRequest{Tenant: tenant, Key: key})
		}
	}
	return map[string]unaryRow{
		"jobs report proof": {func(ctx context.Context) (proto.Message, error) {
			return b.jobs.ReportProof(ctx, &rotav1.ReportProofRequest{Id: "j1", Reason: "wrong sum"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.jobs.ReportProof(ctx, &rotav1.ReportProofRequest{Id: "j1"})
		}, `state:"QUEUED"`},
		"jobs report proof lease": {func(ctx context.Context) (proto.Message, error) {
			return b.jobs.ReportProof(ctx, &rotav1.ReportProofRequest{Id: "j1", LeaseId: make([]byte, 32), Reason: "x"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.jobs.ReportProof(ctx, &rotav1.ReportProofRequest{Id: "j1", LeaseId: []byte{1}, Reason: "x"})
		}, `index:6`},
		"workers suspend": {func(ctx context.Context) (proto.Message, error) {
			return b.workers.Suspend(ctx, &rotav1.SuspendWorkerRequest{Id: "w1"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.workers.Suspend(ctx, &rotav1.SuspendWorkerRequest{})
		}, `status:"SUSPENDED"`},
		"workers resume": {func(ctx context.Context) (proto.Message, error) {
			return b.workers.Resume(ctx, &rotav1.ResumeWorkerRequest{Id: "w1"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.workers.Resume(ctx, &rotav1.ResumeWorkerRequest{Id: "w 1"})
		}, `status:"ACTIVE"`},
		"workers retire": {func(ctx context.Context) (proto.Message, error) {
			return b.workers.Retire(ctx, &rotav1.RetireWorkerRequest{Id: "w1"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.workers.Retire(ctx, &rotav1.RetireWorkerRequest{Id: "w/1"})
		}, `status:"RETIRED"`},
		"workers gone":    {gone("w1", secret16), gone("w1", secret16[:15]), ``},
		"workers gone id": {gone("w1", secret16), gone("w/1", secret16), ``},
		"tenants list": {func(ctx context.Context) (proto.Message, error) {
			return b.tenants.List(ctx, &rotav1.ListTenantsRequest{})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.tenants.List(ctx, &rotav1.ListTenantsRequest{Limit: -1})
		}, `index:4`},
		"budgets set": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: &rotav1.Budget{Name: "b", Unit: "usd"}})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: &rotav1.Budget{Name: "b"}})
		}, `spent:3`},
		"budgets set each": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: &rotav1.Budget{Name: "b", Unit: "usd", Each: "job"}})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: &rotav1.Budget{Name: "b", Unit: "usd", Each: "x"}})
		}, `each:"job"`},
		"budgets delete": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Delete(ctx, &rotav1.DeleteBudgetRequest{Name: "b"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Delete(ctx, &rotav1.DeleteBudgetRequest{})
		}, ""},
		"budgets list": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.List(ctx, &rotav1.ListBudgetsRequest{})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.List(ctx, &rotav1.ListBudgetsRequest{Limit: -1})
		}, `unit:"usd"`},
		"budgets list asking": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.List(ctx, &rotav1.ListBudgetsRequest{Asking: true})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.List(ctx, &rotav1.ListBudgetsRequest{Asking: true, Limit: -1})
		}, `asking:2`},
		"budgets accounts asking": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Name: "b", Asking: true})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Asking: true})
		}, `asks:true`},
		"budgets get": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Get(ctx, &rotav1.GetBudgetRequest{Name: "b"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Get(ctx, &rotav1.GetBudgetRequest{Name: "b c"})
		}, `name:"b"`},
		"budgets accounts": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Name: "b", Of: "t"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Name: "b", Limit: -1})
		}, `held:7`},
		"budgets grant": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Grant(ctx, &rotav1.GrantBudgetRequest{Name: "b", Amount: 5, Id: "g"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Grant(ctx, &rotav1.GrantBudgetRequest{Name: "b", Amount: 5})
		}, `granted:5`},
		"budgets reset": {func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Reset(ctx, &rotav1.ResetBudgetRequest{Name: "b", Id: "r"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.budgets.Reset(ctx, &rotav1.ResetBudgetRequest{Id: "r"})
		}, ""},
		"keys set":        {keyRule("account", 1), keyRule("a:b", 1), ""},
		"keys set bounds": {keyRule("account", 1), keyRule("account", -1), ""},
		"keys set none":   {keyRule("account", 1), keyRule("account", 0), ""},
		"keys delete": {func(ctx context.Context) (proto.Message, error) {
			return b.keys.Delete(ctx, &rotav1.DeleteKeyRuleRequest{Name: "account"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.keys.Delete(ctx, &rotav1.DeleteKeyRuleRequest{Name: ""})
		}, ""},
		"keys list": {func(ctx context.Context) (proto.Message, error) {
			return b.keys.List(ctx, &rotav1.ListKeyRulesRequest{})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.keys.List(ctx, &rotav1.ListKeyRulesRequest{Limit: -1})
		}, `sequence:"skip"`},
		"keys states": {func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Name: "account", Held: "full"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Held: "empty"})
		}, `full:true`},
		"keys states limit": {func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Cursor: "c"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Limit: -1})
		}, `next_cursor:"3/5/c"`},
		"keys states name": {func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Queue: "q"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.keys.States(ctx, &rotav1.ListKeyStatesRequest{Name: "a:b"})
		}, `queue:"q"`},
		"keys get":           {key("t", "account:7"), key("t", "account"), `blocker:"j"`},
		"keys get tenant":    {key("t", "account:7"), key("", "account:7"), `tenant:"t"`},
		"keys pause":         {pause("t", "account:7"), pause("t", "account"), ""},
		"keys pause tenant":  {pause("", "account:7"), pause("a b", "account:7"), ""},
		"keys resume":        {resume("t", "account:7"), resume("t", "account"), ""},
		"keys resume tenant": {resume("", "account:7"), resume("a b", "account:7"), ""},
		"keys skip":          {skip("account:7", "j"), skip("account", "j"), ""},
		"keys skip job":      {skip("account:7", "j"), skip("account:7", ""), ""},
		"tenants get": {func(ctx context.Context) (proto.Message, error) {
			return b.tenants.Get(ctx, &rotav1.GetTenantRequest{Id: "t1"})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.tenants.Get(ctx, &rotav1.GetTenantRequest{Id: ""})
		}, `weight:1`},
		"tenants set": {tenant("t1", "tier", "PREMIUM"), tenant("t1", "tier", "GOLD"), `tier:"PREMIUM"`},
		"tenants key": {tenant("t1", "weight", "7"), tenant("t1", "speed", "7"), `weight:7`},
		"tenants id":  {tenant("t1", "max_concurrent", "7"), tenant("t 1", "weight", "7"), `max_concurrent:7`},
		"mode get": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.GetMode(ctx, &rotav1.GetModeRequest{})
		}, nil, `drained:true`},
		"mode set":    {mode("READ_ONLY", "move"), mode("SLEEPING", "move"), `mode:"READ_ONLY"`},
		"mode none":   {mode("NORMAL", "done"), mode("", "done"), `mode:"NORMAL"`},
		"mode reason": {mode("DRAINING", "x"), mode("DRAINING", ""), `reason:"x"`},
		"mode long reason": {mode("DRAINING", "y"), mode("DRAINING", strings.Repeat("y", limits.MaxReasonBytes+1)),
			`reason:"y"`},
	}
}
