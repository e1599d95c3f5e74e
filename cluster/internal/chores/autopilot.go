package chores

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// Voters is what autopilot knows and does about the voters.
type Voters struct {
	// Every is how often it looks, Patience how long it waits.
	Every    time.Duration
	Patience Patience
	// Seen returns when all servers were last asked, and what that revealed about each.
	Seen func() (at time.Duration, servers func() []ServerLook)
	// Remove removes a dead voter from the cluster.
	Remove func(ctx context.Context, id rota.NodeID, why string) error
}

// NewAutopilot returns the chore that removes dead voters.
func NewAutopilot(h *Host, v Voters) *Autopilot { return &Autopilot{n: h, Voters: v} }

// Autopilot is the leader's chore that removes dead voters, and records how many voters the cluster has had
// (SPEC §13.10). Its observations start again with each leadership.
type Autopilot struct {
	n *Host
	Voters

	mu sync.Mutex
	// voters is nil while this node is not the leader.
	voters *voterWatch
}

// Loop evaluates the node's watcher for as long as a leadership lasts.
func (ap *Autopilot) Loop(l Term) {
	began := ap.n.SinceBoot()
	w := &voterWatch{Patience: ap.Patience, looked: began}
	ap.note(func() { ap.voters = w })
	defer ap.note(func() {
		if ap.voters == w { // otherwise the next leadership has begun
			ap.voters = nil
		}
	})
	tick := ap.n.Ticker(ap.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			ap.once(l, w)
		case <-l.Life().Done():
			return
		}
	}
}

func (ap *Autopilot) note(change func()) {
	ap.mu.Lock()
	defer ap.mu.Unlock()
	change()
}

// once processes a new observation, if there is one since the last or since the leadership began, and acts on it.
func (ap *Autopilot) once(l Term, w *voterWatch) {
	at, seen := ap.Seen()
	if at <= w.looked {
		return
	}
	settings, servers := ap.Settings(), seen()
	if settings.VotersWanted == 0 {
		return // applying stalls: the wanted number is not known
	}
	var v voterVerdict
	ap.note(func() {
		w.look(at, servers)
		v = w.judge(settings)
	})
	if int64(len(v.healthy)) > settings.VotersWanted {
		ap.want(l, v.healthy)
	}
	if v.remove != "" {
		ap.remove(l, w, v)
	}
}

// want records in the log that these voters are healthy, which makes their number the wanted one.
func (ap *Autopilot) want(l Term, healthy []string) {
	outcomes, err := l.Propose(l.Life(), []*fsmpb.Op{{Op: &fsmpb.Op_WantVoters{WantVoters: &fsmpb.WantVoters{
		Voters: healthy}}}}, true)
	if err == nil && entry.OutcomeError(outcomes[0]) == nil && !outcomes[0].GetExisted() {
		ap.n.Log.Info("the cluster now needs more voters", "voters", len(healthy))
	}
}

// remove removes a dead voter from the cluster.
func (ap *Autopilot) remove(l Term, w *voterWatch, v voterVerdict) {
	err := ap.Remove(l.Life(), v.remove, v.why)
	if err != nil {
		if l.Life().Err() == nil && ap.n.Lines.Allow("autopilot") {
			ap.n.Log.Warn("a dead voter was not removed", "other_node", string(v.remove), "err", err)
		}
		return
	}
	ap.n.Log.Warn("a dead voter was removed", "other_node", string(v.remove), "why", v.why)
	ap.note(func() { w.removed = w.looked })
}

// Settings returns the cluster's settings, as this node knows them.
func (ap *Autopilot) Settings() (settings rota.ClusterSettings) {
	ap.n.Replica.Peek(func(s *fsm.View) { settings = s.ClusterSettings() })
	return settings
}

// Report returns this node's assessment of the voters; the health of each server only while this node is the leader.
func (ap *Autopilot) Report() (a rota.Autopilot, health []peer.NodeHealth) {
	settings := ap.Settings()
	a = rota.Autopilot{On: settings.Autopilot, VotersWanted: settings.VotersWanted}
	ap.mu.Lock()
	defer ap.mu.Unlock()
	if ap.voters == nil {
		return a, nil
	}
	a.HealthyVoters, a.Text = int64(len(ap.voters.verdict.healthy)), ap.voters.verdict.text
	boot, wall := ap.n.SinceBoot(), rota.Date(ap.n.Wall().UnixMilli())
	date := func(at time.Duration) rota.Date {
		if at == 0 {
			return 0
		}
		return wall - rota.Date((boot - at).Milliseconds())
	}
	for _, id := range ap.voters.servers() {
		s := ap.voters.seen[id]
		health = append(health, peer.NodeHealth{ID: id, NodeHealth: rota.NodeHealth{HealthySince: date(s.healthy),
			LastContact: date(s.contact)}})
	}
	return a, health
}

// Patience holds the times by which a leader judges voters (SPEC §13.10).
type Patience struct {
	// Dead is how long calls to a voter must fail before it counts as dead: longer than a restart, a reboot or moving a
	// machine takes, since its id can never return.
	Dead time.Duration
	// Steady is how long a voter must have been healthy to count; one that flaps does not.
	Steady time.Duration
	// Between is the minimum time between two removals, so that the effect of one is visible before the next.
	Between time.Duration
	// Gap between two observations means that the leader was paused: earlier ones are out of date.
	Gap time.Duration
}

