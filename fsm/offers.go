package fsm

import (
	"crypto/subtle"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// offer allows a polling worker this many more leases than it has open, until a clock time (SPEC §13.17). The newest
// poll counts: its offer replaces an older one, and a withdrawal by an older poll changes nothing. A poll counts once,
// however often it is proposed.
func (fl *fleet) offer(op *fsmpb.Offer) *fsmpb.Outcome {
	w := fl.workers.Get(rota.WorkerID(op.GetWorker()))
	switch free, until := op.GetFree(), rota.Clock(op.GetUntilMs()); {
	case w == nil || w.Session != rota.Session(op.GetSession()) || w.Session == 0 || w.Status == rota.WorkerRetired:
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %q has no live session %d: register again",
			op.GetWorker(),
			op.GetSession()))
	case !w.Polls:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker",
			"worker %s has a stream, and takes leases by that: only one that polls offers",
			w.Spec.ID))
	case op.GetPoll() == 0:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "poll", "the poll has no number"))
	case free < 0 || free > rota.MaxSlots:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "free", "free: got %d, want 0 to %d", free, rota.MaxSlots))
	case free == 0 && w.Poll != op.GetPoll() || free > 0 && w.Poll == op.GetPoll():
		return &fsmpb.Outcome{Existed: true}
	case free == 0:
		fl.withdraw(fl.workers.Edit(w.Spec.ID))
		return &fsmpb.Outcome{}
	case until <= fl.s.Header.Clock:
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "offer",
			"the poll was over at %d, the clock is at %d: poll again", until,
			fl.s.Header.Clock))
	case until > fl.s.Header.Clock+limits.MaxOffer:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "until_ms",
			"until_ms: got %d at clock %d, want at most %d more", until, fl.s.Header.Clock, limits.MaxOffer))
	default:
		w = fl.workers.Edit(w.Spec.ID)
		w.Poll = op.GetPoll()
		fl.offers(w, free, until)
		fl.offered = true
		return &fsmpb.Outcome{}
	}
}

// offers sets a worker's offer; w is editable.
func (fl *fleet) offers(w *state.WorkerRow, free int32, until rota.Clock) {
	fl.s.Timers.Offer.Refile(string(w.Spec.ID), int64(w.OffersUntil), int64(until))
	w.Free, w.OffersUntil = free, until
	fl.reviewWorker(w)
}

// withdraw removes a worker's offer; w is editable.
func (fl *fleet) withdraw(w *state.WorkerRow) {
	if w.Free > 0 {
		fl.offers(w, 0, 0)
	}
}

// fireOffer ends the offer of a poll that is over: its node died, or could not withdraw it.
func (fl *fleet) fireOffer(id string) { fl.withdraw(fl.workers.Edit(rota.WorkerID(id))) }

// takeOffered counts a new lease of a worker against its offer; w is editable. The supply counts it by the lease.
func (fl *fleet) takeOffered(w *state.WorkerRow) {
	if !w.Polls {
		return
	}
	if w.Free--; w.Free == 0 {
		fl.s.Timers.Offer.Refile(string(w.Spec.ID), int64(w.OffersUntil), 0)
		w.OffersUntil = 0
	}
}

// Attach returns the live session of a worker to the principal that registered it and presents its secret; hash is the
// SHA-256 of the secret.
func Attach(vw *View, id rota.WorkerID, hash [32]byte, by rota.Principal) (rota.Session, *rota.Error) {
	w := vw.m.fleet.workers.Get(id)
	switch {
	case w == nil:
		return 0, rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered: acquire registers it", id)
	case subtle.ConstantTimeCompare(w.SecretHash[:], hash[:]) == 0:
		return 0, rota.Refusef(rota.KindDenied, "secret",
			"secret: not the secret of worker %s; another process registered or took over the id", id)
	case w.By != by:
		return 0, rota.Refusef(rota.KindDenied, "worker",
			"worker %s was registered by somebody else than %s: acquire with its secret moves it", id, by)
	case w.Status == rota.WorkerRetired:
		return 0, rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over: it was retired", w.Session,
			id)
	}
	return w.Session, nil
}

// Registered reports whether a polling worker's state equals the result of a registration.
func Registered(vw *View, op *fsmpb.Register) bool {
	spec := entry.WorkerWords(op.GetSpec())
	w := vw.m.fleet.workers.Get(spec.ID)
	return w != nil && w.Polls && op.GetPolls() && op.GetAttestation() == nil && w.AttestedUntil == 0 &&
		sameWorker(w.Spec, spec)
}

// sameWorker reports whether two registrations describe the same worker.
func sameWorker(a, b *rota.WorkerSpec) bool {
	return a.ID == b.ID && a.Slots == b.Slots && a.Prefetch == b.Prefetch && a.Region == b.Region && a.Zone == b.Zone &&
		a.CPUMilli == b.CPUMilli && a.MemoryBytes == b.MemoryBytes && a.IOBytesPerS == b.IOBytesPerS &&
		a.Stake == b.Stake &&
		slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Capabilities, b.Capabilities) &&
		maps.Equal(a.Limits, b.Limits) && slices.Equal(a.Types, b.Types)
}

// NewestPoll returns the newest poll of a worker, and how many more leases it offers.
func NewestPoll(vw *View, id rota.WorkerID) (poll uint64, free int32) {
	if w := vw.m.fleet.workers.Get(id); w != nil {
		return w.Poll, w.Free
	}
	return 0, 0
}
