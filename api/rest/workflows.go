package rest

import "github.com/rotasched/rota"

// WorkflowRetry runs again what did not complete of a workflow.
type WorkflowRetry struct {
	// From is a node's id: only it, its descendants that did not complete, and what they wait
	// for. Without it all that did not complete.
	From string `json:"from,omitempty"`
	// Runs are the workflow's runs as last seen, which the retry follows, so that a repetition
	// of the call is known; without it as many as there are.
	Runs int32 `json:"runs,omitempty"`
}

// Signal is somebody's word to a gate.
type Signal struct {
	// ID makes it known: the same again is the same signal.
	ID string `json:"id"`
	// Payload is the gate's output, at most 64 KiB; of a refusal it says why.
	Payload rota.Blob `json:"payload,omitempty"`
	// Refuse ends the gate DEAD instead.
	Refuse bool `json:"refuse,omitempty"`
}
