// Package failpoint makes the process kill itself at a named place of its own code, for test/crash. The tag failpoints
// enables the places; in a normal build every function here does nothing, and the compiler drops the calls and the
// names.
//
// It never ends a process that was built without the tag.
package failpoint
