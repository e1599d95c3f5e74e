package codec

import (
	"reflect"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// message says what a message of a schema is in words.
type message struct {
	// name is the message's own, without its package.
	name string
	// words is the type of package rota that stands for it.
	words reflect.Type
	// places names the fields of words that are not spelled like the message's field.
	places map[string]string
	// unsent are fields of words that the message does not carry.
	unsent []string
	// must is a field without which the message is refused, and what the refusal calls it.
	must, called string
}

// wireMessages are those that package words writes and reads without the generated
// types between, by their order in the file.
var wireMessages = []message{
	{name: "JobSpec", words: reflect.TypeFor[rota.JobSpec](), places: retryPlaces},
	{name: "Unique", words: reflect.TypeFor[rota.Unique]()},
	{name: "Lease", words: reflect.TypeFor[rota.Lease](), places: map[string]string{
		"epoch": "Decision.Epoch", "height": "Decision.Height", "score": "Decision.Score", "rank": "Decision.Rank",
		"reasoning": "Decision.Reasoning.Rule", "reasoning_n": "Decision.Reasoning.N", "reasoning_of": "Decision.Reasoning.Of",
		"seed": "Decision.Seed",
	}},
	{name: "Assignment", words: reflect.TypeFor[rota.Assignment](), places: map[string]string{"lease_ms": "LeaseFor"}, must: "lease", called: "a lease"},
	{name: "LeaseEnd", words: reflect.TypeFor[peer.LeaseEnd]()},
	// The stream that carries a command stands for its worker and session (SPEC §6.4); children
	// are the growth.
	{name: "LeaseCommand", words: reflect.TypeFor[peer.LeaseCommand](), unsent: []string{"Worker", "Session", "Growth"}},
	{name: "LeaseAnswer", words: reflect.TypeFor[peer.LeaseAnswer](), places: map[string]string{"refusal": "Err"}},
	{name: "Submitted", words: reflect.TypeFor[rota.Submitted](), places: map[string]string{"refusal": "Err"}},
}

// wireFields are messages that package words reads and writes by hand, as they are only
// lists of others or a choice: the numbers of their fields become constants.
var wireFields = []string{"WorkRequest", "WorkResponse", "Notices", "LeaseCommands", "LeaseAnswers", "SubmitRequest", "SubmitResponse"}

// entryMessage says how the state machine's entry decoder reads a message of the log.
type entryMessage struct {
	name string
	// texts names how a text is read; another is a word that many operations share.
	texts map[string]string
	// lent are bytes that no row keeps as they are: they are not copied.
	lent []string
}

// entryMessages are those that most of a busy log consists of.
var entryMessages = []entryMessage{
	{name: "JobSpec", texts: map[string]string{"id": "d.ids.text"}},
	{name: "Label", texts: map[string]string{"value": "text"}},
	{name: "Limit"},
	{name: "Unique", texts: map[string]string{"key": "text"}},
	{name: "LeaseOp", texts: map[string]string{"job": "d.brief.text", "text": "text"}, lent: []string{"lease", "output_digest"}},
	{name: "Pair", texts: map[string]string{"job": "d.brief.text"}},
}

// entryFields are messages of the log that the state machine reads by hand, as they hold
// others.
var entryFields = []string{"Entry", "Commands", "Outcomes", "Op", "Submit", "Round"}

// storedSpec is a job's spec as the log carries it. Minted travels beside it.
var storedSpec = message{name: "JobSpec", words: reflect.TypeFor[rota.JobSpec](), places: retryPlaces, unsent: []string{"Minted"}}

// retryPlaces say where a job's retry policy stands, whose fields are the message's own.
var retryPlaces = map[string]string{"retry_attempts": "Retry.Attempts", "retry_base_ms": "Retry.Base", "retry_factor_permille": "Retry.FactorPermille",
	"retry_cap_ms": "Retry.Cap", "retry_jitter_permille": "Retry.JitterPermille"}
