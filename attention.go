package rota

// Attention lists the problems that need an operator, worst first, as seen by one node. A caller sees only those that
// its rights cover.
type Attention struct {
	Node NodeID `json:"node"`
	// Date is when it was computed, by the node's clock.
	Date     Date      `json:"date_ms"`
	Concerns []Concern `json:"concerns"`
	// Checked describes what was examined, such as "3 nodes".
	Checked []string `json:"checked"`
}

// Concern is one problem that needs an operator.
type Concern struct {
	// Kind is a word such as QUEUE_NO_WORKER (SPEC §13.19). Critical reports that work stops or data is at risk.
	Kind     string `json:"kind"`
	Critical bool   `json:"critical"`
	// Node or Queue names its subject; both are empty for one of the whole cluster.
	Node  NodeID    `json:"node,omitempty"`
	Queue QueueName `json:"queue,omitempty"`
	// Text is one sentence with the relevant number; Count is that number.
	Text  string `json:"text"`
	Count int64  `json:"count"`
	// Since is when it began; 0, and left out of JSON, if unknown.
	Since Date `json:"since_ms"`
	// Runbook is the page that describes what to do.
	Runbook string `json:"runbook"`
}
