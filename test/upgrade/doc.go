// Package upgrade holds what one release owes to the ones before it (SPEC §16.0): each folder of testdata is
// named after a release and has what that release wrote and spoke.
//
//	log.bin, log.txt  a log of every operation, and the digests along it
//	state.snap        the state at its end, as a snapshot
//	data.tgz          the data directory of a node of that release: node.json, raft.db, archive.db, snapshots
//	protocol.binpb    its protocols: a FileDescriptorSet of what clients, nodes and the log speak
//	SHA256SUMS        all of these, which nobody changes once the release is out
//
// The tests read all of it with the present code. `go test ./test/upgrade -run TestReleases -cut v0.2.0` writes
// the folder of a release that has none; it never touches one that is there.
package upgrade
