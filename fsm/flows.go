package fsm

import "github.com/rotasched/rota"

// flows holds the workflows, and releases their nodes.
type flows struct {
	m         *Machine
	workflows table[rota.WorkflowID, workflowRow, *workflowRow]
	// vertices are the workflows' nodes, by vertexKey.
	vertices  table[string, vertexRow, *vertexRow]
	flowIndex flowIndex
}
