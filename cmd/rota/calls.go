package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/transport"
)

// calls are what a command asks of a cluster. TestCommandCalls runs each command, and holds it
// to its row.
type calls struct {
	// always are what it cannot do without, such as Jobs/Submit.
	always []string
	// also are made in some runs only; those to something are done without where the right is
	// missing.
	also []alsoCalls
	// none gives the reason why there are no calls at all, or none that a right is asked for.
	none string
}

// alsoCalls are made with a flag, or to show something.
type alsoCalls struct {
	when  string
	calls []string
}

func always(methods ...string) calls { return calls{always: methods} }

// with are calls of runs with a flag.
func (c calls) with(flag string, methods ...string) calls { return c.when("with "+flag, methods) }

// to are calls that the command can do without.
func (c calls) to(what string, methods ...string) calls { return c.when("to "+what, methods) }

func (c calls) when(when string, methods []string) calls {
	c.also = append(slices.Clip(c.also), alsoCalls{when, methods})
	return c
}

// ofFiles, ofItself and bySocket are commands that ask nothing of a cluster, or only of the node on their machine.
var (
	ofFiles  = calls{none: "none: it works on files"}
	ofItself = calls{none: "none: it runs nodes of its own"}
	bySocket = calls{always: []string{"Auth/Init"},
		none: "those of the node's socket, which only the account that the node runs as and root may use"}
)

