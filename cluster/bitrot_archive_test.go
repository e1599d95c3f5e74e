package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// rotStride has no factor in common with the number of bits of a byte.
const rotStride = 9

// rotShelf is a small archive of several blocks and leaves, and its content.
type rotShelf struct {
	file    []byte
	records []peer.ArchiveRecord
	also    archive.Spans
	ended   []fsm.Ended
	last    uint64
}

// shelved writes the history of a node's jobs, some of which ended twice, to a separate file, in several transactions.
func shelved(t *testing.T) *rotShelf {
	t.Helper()
	b := startBench(t, 1)
	n := b.leader()
	jobs := specs("j", 110)
	random := rand.NewChaCha8([32]byte{3})
	for i := range jobs {
		jobs[i].Payload = make([]byte, 500)
		_, _ = random.Read(jobs[i].Payload)
	}
	endAll(t, n, jobs)
	again := []rota.JobID{"j-00003", "j-00004", "j-00070", "j-00109"}
	if outcomes, err := n.Retry(within(t, ample), retriesOf(again...)); err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	if _, err := n.Cancel(within(t, ample), again); err != nil {
		t.Fatal(err)
	}
	b.complete("n1")
	s := &rotShelf{last: n.replica.Machine.Staging().Last}
	slice, err := n.historyFile.Jobs.Range(1, s.last, 1<<30)
	if err != nil || len(slice.Records) != len(jobs) {
		t.Fatal(len(slice.Records), err)
	}
	s.records, s.also = slice.Records, slice.Covered
	for _, r := range s.records {
		e, err := fsm.DecodeEnded(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		s.ended = append(s.ended, e)
	}
	path := filepath.Join(t.TempDir(), archive.FileName)
	db, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.OpenJobs(db)
	if err != nil {
		t.Fatal(err)
	}
	db.NoSync = true
	err = errors.Join(a.Claim("c", 1), a.Put(s.records[:60], nil), a.Put(s.records[60:63], nil),
		a.Put(s.records[63:], s.also), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	if s.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	s.file = s.file[:boltUsed(s.file)] // the rest is only preallocated
	return s
}

// compare compares an archive's answers with the written records: a missing record must be listed as lacking or
// reported as damaged; with repaired the latter is no longer allowed.
func (s *rotShelf) compare(a *archive.Jobs, repaired bool) (faults []string) {
	lacks := a.Lacks(s.last, 1<<20)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	judge := func(what string, seq uint64, ok, same bool, err error) {
		damage := errors.Is(err, archive.ErrRecordDamaged) || errors.Is(err, archive.ErrMarksDamaged)
		switch {
		case err != nil && !damage:
			fault("%s: %v", what, err)
		case ok && !same:
			fault("%s is returned with other content", what)
		case !ok && !lacks.Has(seq) && (err == nil || repaired):
			fault("%s is gone, %v", what, err)
		}
	}
	slice, err := a.Range(1, s.last, 1<<30)
	if err != nil {
		fault("range: %v", err)
	}
	given := make(map[uint64][]byte)
	for _, r := range slice.Records {
		given[r.Seq] = r.Data
	}
	covered := archive.Spans(slice.Covered)
	for i, want := range s.ended {
		record := s.records[i]
		got, here := given[want.Seq]
		if here && !bytes.Equal(got, record.Data) || !here && covered.Has(want.Seq) {
			fault("another node would be given a wrong number %d", want.Seq)
		}
		delete(given, want.Seq)
		e, ok, err := a.At(want.Seq)
		judge(fmt.Sprintf("number %d", want.Seq), want.Seq, ok, e.Job.ID == want.Job.ID && e.Seq == want.Seq, err)
		r, ok, err := a.Record(want.Job.ID)
		judge(fmt.Sprintf("job %s", want.Job.ID), want.Seq, ok, r.Seq == want.Seq && bytes.Equal(r.Data, record.Data),
			err)
		mark, ok, err := a.Mark(want.Job.ID)
		judge(fmt.Sprintf("state of %s", want.Job.ID), want.Seq, ok, mark.State == want.Job.State, err)
	}
	if len(given) > 0 {
		fault("records %v are returned, which do not exist", given)
	}
	for _, id := range []rota.JobID{"a", "j-00003x", "z"} {
		if _, ok, err := a.Get(id); ok || repaired && err != nil {
			fault("job %s is known, which never was: %v", id, err)
		}
	}
	return append(faults, s.listed(a, lacks, repaired)...)
}

// listed compares the list of all jobs with the written records.
func (s *rotShelf) listed(a *archive.Jobs, lacks archive.Spans, repaired bool) (faults []string) {
	r, err := a.Read()
	if err != nil {
		return []string{err.Error()}
	}
	defer r.Close()
	marks := make(map[rota.JobID]fsm.Mark)
	for mark, ok := r.Next(""); ok; mark, ok = r.Next(mark.ID) {
		marks[mark.ID] = mark
	}
	for _, want := range s.ended {
		mark, listed := marks[want.Job.ID]
		delete(marks, want.Job.ID)
		if !listed && !lacks.Has(want.Seq) && (repaired || !r.Lacks()) || listed &&
			(mark.Seq != want.Seq || mark.State != want.Job.State) {
			faults = append(faults, fmt.Sprintf("job %s is listed as %+v", want.Job.ID, mark))
		}
	}
	if repaired && r.Lacks() || len(marks) > 0 {
		faults = append(faults, fmt.Sprintf("%v are listed too, lacking %v", marks, r.Lacks()))
	}
	return faults
}

// judge opens a file as a node does and returns the outcome and the faults found.
func (s *rotShelf) judge(dir string, file []byte) (outcome string, faults []string) {
	defer func() {
		if what := recover(); what != nil {
			outcome, faults = "panicked", []string{fmt.Sprint("a panic: ", what)}
		}
	}()
	if err := os.WriteFile(filepath.Join(dir, archive.FileName), file, 0o600); err != nil {
		return "", []string{err.Error()}
	}
	opened, err := history.OpenFile(history.FileOptions{Path: filepath.Join(dir, archive.FileName), Retained: 10,
		NoSync: true})
	if err != nil {
		return "refused", nil
	}
	defer func() { _ = opened.DB.Close() }()
	opened.DB.NoGrowSync = true
	a := opened.Jobs
	found := 0
	scrub := func() error {
		return opened.ScrubJobs(1<<20, func(string, string) { found++ }, func(int) bool { return true })
	}
	faults = s.compare(a, false)
	err = scrub()
	before := found
	switch {
	case err != nil:
		return "unmended", append(faults, err.Error())
	case found > 0:
		outcome = "found"
	default:
		outcome = "harmless"
	}
	faults = append(faults, s.compare(a, true)...)
	if lacks := a.Lacks(s.last, 9); found == 0 && len(lacks) > 0 && len(faults) == 0 {
		outcome = "lacking"
	}
	err = errors.Join(a.Put(s.records, s.also), scrub()) // as from another node
	if lacks := a.Lacks(s.last, 9); err != nil || len(lacks) > 0 || found != before {
		faults = append(faults, fmt.Sprintf("%v lack, %d are damaged after %d: %v", lacks, found, before, err))
	}
	if stats := a.Stats(); stats.Records != uint64(len(s.records)) {
		faults = append(faults, fmt.Sprintf("%d records are counted", stats.Records))
	}
	return outcome, faults
}

// TestBitRot_everyBitOfAnArchivesPages flips each bit of the pages that lead to the archive's records: an ended job is
// returned as written, or listed as lacking, or reported as damaged, and after a scrub it is one of the first two. Each
// run tests one bit in rotStride, different ones each time; with ROTA_ROT set it tests all.
func TestBitRot_everyBitOfAnArchivesPages(t *testing.T) {
	t.Parallel()
	s := shelved(t)
	dir := t.TempDir()
	if outcome, faults := s.judge(dir, slices.Clone(s.file)); outcome != "harmless" || len(faults) > 0 {
		t.Fatalf("%s: %v", outcome, faults)
	}
	tally := make(map[string]int)
	failed := 0
	stride, seed := rotStride, rand.Uint64()
	if text := os.Getenv("ROTA_ROT_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	if os.Getenv("ROTA_ROT") != "" {
		stride = 1
	}
	t.Logf("%d bytes, one bit in %d: repeat with ROTA_ROT_SEED=%d", len(s.file), stride, seed)
	for class, places := range boltPlaces(s.file) {
		every := stride
		switch class {
		case "values":
			every = 4001
		case "slack", "other pages", "heads":
			continue // unused, or covered by a checksum of bbolt
		}
		for at := int(seed % uint64(every)); at < 8*len(places); at += every {
			spot := rotSpot{file: archive.FileName, how: "bit", at: places[at/8], bit: uint8(at % 8)}
			outcome, faults := s.judge(dir, spot.apply(slices.Clone(s.file)))
			tally[class+" "+outcome]++
			if len(faults) > 0 && failed < 20 {
				failed++
				t.Errorf("%s, of the %s, %s: %s", spot, class, outcome, faults[:min(4, len(faults))])
			}
		}
	}
	for _, what := range slices.SortedFunc(maps.Keys(tally), cmp.Compare) {
		t.Logf("%-30s %d", what, tally[what])
	}
}
