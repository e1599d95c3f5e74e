// Package eta forecasts when a pending job should start: fsm.Machine, the code that decides, runs forward from a sketch
// of the present, several times, with run times drawn from those of similar jobs.
//
// It never reads a clock, and its random draws use a seed derived from the state: equal state, past and errors give an
// equal answer.
package eta
