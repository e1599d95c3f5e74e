package peer

import "github.com/rotasched/rota"

// BatchPage is one page of a list of batches.
type BatchPage struct {
	Batches []rota.Batch
	// Next asks for the next page; empty after the last.
	Next rota.BatchID
}
