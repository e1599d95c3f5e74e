// Package schedules owns the schedules, starts their runs, and keeps the installed time zones (SPEC §17).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never calculates a date: the leader does, and each Fire names the dates that it decides.
package schedules