// commandCalls has every command that is not a group.
var commandCalls = map[string]calls{
	"server": ofItself, "dev": ofItself, "demo": ofItself, "version": {none: "none"},
	"simulate": ofFiles, "what-if": ofFiles, "operator size": {none: "none"}, "tls ca": ofFiles, "tls issue": ofFiles,
	"operator audit": ofFiles, "operator backup drill": ofFiles, "operator backup list": ofFiles,
	"operator snapshot inspect": ofFiles,
	"operator snapshot restore": ofFiles,
	"operator recover":          {none: "none: it looks for other members with the node's own certificate"},

	"auth init": bySocket, "auth reset": {always: []string{"Auth/Init", "Auth/ListTokens"}, none: bySocket.none},
	"auth whoami":       always("Auth/WhoAmI"),
	"auth token create": always("Auth/CreateToken"), "auth token list": always("Auth/ListTokens"),
	"auth token revoke": always("Auth/RevokeToken"),
	"auth role set":     always("Auth/SetRole"), "auth role list": always("Auth/ListRoles"),
	"auth role delete": always("Auth/DeleteRole"),
	"auth block":       always("Auth/SetBlock"), "auth unblock": always("Auth/SetBlock"),
	"auth blocks":     always("Auth/ListBlocks"),
	"auth issuer set": always("Auth/SetIssuer"), "auth issuer list": always("Auth/ListIssuers"),
	"auth issuer delete": always("Auth/DeleteIssuer"), "console": always("Auth/WhoAmI", "Auth/OpenSession"),
	"auth login":     always("Auth/Exchange"),
	"auth anonymous": always("Auth/SetAnonymous", "Auth/WhoAmI", "Auth/ListTokens"),

	"job submit": always("Jobs/Submit").to("show the job", "Jobs/Get").with("--wait", "Jobs/Wait"),
	"cost":       always("Jobs/List"),
	"job list":   always("Jobs/List", "Queues/Get"), "jobs": always("Jobs/List", "Queues/Get"),
	"job export": calls{}.when("without --from", []string{"Jobs/List", "Queues/Get"}),
	"job show":   always("Jobs/Get").to("say when it should start", "Explain/Eta"), "job logs": always("Jobs/Log"),
	"job why": always("Explain/Why").with("--at", "Explain/Past"), "job eta": always("Explain/Eta"),
	"job wait": always("Jobs/Wait"), "job change": always("Jobs/Get", "Jobs/Change"),
	"job cancel": always("Jobs/Cancel"), "job retry": always("Jobs/Get", "Jobs/Retry"),
	"job delete":    always("Jobs/Delete"),
	"job interrupt": always("Jobs/Interrupt"), "job run-now": always("Jobs/RunNow"),
	"job reject": always("Jobs/ReportProof"),

	"workflow submit": always("Workflows/Submit").with("--wait", "Workflows/Wait", "Workflows/Get"),
	"workflow list":   always("Workflows/List", "Queues/Get"), "workflows": always("Workflows/List", "Queues/Get"),
	"workflow show":  always("Workflows/Show").to("say how long it runs", "Cluster/Status"),
	"workflow graph": always("Workflows/Show"),
	"workflow wait":  always("Workflows/Wait", "Workflows/Get"), "workflow cancel": always("Workflows/Cancel"),
	"workflow signal": always("Workflows/Signal"),
	"workflow retry":  always("Workflows/Get", "Workflows/Retry").to("say how long it runs", "Cluster/Status"),

	"worker run":  always("Workers/Work", "Workers/Gone", "Workflows/ParentOutputs"),
	"worker list": always("Workers/List"), "workers": always("Workers/List"), "worker show": always("Workers/Get"),
	"worker drain": always("Workers/Drain"), "worker resume": always("Workers/Resume"),
	"worker suspend": always("Workers/Suspend"),
	"worker retire":  always("Workers/Retire"), "worker delete": always("Workers/Delete"),
	"worker attest": calls{}.when("without --cluster-id", []string{"Cluster/Status"}),

	"queue list": always("Queues/List"), "queues": always("Queues/List"), "queue show": always("Queues/Get"),
	"queue set":   always("Queues/Set"),
	"queue pause": always("Queues/Get", "Queues/Set"), "queue resume": always("Queues/Get", "Queues/Set"),
	"queue delete": always("Queues/Delete"),
	"tenant list":  always("Tenants/List"), "tenants": always("Tenants/List"), "tenant show": always("Tenants/Get"),
	"batch open": always("Batches/Open"), "batch seal": always("Batches/Seal"), "batch list": always("Batches/List"),
	"batch show": always("Batches/Get"), "batch wait": always("Batches/Wait"),
	"schedule set": always("Schedules/Set"), "schedule list": always("Schedules/List"),
	"schedule show": always("Schedules/Get"),
	"schedule next": always("Schedules/Next"), "schedule pause": always("Schedules/Pause"),
	"schedule resume":  always("Schedules/Resume"),
	"schedule trigger": always("Schedules/Trigger"), "schedule backfill": always("Schedules/Backfill"),
	"schedule delete": always("Schedules/Delete"),
	"webhook set":     always("Webhooks/Set"), "webhook list": always("Webhooks/List"),
	"webhook show":  always("Webhooks/Get"),
	"webhook pause": always("Webhooks/Pause"), "webhook resume": always("Webhooks/Resume"),
	"webhook skip":   always("Webhooks/Skip"),
	"webhook delete": always("Webhooks/Delete"), "webhook secret": always("Webhooks/Get"),
	"relay webhooks": always("Workers/Work", "Webhooks/Get"), "relay postgres": always("Jobs/Submit"),
	"plan start": calls{}.when("without --dry-run", []string{"Plans/Start"}).with("--dry-run",
		"Plans/Preview").with("--wait", "Plans/Get"),
	"plan list": always("Plans/List"), "plan show": always("Plans/Get"), "plan wait": always("Plans/Get"),
	"plan cancel": always("Plans/Cancel"),
	"tenant set":  always("Tenants/Set"), "tenant delete": always("Tenants/Delete"),

	"budget list": always("Budgets/List"), "budget set": always("Budgets/Set"),
	"budget show":  always("Budgets/Get").when("without --by", []string{"Budgets/Accounts"}).with("--by", "Jobs/List"),
	"budget grant": always("Budgets/Grant"), "budget reset": always("Budgets/Reset"), "budget delete": always("Budgets/Delete"),

	"key list": always("Keys/List"), "key show": always("Keys/Get"), "key set": always("Keys/Set"),
	"key delete": always("Keys/Delete"), "key skip": always("Keys/Skip"),
	"key pause": always("Keys/Pause"), "key resume": always("Keys/Resume"), "key top": always("Keys/States"),

	"events tail": always("Events/Tail"),
	"mode get":    always("Cluster/GetMode"), "mode set": always("Cluster/SetMode"),
	"status": always("Cluster/Attention"), "cluster status": always("Cluster/Status"),
	"cluster set":         always("Cluster/Set"),
	"tzdata install":      always("Cluster/InstallTZData"),
	"operator backup now": always("Cluster/Status", "Cluster/StoreBackup"),
	"operator debug": always("Cluster/Status").to("show Raft's configuration",
		"Cluster/Peers").to("show queues", "Queues/List").to("show the last events", "Events/Tail"),
	"operator upgrade check":            always("Cluster/Status", "Cluster/Peers"),
	"operator verify":                   always("Cluster/Verify"),
	"operator snapshot save":            always("Cluster/SaveSnapshot"),
	"operator raft leave":               always("Cluster/Leave"),
	"operator raft list-peers":          always("Cluster/Peers"),
	"operator raft remove-peer":         always("Cluster/Status", "Cluster/RemovePeer"),
	"operator raft transfer-leadership": always("Cluster/Status", "Cluster/TransferLeadership"),

	"bench fill": always("Queues/Get", "Queues/Set", "Jobs/Submit"),
	"bench jobs": always("Queues/Get", "Queues/Set", "Jobs/Submit", "Workers/Get", "Workers/Work").
		with("--costs", "Keys/Set", "Budgets/Set"),
	"bench trace": always("Queues/Get", "Queues/Set", "Jobs/Submit", "Workers/Get", "Workers/Work"),
	"bench workflow": always("Queues/Set", "Workflows/Submit", "Workflows/Wait", "Workflows/Show", "Events/Tail",
		"Workers/Get", "Workers/Work"),
}

// rightsOf lists the rights that calls need, in the order of the table in docs/security.md.
func rightsOf(methods []string) (rights []rota.Right) {
	for _, m := range methods {
		if r, _ := transport.Needs("/rota.v1." + m); r != rota.RightNone {
			rights = append(rights, r)
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

// text describes the rights that a command needs.
func (c calls) text() string {
	if c.none != "" {
		return c.none
	}
	own := rightsOf(c.always)
	text := listOf(own)
	for _, more := range c.also {
		rights := slices.DeleteFunc(rightsOf(more.calls), func(r rota.Right) bool { return slices.Contains(own, r) })
		if len(rights) > 0 {
			text += "; " + listOf(rights) + " " + more.when
		}
	}
	if text == "" {
		return "none"
	}
	return strings.TrimPrefix(text, "; ")
}

func listOf(rights []rota.Right) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = r.String()
	}
	return strings.Join(names, ", ")
}

// rightsKey is the annotation of a command's rights.
const rightsKey = "rights"

// addRights has the help of each command say which rights it needs.
func addRights(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		addRights(child)
	}
	if c, ok := commandCalls[pathOf(cmd)]; ok {
		cmd.Annotations = map[string]string{rightsKey: c.text()}
	}
}

// pathOf is a command's path without the binary's name.
func pathOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}
