// Package whatif replays a cluster's log under another policy: operations from outside are applied again, and
// fsm.Machine makes the cluster's decisions again.
//
// As long as the decisions match the log's, its entries are applied unchanged, so a policy that changes nothing ends
// with the log's own digests. From the first different decision on, the driver makes the entries itself, and jobs run
// for as long as they did in the log. It never reads a clock, writes to the log, or decides anything itself: equal
// input gives equal output, byte for byte.
package whatif
