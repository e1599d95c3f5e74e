// Command bite plants bugs, one at a time, and runs the checker that must catch each: a checker that was never seen to
// fail proves nothing. A bug is placed where it would have been made, behind its own build tag (files plant_*.go); its
// checker is a test that the other stages run without it.
//
//	go run ./test/bite                       all twenty-five
//	go run ./test/bite --only crc_off,no_fsync
//	go run ./test/bite --rotate 3 --seed 7   three, in turn by the seed, from which rapid draws
//
// It prints a line a plant and ends with "caught N of M"; if any is missed, the exit status is 1.
//
// It never counts as caught what did not build, panicked, ran no test, or failed with a message other than the
// checker's own; and it never leaves anything behind in the tree.
package main
