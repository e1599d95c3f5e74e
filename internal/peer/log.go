package peer

import "github.com/rotasched/rota"

// logMark begins the id under which a log is archived. No job's id has it, and all job ids sort before it.
const logMark = "~"

// LogID is the id under which the log of an attempt is archived, by its lease (SPEC §22.2).
func LogID(lease rota.LeaseID) rota.JobID { return rota.JobID(logMark + lease.String()) }

// IsLog reports whether a record of an archive is the log of an attempt and not a job.
func IsLog(id rota.JobID) bool { return id >= logMark }

// CheckRecordID returns an error unless the id is that of a job or a log.
func CheckRecordID(field string, id rota.JobID) error {
	if IsLog(id) && len(id) == len(LogID(rota.LeaseID{})) {
		return nil
	}
	return rota.CheckJobRef(field, id)
}

// Logged is a part of the log of an open attempt, on its way from its worker to a node.
type Logged struct {
	Lease rota.LeaseID
	Part  rota.LogPart
}

// NodeLog is a node's part of the log of an attempt that may be open.
type NodeLog struct {
	Known bool
	Parts []rota.LogPart
}
