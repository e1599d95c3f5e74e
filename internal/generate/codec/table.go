package codec

import (
	"reflect"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// message maps a message of a schema to words.
type message struct {
	// name is the message's own, without its package.
	name string
	// words is the corresponding type of package rota.
	words reflect.Type
	// places names the fields of words that are not spelled like the message's field.
	places map[string]string
	// unsent are fields of words that the message does not have.
	unsent []string
	// must is a field without which the message is refused, and called its name in the refusal.
	must, called string
}

// wireMessages are those that package words writes and reads without generated types, by their order in the file.
var wireMessages = []message{
	{name: "JobSpec", words: reflect.TypeFor[rota.JobSpec](), places: retryPlaces},
	{name: "Unique", words: reflect.TypeFor[rota.Unique]()},
	{name: "Lease", words: reflect.TypeFor[rota.Lease](), places: map[string]string{
		"epoch": "Decision.Epoch", "height": "Decision.Height", "score": "Decision.Score", "rank": "Decision.Rank",
		"reasoning": "Decision.Reasoning.Rule", "reasoning_n": "Decision.Reasoning.N",
		"reasoning_of": "Decision.Reasoning.Of",
		"seed":         "Decision.Seed",
	}},
	{name: "Assignment", words: reflect.TypeFor[rota.Assignment](), places: map[string]string{"lease_ms": "LeaseFor"},
		must: "lease", called: "a lease"}, {name: "LeaseEnd", words: reflect.TypeFor[peer.LeaseEnd]()},
	// The stream that carries a command determines its worker and session (SPEC §6.4); children are the growth.
	{name: "LeaseCommand", words: reflect.TypeFor[peer.LeaseCommand](),
		unsent: []string{"Worker", "Session", "Growth"}},
	{name: "LeaseAnswer", words: reflect.TypeFor[peer.LeaseAnswer](), places: map[string]string{"refusal": "Err"}},
	{name: "Submitted", words: reflect.TypeFor[rota.Submitted](), places: map[string]string{"refusal": "Err"}},
}

// wireFields are messages that package words reads and writes with hand-written code, because they are only lists of
// others or a choice: the numbers of their fields become constants.
var wireFields = []string{"WorkRequest", "WorkResponse", "Notices", "LeaseCommands", "LeaseAnswers", "SubmitRequest",
	"SubmitResponse"}

// entryMessage defines how the state machine's entry decoder reads a message of the log.
type entryMessage struct {
	name string
	// texts names how a text is read; any other text is a word that many operations share.
	texts map[string]string
	// lent are bytes that no row keeps unchanged: they are not copied.
	lent []string
}

// entryMessages are most of the content of a busy log.
var entryMessages = []entryMessage{
	{name: "JobSpec", texts: map[string]string{"id": "d.ids.text"}},
	{name: "Label", texts: map[string]string{"value": "text"}},
	{name: "Limit"},
	{name: "Unique", texts: map[string]string{"key": "text"}},
	{name: "LeaseOp", texts: map[string]string{"job": "d.brief.text", "text": "text"},
		lent: []string{"lease", "output_digest"}}, {name: "Pair", texts: map[string]string{"job": "d.brief.text"}},
}

// entryFields are messages of the log that the state machine reads with hand-written code, because they contain others.
var entryFields = []string{"Entry", "Commands", "Outcomes", "Op", "Submit", "Round"}

// storedSpec is a job's spec as the log stores it. Minted is stored next to it.
var storedSpec = message{name: "JobSpec", words: reflect.TypeFor[rota.JobSpec](), places: retryPlaces,
	unsent: []string{"Minted"}}

// retryPlaces are the places of a job's retry policy, whose fields belong to the message itself.
var retryPlaces = map[string]string{"retry_attempts": "Retry.Attempts", "retry_base_ms": "Retry.Base",
	"retry_factor_permille": "Retry.FactorPermille",
	"retry_cap_ms":          "Retry.Cap", "retry_jitter_permille": "Retry.JitterPermille"}