// UsualPatience suits nodes in the real world.
var UsualPatience = Patience{Dead: 10 * time.Minute, Steady: time.Minute, Between: 10 * time.Minute,
	Gap: 10 * time.Second}

// Within returns the patience of a world in which a voter is dead after the given time; 0 leaves it unchanged.
func (p Patience) Within(dead time.Duration) Patience {
	if dead <= 0 {
		return p
	}
	shrink := max(1, p.Dead/dead)
	p.Steady, p.Between, p.Dead = p.Steady/shrink, p.Between/shrink, dead
	return p
}

// voterWatch holds what a leader's own calls have revealed about each server since it became leader. All its times are
// of the node's monotonic clock, and 0 means never.
type voterWatch struct {
	Patience
	looked, removed time.Duration
	seen            map[rota.NodeID]serverSeen
	// verdict is the latest one.
	verdict voterVerdict
}

// serverSeen is one server: since when it is healthy, since when it is silent, and when it last answered.
type serverSeen struct {
	voter                    bool
	healthy, silent, contact time.Duration
}

// ServerLook is one observation of a server.
type ServerLook struct {
	ID    rota.NodeID
	Voter bool
	// Answers reports that it answers, Healthy that it also follows the log and can vote and lead.
	Answers, Healthy bool
}

// look processes the observations that calls at one moment made of all servers.
func (w *voterWatch) look(at time.Duration, servers []ServerLook) {
	if at-w.looked > w.Gap {
		w.seen = nil
	}
	w.looked = at
	seen := make(map[rota.NodeID]serverSeen, len(servers))
	for _, l := range servers {
		s := w.seen[l.ID]
		if s.voter != l.Voter || !l.Healthy {
			s.healthy = 0
		}
		s.voter = l.Voter
		if l.Healthy && s.healthy == 0 {
			s.healthy = at
		}
		switch {
		case l.Answers:
			s.contact, s.silent = at, 0
		case s.silent == 0:
			s.silent = at
		}
		seen[l.ID] = s
	}
	w.seen = seen
}

// voterVerdict is the conclusion from the observations.
type voterVerdict struct {
	// remove is a dead voter that may be removed now, for the reason why; "" for none.
	remove rota.NodeID
	why    string
	// healthy are the voters that have been healthy for long enough.
	healthy []string
	// text states the action taken about silent voters, or why there is none.
	text string
}

// judge renews the verdict: which voter to remove. The healthy voters that stay must be at least as many as wanted, and
// a majority of all voters: then they are also a majority of the remaining ones.
func (w *voterWatch) judge(settings rota.ClusterSettings) voterVerdict {
	w.verdict = w.judgement(settings)
	return w.verdict
}

func (w *voterWatch) judgement(settings rota.ClusterSettings) (v voterVerdict) {
	var silent []rota.NodeID
	voters := 0
	for _, id := range w.servers() {
		s := w.seen[id]
		if !s.voter {
			continue
		}
		voters++
		if s.healthy != 0 && w.looked-s.healthy >= w.Steady {
			v.healthy = append(v.healthy, string(id))
		}
		if s.silent != 0 {
			silent = append(silent, id)
		}
	}
	wanted, healthy := int(settings.VotersWanted), len(v.healthy)
	if len(silent) == 0 {
		if voters < wanted {
			v.text = fmt.Sprintf("%d of %d wanted voters are there: start another node, or lower voters_wanted", voters,
				wanted)
		}
		return v
	}
	slices.SortStableFunc(silent, func(a, b rota.NodeID) int { return cmp.Compare(w.seen[a].silent, w.seen[b].silent) })
	first := silent[0]
	since := w.looked - w.seen[first].silent
	due := max(w.seen[first].silent+w.Dead, w.removed+w.Between)
	switch {
	case !settings.Autopilot:
		v.text = fmt.Sprintf("autopilot is off: a dead voter goes by rota operator raft remove-peer %s", first)
	case healthy < wanted:
		v.text = fmt.Sprintf(
			"none is removed while fewer than %d others have been healthy voters for %s (now %d): bring them back, start "+
				"another node, or lower voters_wanted", wanted, w.Steady, healthy)
	case healthy <= voters/2:
		v.text = fmt.Sprintf(
			"none is removed while fewer than %d of all %d have been healthy for %s (now %d): a removal might leave no "+
				"majority", voters/2+1, voters, w.Steady, healthy)
	case due > w.looked:
		v.text = fmt.Sprintf("%s is removed in %s unless it answers", first, (due - w.looked).Round(time.Second))
	default:
		v.remove, v.why = first, fmt.Sprintf("its leader's calls failed for %s", since.Round(time.Second))
		v.text = fmt.Sprintf("%s is being removed", first)
	}
	v.text = fmt.Sprintf("%d of %d voters do not answer (%s): %s", len(silent), voters, w.silence(silent), v.text)
	return v
}

// servers lists the observed servers by id.
func (w *voterWatch) servers() (ids []rota.NodeID) {
	for id := range w.seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// silence describes how long each has been silent.
func (w *voterWatch) silence(ids []rota.NodeID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprintf("%s for %s", id, (w.looked - w.seen[id].silent).Round(time.Second))
	}
	return strings.Join(texts, ", ")
}
