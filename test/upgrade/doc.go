// Package upgrade tests compatibility with earlier releases (SPEC §16.0): each folder of testdata is named after a
// release and contains files and protocols of that release.
//
//	log.bin, log.txt  a log of every operation, and the digests along it
//	state.snap        the state at its end, as a snapshot
//	data.tgz          the data directory of a node of that release: node.json, raft.db, archive.db, snapshots
//	protocol.binpb    its protocols: a FileDescriptorSet of clients, nodes and the log
//	SHA256SUMS        all of these, which must not change once the release is out
//
// The tests read all of it with the present code. `go test ./test/upgrade -run TestReleases -cut v0.2.0` writes the
// folder of a release that has none; it never touches an existing one.
package upgrade
