package rota

import "github.com/rotasched/rota/internal/nearest"

// unknown returns an error for a name that is not one of names, and suggests the most similar one.
func unknown(subject, what, typed string, names []string) *Error {
	return Refusef(KindInvalid, subject, "%s", nearest.Unknown(what, typed, choices(names)))
}

// JobStateNames lists the names of the job states.
func JobStateNames() []string { return choices(jobStateNames) }

// ClusterModeNames lists the names of the cluster modes.
func ClusterModeNames() []string { return choices(modeNames) }

// ServiceTierNames lists the names of the service tiers.
func ServiceTierNames() []string { return choices(serviceTierNames) }

// EventKindNames lists the kinds of events.
func EventKindNames() []string { return choices(eventKindNames) }
