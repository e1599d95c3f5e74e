// Package limits holds the system's fixed limits, each with its reason. They bound its tables, its log entries and its
// messages, and set the times by which nodes and workers act. They are fixed in the binary. Those that the state
// machine reads define the meaning of the log and change only with a rules version. The limits of user input are in the
// root package, and settings that a user can change are policy keys.
//
// The package has no function, and never reads user settings.
package limits
