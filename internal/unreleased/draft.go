package unreleased

import "github.com/rotasched/rota"

// Draft numbers the formats, digests and rules of rota before its first release. It
// grows by one with each change of them that makes what another binary wrote or says
// mean something else: until v0.1.0 stands in the file RELEASES there are no migrations,
// and what another draft wrote is refused by name (SPEC §16.0, ADR 25). From the first
// release on it stays as it is, and the rules version counts.
//
// Raised, it takes new golden files: go test ./fsm ./snapshot -run TestGolden -update.
const Draft = 36

// CheckDraft refuses, with kind Conflict, what another draft wrote or runs. what is the
// subject with its verb, such as "node n2 runs"; remedy is what to do.
func CheckDraft(what string, draft uint32, remedy string) error {
	if draft == Draft {
		return nil
	}
	return rota.Refusef(rota.KindConflict, "draft", "%s draft %d of an unreleased rota, this binary is draft %d: %s", what, draft, Draft, remedy)
}

// CheckNodeDraft refuses a node of another draft.
func CheckNodeDraft(id rota.NodeID, draft uint32) error {
	return CheckDraft("node "+string(id)+" runs", draft, "run the same binary on all nodes")
}
