// Package whatif replays a cluster's log under another policy: what came from outside comes again, and what the
// cluster decided is decided anew, by fsm.Machine.
//
// While the decisions are those of the log, its entries are taken as they are, so that a policy that changes nothing gives the log's
// own digests. From the first that is another one on, the driver makes the entries: jobs run as long as the log says that they
// did. It never reads a clock, writes to the log, or decides anything itself: equal input gives equal output, byte for byte.
package whatif
