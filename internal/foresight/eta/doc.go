// Package eta says when a job that waits should start: fsm.Machine, the code that decides, runs forward from a
// sketch of the present, several times, with run times drawn of those that jobs like its jobs had.
//
// It never reads a clock, and draws by a seed that comes from the state: equal state, past and errors give an equal answer.
package eta
