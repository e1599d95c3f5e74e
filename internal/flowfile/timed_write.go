package flowfile

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/rotasched/rota"
)

// TimedLine returns a job as a line that ReadTimed reads, with the data that decisions need: when it first waited for a
// worker, when its last attempt began and how long that ran. It leaves out the job's content, and all of its
// constraints but workers, keys and costs. submit is the submit_ms; why, if it is not empty, is why there is no such
// line.
func TimedLine(j *rota.Job) (line []byte, submit int64, why string) {
	switch {
	case j.RecordDropped:
		return nil, 0, "retention has dropped their records"
	case j.Enqueued.Date == 0:
		return nil, 0, "they never waited for a worker"
	}
	ran := rota.Attempt{}
	if n := len(j.Attempts); n > 0 {
		ran = j.Attempts[n-1]
	}
	ended := j.State.Terminal()
	if ended && (ran.Started.Clock == 0 || ran.Ended.Clock == 0) {
		return nil, 0, "they never ran"
	}
	its := rota.JobSpec{ID: j.ID, Queue: j.Queue, Type: j.Type, Tenant: j.Tenant, Priority: j.Priority, Fee: j.Fee,
		SizeBytes: j.SizeBytes, TTL: j.TTL, StartBy: j.StartBy,
		CPUMilli: j.CPUMilli, MemoryBytes: j.MemoryBytes, IOBytesPerS: j.IOBytesPerS, Requires: j.Requires,
		RegionsAllow: j.RegionsAllow, RegionsDeny: j.RegionsDeny,
		Zone: j.Zone, Domain: j.Domain, Worker: j.Worker, Units: j.Units, Limits: j.Limits, Expected: j.Expected,
		DataKeys: j.DataKeys, Keys: j.Keys, Costs: j.Costs}
	if its.SizeBytes == 0 {
		its.SizeBytes = int64(len(j.Payload))
	}
	line, err := json.Marshal(its)
	if err != nil {
		return nil, 0, fmt.Sprintf("they cannot be written: %v", err)
	}
	if ended && len(j.Spent) > 0 {
		line = append(j.Spent.AppendJSON(append(line[:len(line)-1], `,"spent":`...)), '}')
	}
	submit = int64(j.Enqueued.Date)
	line = fmt.Appendf(line[:len(line)-1], `,"state":%q,"submit_ms":%d`, j.State.String(), submit)
	switch {
	case ended:
		line = fmt.Appendf(line, `,"start_ms":%d,"run_ms":%d}`, max(int64(ran.Started.Date), submit),
			ran.Ended.Clock-ran.Started.Clock)
	case j.Lease != nil:
		line = fmt.Appendf(line, `,"start_ms":%d}`, max(int64(j.Lease.Started.Date), submit))
	default:
		line = append(line, '}')
	}
	return line, submit, ""
}

// sorterHolds is about how many bytes of lines a Sorter keeps in memory.
const sorterHolds = 16 << 20

// Sorter puts lines in the order of their moments, those that were added later first where these are equal: jobs are
// listed the newest first. Lines beyond the bound on memory wait in a temporary file. The zero Sorter is empty.
type Sorter struct {
	// Holds bounds the bytes in memory; 0 is 16 MiB.
	Holds int
	lines []sortedLine
	bytes int
	added int64
	file  *os.File
	// ends are those of the sorted runs in the file.
	ends []int64
}

type sortedLine struct {
	at, number int64
	text       []byte
}

func (l *sortedLine) compare(o *sortedLine) int {
	if l.at != o.at {
		return int(min(max(l.at-o.at, -1), 1))
	}
	return int(min(max(o.number-l.number, -1), 1))
}

// Add adds a line, without its newline.
func (s *Sorter) Add(at int64, text []byte) error {
	s.lines = append(s.lines, sortedLine{at, s.added, text})
	s.added++
	most := s.Holds
	if most == 0 {
		most = sorterHolds
	}
	if s.bytes += len(text) + 48; s.bytes < most {
		return nil
	}
	return s.spill()
}

// spill writes the lines in memory to the file, as one more sorted run.
func (s *Sorter) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "rota-sort-*"); err != nil {
			return err
		}
	}
	end := int64(0)
	if n := len(s.ends); n > 0 {
		end = s.ends[n-1]
	}
	s.sort()
	w := bufio.NewWriterSize(s.file, 1<<16)
	for i := range s.lines {
		l := &s.lines[i]
		var head [20]byte
		binary.BigEndian.PutUint64(head[:], uint64(l.at))
		binary.BigEndian.PutUint64(head[8:], uint64(l.number))
		binary.BigEndian.PutUint32(head[16:], uint32(len(l.text)))
		_, _ = w.Write(head[:])
		_, _ = w.Write(l.text)
		end += int64(len(head) + len(l.text))
	}
	s.ends = append(s.ends, end)
	clear(s.lines)
	s.lines, s.bytes = s.lines[:0], 0
	return w.Flush()
}

func (s *Sorter) sort() {
	slices.SortFunc(s.lines, func(a, b sortedLine) int { return a.compare(&b) })
}

// sortedRun is a run in the file, as far as it is read.
type sortedRun struct {
	in   *bufio.Reader
	next sortedLine
}

// step reads the next line; false at the end.
func (r *sortedRun) step() (bool, error) {
	var head [20]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	r.next = sortedLine{int64(binary.BigEndian.Uint64(head[:])), int64(binary.BigEndian.Uint64(head[8:])),
		slices.Grow(r.next.text[:0], int(binary.BigEndian.Uint32(head[16:])))}
	r.next.text = r.next.text[:binary.BigEndian.Uint32(head[16:])]
	_, err := io.ReadFull(r.in, r.next.text)
	return err == nil, err
}

// runs are a heap of runs by their next lines.
type runs []*sortedRun

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return h[i].next.compare(&h[j].next) < 0 }
func (h runs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(x any)        { *h = append(*h, x.(*sortedRun)) }
func (h *runs) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// WriteTo writes the lines in their order, each with its newline. Nothing is added afterwards.
func (s *Sorter) WriteTo(to io.Writer) (n int64, err error) {
	w := bufio.NewWriterSize(to, 1<<16)
	put := func(text []byte) error {
		n += int64(len(text)) + 1
		if _, err := w.Write(text); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}
	if s.file == nil {
		s.sort()
		for i := range s.lines {
			if err := put(s.lines[i].text); err != nil {
				return n, err
			}
		}
		return n, w.Flush()
	}
	if err := s.spill(); err != nil {
		return n, err
	}
	var h runs
	begin := int64(0)
	for _, end := range s.ends {
		r := &sortedRun{in: bufio.NewReaderSize(io.NewSectionReader(s.file, begin, end-begin), 1<<15)}
		if more, err := r.step(); err != nil {
			return n, err
		} else if more {
			h = append(h, r)
		}
		begin = end
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := put(h[0].next.text); err != nil {
			return n, err
		}
		switch more, err := h[0].step(); {
		case err != nil:
			return n, err
		case more:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return n, w.Flush()
}

// Close removes the temporary file.
func (s *Sorter) Close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
