//go:build plant_verify_leader_reads

package replica

// verifyLeaderReads treats raft's VerifyLeader as proof that there is no other leader.
func (plants) verifyLeaderReads() bool { return true }
