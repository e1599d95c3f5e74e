package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// maxRecordsAsked bounds one request for single jobs.
const maxRecordsAsked = 1_000

// ArchiveRange serves a range of this node's archive (SPEC §10.5).
func (s *nodeService) ArchiveRange(ctx context.Context,
	req *rotav1.ArchiveRangeRequest) (*rotav1.ArchiveRangeResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	slice, err := s.core.ArchiveRange(ctx, peer.ArchiveSpan{From: req.GetFrom(), To: req.GetTo()}, req.GetMaxBytes())
	if err != nil {
		return nil, err
	}
	answer := &rotav1.ArchiveRangeResponse{Floor: slice.Floor, Last: slice.Last, Records: recordsToWire(slice.Records)}
	for _, x := range slice.Covered {
		answer.Covered = append(answer.Covered, &rotav1.ArchiveSpan{From: x.From, To: x.To})
	}
	return answer, nil
}

// ArchiveSums compares a range of this node's archive with another's (SPEC §10.5).
func (s *nodeService) ArchiveSums(ctx context.Context,
	req *rotav1.ArchiveSumsRequest) (*rotav1.ArchiveSumsResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	same, each, err := s.core.ArchiveSums(ctx, peer.ArchiveSpan{From: req.GetFrom(), To: req.GetTo()}, req.GetSum())
	if err != nil {
		return nil, err
	}
	return &rotav1.ArchiveSumsResponse{Same: same, Records: recordsToWire(each)}, nil
}

// ArchiveRecords returns this node's archive records of single jobs.
func (s *nodeService) ArchiveRecords(ctx context.Context,
	req *rotav1.ArchiveRecordsRequest) (*rotav1.ArchiveRecordsResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	if err := checkCount("ids", len(req.GetIds()), maxRecordsAsked); err != nil {
		return nil, err
	}
	for _, id := range req.GetIds() {
		if err := peer.CheckRecordID("ids", rota.JobID(id)); err != nil {
			return nil, err
		}
	}
	records, err := s.core.ArchiveRecords(ctx, words.JobIDsFromWire(req.GetIds()))
	if err != nil {
		return nil, err
	}
	return &rotav1.ArchiveRecordsResponse{Records: recordsToWire(records)}, nil
}

// ListArchived reads one page for a node whose own history has gaps.
func (s *nodeService) ListArchived(ctx context.Context,
	req *rotav1.ListArchivedRequest) (*rotav1.ListJobsResponse, error) {
	if err := s.admit(ctx, req.GetCaller()); err != nil {
		return nil, err
	}
	filter, opt, err := words.JobFilterFromWire(req.GetList())
	if err != nil {
		return nil, err
	}
	if err := checkLimit(req.GetList().GetLimit(), req.GetList().GetCursor()); err != nil {
		return nil, err
	}
	return onePage(&filter.Limit, (*rotav1.ListJobsResponse).GetJobs, func() (*rotav1.ListJobsResponse, error) {
		page, err := s.core.ListArchived(ctx, filter, opt.MinIndex)
		if err != nil {
			return nil, err
		}
		return words.JobPageToWire(&page, rota.ReadAt{Index: opt.MinIndex}), nil
	})
}

func recordsToWire(records []peer.ArchiveRecord) []*rotav1.ArchiveRecord {
	wire := make([]*rotav1.ArchiveRecord, len(records))
	for i := range records {
		wire[i] = &rotav1.ArchiveRecord{Seq: records[i].Seq, Data: records[i].Data}
	}
	return wire
}

func recordsFromWire(wire []*rotav1.ArchiveRecord) []peer.ArchiveRecord {
	records := make([]peer.ArchiveRecord, len(wire))
	for i, w := range wire {
		records[i] = peer.ArchiveRecord{Seq: w.GetSeq(), Data: w.GetData()}
	}
	return records
}

// ArchiveRange fetches a range of another node's archive.
func (p *Peers) ArchiveRange(ctx context.Context, to peer.NodeAddress,
	span peer.ArchiveSpan, maxBytes int64) (slice peer.ArchiveSlice, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.ArchiveRange(ctx, &rotav1.ArchiveRangeRequest{Caller: me, From: span.From, To: span.To,
			MaxBytes: maxBytes})
		slice = peer.ArchiveSlice{Records: recordsFromWire(answer.GetRecords()), Floor: answer.GetFloor(),
			Last: answer.GetLast()}
		for _, x := range answer.GetCovered() {
			slice.Covered = append(slice.Covered, peer.ArchiveSpan{From: x.GetFrom(), To: x.GetTo()})
		}
		return err
	})
	return slice, err
}

// ArchiveSums makes another node compare its checksum of a span with this node's.
func (p *Peers) ArchiveSums(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan,
	sum []byte) (same bool, each []peer.ArchiveRecord, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.ArchiveSums(ctx, &rotav1.ArchiveSumsRequest{Caller: me, From: span.From, To: span.To,
			Sum: sum})
		same, each = answer.GetSame(), recordsFromWire(answer.GetRecords())
		return err
	})
	return same, each, err
}

// ArchiveRecords requests single jobs from another node's archive.
func (p *Peers) ArchiveRecords(ctx context.Context, to peer.NodeAddress,
	ids []rota.JobID) (records []peer.ArchiveRecord, err error) {
	asked := make([]string, len(ids))
	for i, id := range ids {
		asked[i] = string(id)
	}
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.ArchiveRecords(ctx, &rotav1.ArchiveRecordsRequest{Caller: me, Ids: asked})
		records = recordsFromWire(answer.GetRecords())
		return err
	})
	return records, err
}

// ListArchived reads a page of jobs from another node, once that node has applied at.
func (p *Peers) ListArchived(ctx context.Context, to peer.NodeAddress,
	f rota.JobFilter, at rota.Index) (page rota.JobPage, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.ListArchived(ctx, &rotav1.ListArchivedRequest{Caller: me,
			List: words.JobFilterToWire(&f, peer.ReadOptions{MinIndex: at})})
		if err == nil {
			page, _, err = words.JobPageFromWire(answer)
		}
		return err
	})
	return page, err
}
