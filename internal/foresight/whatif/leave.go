package whatif

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// staying returns an operation of the log in the form used here, where workers that had finished in the record may
// still have leases. A worker that sent Bye there drains here, and leaves once it has finished its leases (depart), or
// before its id is taken over or deleted; until then it is not reported gone.
func (l *life) staying(op *fsmpb.Op) []*fsmpb.Op {
	s := op.GetSetStatus()
	if rota.WorkerStatus(s.GetStatus()) == rota.WorkerRetired && s.GetSession() != 0 && l.works(s) {
		l.leaving = append(l.leaving, op)
		return []*fsmpb.Op{spoken(op, &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{
			Worker: s.GetWorker(), Status: uint32(rota.WorkerDraining), Session: s.GetSession()}}})}
	}
	of := func(worker string) int {
		return slices.IndexFunc(l.leaving, func(bye *fsmpb.Op) bool { return bye.GetSetStatus().GetWorker() == worker })
	}
	at := -1
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Gone:
		if of(o.Gone.GetWorker()) >= 0 {
			return nil
		}
	case *fsmpb.Op_Register:
		at = of(o.Register.GetSpec().GetId())
	case *fsmpb.Op_DeleteWorker:
		at = of(o.DeleteWorker.GetId())
	}
	if at < 0 {
		return []*fsmpb.Op{op}
	}
	bye := l.leaving[at]
	l.leaving = slices.Delete(l.leaving, at, at+1)
	return []*fsmpb.Op{bye, op}
}

// works reports whether a worker that sends Bye has leases.
func (l *life) works(bye *fsmpb.SetStatus) bool {
	w, _ := l.m.Worker(rota.WorkerID(bye.GetWorker()))
	return w.Open > 0 && w.Session == rota.Session(bye.GetSession())
}

// depart lets workers leave that have finished their leases.
func (l *life) depart(at int64) error {
	var ops []*fsmpb.Op
	l.leaving = slices.DeleteFunc(l.leaving, func(bye *fsmpb.Op) bool {
		over := !l.works(bye.GetSetStatus())
		if over {
			ops = append(ops, bye)
		}
		return over
	})
	if len(ops) == 0 {
		return nil
	}
	_, err := l.own(at, ops)
	return err
}
