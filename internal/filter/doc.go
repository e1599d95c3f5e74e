// Package filter selects jobs by a line of terms (SPEC §21.6): lists and counts read them in
// one way.
//
// It never reads a job that it was not handed, and keeps nothing of one.
package filter
