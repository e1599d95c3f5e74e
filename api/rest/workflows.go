package rest

import "github.com/rotasched/rota"

// WorkflowRetry runs again the nodes of a workflow that did not complete.
type WorkflowRetry struct {
	// From is a node's id: only this node, its descendants that did not complete, and the nodes that they wait for run
	// again. The default is all that did not complete.
	From string `json:"from,omitempty"`
	// Runs is the last known number of runs, by which a repeated call is recognised; the default is the current one.
	Runs int32 `json:"runs,omitempty"`
}

// Signal ends the wait of a gate.
type Signal struct {
	// ID identifies the signal: a signal with the same id is the same signal.
	ID string `json:"id"`
	// Payload is the gate's output, at most 64 KiB; for a refusal, it is the reason.
	Payload rota.Blob `json:"payload,omitempty"`
	// Refuse ends the gate DEAD instead.
	Refuse bool `json:"refuse,omitempty"`
}
