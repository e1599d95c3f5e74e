package refuse

import "github.com/rotasched/rota"

// UnknownBatch refuses a batch that is not known.
func UnknownBatch(id rota.BatchID) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "batch", "batch %.80q is not known: open it first", id)
}

// UnknownHook refuses a webhook that is not known.
func UnknownHook(name rota.WebhookName) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "webhook", "webhook %.80q is not known", name)
}
