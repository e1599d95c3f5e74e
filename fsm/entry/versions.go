package entry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/filter"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Versions of the rules (SPEC §2.6). Every state contains the version in force. Entries are sealed with it, and
// operations of a newer version are not proposed, so that nodes with an older binary continue next to newer ones. Once
// every voter knows a newer version, the leader puts it into force with SwitchRules. Code that depends on a version
// checks Header.Rules, never what the binary knows.
const (
	// RulesVersion is the newest version that this binary knows.
	RulesVersion = 2
	// FirstRules is the version that a cluster begins with.
	FirstRules = 1
	// MaxRules is the greatest version that fits in an envelope.
	MaxRules = 1<<16 - 1
)

// newer is a queue setting added after FirstRules, and the version that added it. Without a value it applies to the key
// with any value; the key "preset" covers presets.
type newer struct {
	key, value string
	// above, unless 0, limits the entry to values greater than this number.
	above   int64
	version uint32
}

var newerSettings = []newer{
	{key: "worker_losses_max", version: 2}, {key: "health_provider_fail", version: 2},
	{key: "unseeded", version: 2}, {key: "renew_adds", version: 2}, {key: "batch_size", above: 1_000, version: 2},
	{key: "backfill", value: "conservative", version: 2},
	{key: "estimate", value: "last2", version: 2}, {key: "estimate", value: "ema", version: 2},
	{key: "estimate", value: "quantile", version: 2},
	{key: "ranking", value: "smallest", version: 2}, {key: "preset", value: "batch", version: 2},
}

// Needs returns the rules version that must be in force for an operation to be proposed. An operation, or a field of
// one, that a released binary does not know is listed here with a newer version.
func Needs(op *fsmpb.Op) uint32 {
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_SetQueue:
		return settingsNeed(o.SetQueue, newerSettings)
	case *fsmpb.Op_SetTzdata, *fsmpb.Op_InterruptJob, *fsmpb.Op_RunJobNow, *fsmpb.Op_PauseKey,
		*fsmpb.Op_SetBudget, *fsmpb.Op_DeleteBudget, *fsmpb.Op_GrantBudget, *fsmpb.Op_ResetBudget, *fsmpb.Op_TurnBudget:
		return 2
	case *fsmpb.Op_BackfillSchedule:
		if o.BackfillSchedule.GetTzdata() != "" {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_Lease:
		if len(o.Lease.GetCosts()) > 0 || o.Lease.GetPauseKey() != "" {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_SetKeyRule:
		if r := o.SetKeyRule; r.GetUnit() != "" || r.GetDefaultCost() != 0 || r.Breaker != nil || r.GetRefuseFull() {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_Submit:
		return SpecNeeds(o.Submit.GetSpec())
	case *fsmpb.Op_Retry:
		if len(o.Retry.GetPast().GetSpent()) > 0 {
			return 2
		}
		return SpecNeeds(o.Retry.GetSpec())
	case *fsmpb.Op_SetSchedule:
		return SpecNeeds(o.SetSchedule.GetJob())
	case *fsmpb.Op_OpenBatch:
		return SpecNeeds(o.OpenBatch.GetCallback())
	case *fsmpb.Op_StartPlan:
		if v := o.StartPlan.GetVerb(); v <= uint32(rota.PlanVerbLast) && rota.PlanVerb(v).Workflows() {
			return 2
		}
		f, err := filter.Parse(o.StartPlan.GetFilter())
		blocked := o.StartPlan.GetVerb() == uint32(rota.PlanCancel) && !f.May(rota.PlanCancel.States()...) &&
			f.May(rota.JobBlocked)
		if err == nil && (f.Has(filter.Worker) || blocked) {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_ChangeJob:
		if o.ChangeJob.StartByMs != nil {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_SetRole:
		if slices.ContainsFunc(o.SetRole.GetGrants(),
			func(g *fsmpb.Grant) bool { return g.GetRight() > uint32(rota.RightDebug) }) {
			return 2
		}
		return FirstRules
	case *fsmpb.Op_AddNodes:
		return nodesNeed(o.AddNodes.GetNodes())
	default:
		return FirstRules
	}
}

// SpecNeeds returns the rules version that a job's fields need.
func SpecNeeds(s *fsmpb.JobSpec) uint32 {
	if how := s.GetUnique().GetOnConflict(); how == rota.UniqueAfter || how == rota.UniqueCollect ||
		s.GetStartByMs() != 0 || len(s.GetCosts()) > 0 {
		return 2
	}
	return FirstRules
}

// nodesNeed returns the rules version that the fields of a workflow's nodes need.
func nodesNeed(nodes []*fsmpb.WorkflowNode) uint32 {
	needs := uint32(FirstRules)
	for _, n := range nodes {
		if needs = max(needs, SpecNeeds(n.GetSpec())); n.GetRun() != 0 {
			needs = max(needs, 2)
		}
	}
	return needs
}

// GrowthNeeds is nodesNeed for the children that a completion adds.
func GrowthNeeds(g *fsmpb.Growth) uint32 { return nodesNeed(g.GetNodes()) }

// settingsNeed returns the newest rules version that any of a queue's settings needs.
func settingsNeed(op *fsmpb.SetQueue, table []newer) uint32 {
	needs := uint32(FirstRules)
	for _, n := range table {
		is := func(key, value string) bool { // as rota.QueuePolicy.Set reads them
			value = strings.TrimSpace(value)
			number, err := strconv.ParseInt(value, 10, 64)
			return strings.EqualFold(strings.TrimSpace(key), n.key) &&
				(n.value == "" || strings.EqualFold(value, n.value)) &&
				(n.above == 0 || err == nil && number > n.above)
		}
		if op.GetPreset() != "" && is("preset", op.GetPreset()) ||
			slices.ContainsFunc(op.GetSet(), func(l *fsmpb.Label) bool { return is(l.GetKey(), l.GetValue()) }) {
			needs = max(needs, n.version)
		}
	}
	return needs
}

// RefuseNewer refuses an operation that needs newer rules than are in force, like a binary of those rules, which does
// not know the operation.
func RefuseNewer(op *fsmpb.Op, rules uint32) *rota.Error {
	if needs := Needs(op); needs > rules {
		return rota.Refusef(rota.KindConflict, "rules_version",
			"it needs rules version %d, version %d is in force: it can be used once every node runs a newer binary (rota cluster status -o wide shows which do not)", needs, rules)
	}
	return nil
}

// errUnknown refuses an entry whose rules are known but whose content is not: skipping it would make this node's state
// differ.
var errUnknown = errors.New("it holds an operation, or a field of one, that this binary does not know")

// unknown reports whether a message holds, at any depth, a field that this binary does not know.
func unknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap(): // map values are texts
		case f.IsList():
			for i, list := 0, v.List(); i < list.Len() && !found; i++ {
				found = unknown(list.Get(i).Message())
			}
		default:
			found = unknown(v.Message())
		}
		return !found
	})
	return found
}

// TooOld returns the error of a node that meets rules that it does not know.
func TooOld(index rota.Index, needs, knows uint32) *HaltError {
	return &HaltError{Index: index, NewerRules: true,
		Reason: fmt.Sprintf("it needs rules version %d, this binary knows %d", needs, knows)}
}
