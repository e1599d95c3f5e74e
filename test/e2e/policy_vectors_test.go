package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
)

// TestConformance_Vectors is deterministic matching of AICF §14 (4) in a cluster: every lease id is the hash of its
// round's seed, and the audit of a node's data and of a backup proves every round, regardless of the leader. (The
// vectors themselves are replayed where rounds are decided: sched's TestVectors.)
func TestConformance_Vectors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	queues := []rota.QueueName{c.policyQueue(t, "ai", "aicf-ai"), c.policyQueue(t, "quantum", "aicf-quantum"),
		c.policyQueue(t, "demand", "dfps", "estimate=user"), c.policyQueue(t, "shared", "standard")}
	for i := range 3 {
		c.worker(t, "--queues", "ai,quantum,demand,shared", "--id", fmt.Sprint("vectors-w", i), "--slots", "2")
	}
	var ids []rota.JobID
	for part := range 4 {
		var jobs []rota.JobSpec
		for i := range 40 {
			id := fmt.Sprintf("vectors-%d-%02d", part, i)
			jobs = append(jobs, policyJob(id, queues[i%4], priority(int32(i%11)), sized(int64(i)<<20),
				func(s *rota.JobSpec) {
					s.Fee, s.Tenant, s.Simulate = int64(i%5)*500_000, rota.TenantID(fmt.Sprint("t",
						i%3)), millis.Duration(int64(i%4))
				}))
			ids = append(ids, rota.JobID(id))
		}
		submitAll(t, cl, jobs...)
		if part == 1 { // a new leader decides on the state that the old one left
			c.rota(t, "operator", "raft", "transfer-leadership").want(t, 0)
		}
	}
	check(t, completed(within(t), cl, ids...))
	seeds := map[uint64]string{}
	for _, id := range ids {
		for _, a := range jobOf(t, cl, id).Attempts {
			want := hashOf([]byte("AICF|lease"), []byte(id), []byte(a.Worker), number(uint64(a.Number)),
				a.Decision.Seed)
			if a.Lease != rota.LeaseID(want) {
				t.Errorf("job %s: lease %s is not the hash of job, worker, attempt and seed", id, a.Lease)
			}
			if known := seeds[a.Decision.Epoch]; known != "" && known != a.Decision.Seed.String() {
				t.Errorf("epoch %d has two seeds", a.Decision.Epoch)
			}
			seeds[a.Decision.Epoch] = a.Decision.Seed.String()
		}
	}
	c.verified(t, 3)
	dir := proveAll(t, c, uint64(len(seeds)))
	findPlanted(t, c, cl, dir, ids[len(ids)/2])
}

// findPlanted gives a job to another worker in a copy of a node's data, with every checksum right: the audit exits with
// 1 and names the round.
func findPlanted(t *testing.T, c *nodes, cl *client.Client, dir string, id rota.JobID) {
	t.Helper()
	a := jobOf(t, cl, id).Attempts[0]
	at := a.Decision.Height + 1
	for clockAt(t, cl, id, at).State == rota.JobQueued {
		at++
	}
	other := strings.Replace("vectors-w0 vectors-w1", string(a.Worker), "", 1)
	plant(t, logFile(t, dir), uint64(at), string(id), string(a.Worker), strings.Fields(other)[0])
	r := command(t, nil, "", "operator", "audit", "-o", "json", "--data", dir).want(t, 1)
	report := parse[rota.AuditReport](t, r)
	d := report.Difference
	if d == nil || d.Index != at || d.Epoch != a.Decision.Epoch || d.Height != a.Decision.Height ||
		report.Proved >= report.Rounds {
		t.Fatalf("planted at index %d, reported %+v of %+v", at, d, report)
	}
	contains(t, "the refusal", r.stderr, "does not lead to the recorded state")
	contains(t, "what the state gives", d.Proved, string(id), string(a.Worker))
	table := command(t, nil, "", "operator", "audit", "--data", dir).want(t, 1)
	contains(t, "the table", table.stdout, "first difference", fmt.Sprintf("index %d", at))
}

// plant changes the worker of a job's pair in one entry of a log (docs, formats),
// to a name of the same length.
func plant(t *testing.T, path string, index uint64, job, worker, other string) {
	t.Helper()
	field := func(tag byte, text string) string { return string([]byte{tag, byte(len(text))}) + text }
	file, err := os.ReadFile(path)
	check(t, err)
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	salt := binary.LittleEndian.Uint32(file[24:])
	for frame := file[32:]; ; {
		size := int(binary.LittleEndian.Uint32(frame[16:]))
		if binary.LittleEndian.Uint64(frame) != index {
			frame = frame[(32+size+7)/8*8:] // rota's entries have no extensions
			continue
		}
		data := frame[32 : 32+size]
		pair := bytes.Index(data, []byte(field(0x0a, job)+field(0x12, worker)))
		if pair < 0 || !bytes.HasPrefix(data, []byte("RTL1")) {
			t.Fatalf("entry %d gives no worker %s to job %s", index, worker, job)
		}
		sum := func() uint32 {
			head := append(append(bytes.Clone(frame[:16]), frame[26]), make([]byte, 8)...)
			return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data)
		}
		if sum() != binary.LittleEndian.Uint32(frame[20:]) ||
			crc32.Update(salt, castagnoli, frame[:28]) != binary.LittleEndian.Uint32(frame[28:]) {
			t.Fatalf("entry %d is not sealed as documented: % x", index, frame[:32])
		}
		copy(data[pair+len(field(0x0a, job))+2:], other)
		binary.BigEndian.PutUint32(data[8:], crc32.Update(crc32.Checksum(data[4:8], castagnoli), castagnoli, data[12:]))
		binary.LittleEndian.PutUint32(frame[20:], sum())
		binary.LittleEndian.PutUint32(frame[28:], crc32.Update(salt, castagnoli, frame[:28]))
		break
	}
	check(t, os.WriteFile(path, file, 0o600))
}

// proveAll stops a node and audits its data, then a backup of the cluster that lives: every round is proved, at least
// as many as were seen. It returns a copy of that node's directory.
func proveAll(t *testing.T, c *nodes, least uint64) (dir string) {
	t.Helper()
	one := c.followers(t)[0]
	one.stop(t, 20*time.Second)
	file := filepath.Join(t.TempDir(), "backup")
	c.rota(t, "operator", "snapshot", "save", file).want(t, 0)
	for _, from := range [][]string{{"--data", one.Dir}, {"--backup", file}} {
		r := command(t, nil, "", append([]string{"operator", "audit", "-o", "json"}, from...)...)
		report := decode[rota.AuditReport](t, r)
		if report.Difference != nil || report.Rounds < least || report.Proved != report.Rounds ||
			report.Operations == 0 {
			t.Errorf("audit %s: %+v, %d rounds were seen", from[0], report, least)
		}
		t.Logf("audit %s: %d of %d rounds proved, %d entries, %d operations in %s", from[0], report.Proved,
			report.Rounds, report.Entries, report.Operations, r.took.Round(time.Millisecond))
	}
	fields(t, "the report", object(t, command(t, nil, "", "operator", "audit", "-o", "json", "--data", one.Dir)),
		"from", "to",
		"entries", "operations", "rounds", "proved", "fires", "fires_proved", "fires_refused", "first_difference")
	running := command(t, nil, "", "operator", "audit", "--data", c.leader(t).Dir).want(t, 1)
	contains(t, "the refusal", running.stderr, "another process")
	dir = filepath.Join(t.TempDir(), "copy")
	copyTree(t, one.Dir, dir)
	one.start(t)
	one.awaitReady(t)
	return dir
}
