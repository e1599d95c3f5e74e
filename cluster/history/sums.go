package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// sumsAtOnce bounds the numbers that two archives compare by one sum: if it differs, the sum of each record is sent, 32
// bytes and its number, at most 64 KiB.
const sumsAtOnce = 1_000

// sums returns the SHA-256 of each record that this archive has of a span, and one over all of them, by number.
func (a *Archive) sums(span peer.ArchiveSpan) (each []peer.ArchiveRecord, all []byte, read int, err error) {
	whole := sha256.New()
	for from := span.From; from <= span.To; {
		slice, err := a.file.Jobs.Range(from, span.To, fetchBytes)
		if err != nil {
			return nil, nil, read, err
		}
		if len(slice.Covered) == 0 {
			break
		}
		for _, r := range slice.Records {
			sum := sha256.Sum256(r.Data)
			each = append(each, peer.ArchiveRecord{Seq: r.Seq, Data: sum[:]})
			whole.Write(binary.BigEndian.AppendUint64(nil, r.Seq))
			whole.Write(sum[:])
			read += len(r.Data)
		}
		from = slice.Covered[len(slice.Covered)-1].To + 1
	}
	return each, whole.Sum(nil), read, nil
}

// ArchiveSums compares another node's sum of a span of ended jobs with this node's. If they differ, it returns the sum
// of each record here.
func (a *Archive) ArchiveSums(_ context.Context, span peer.ArchiveSpan, sum []byte) (same bool,
	each []peer.ArchiveRecord, err error) {
	if span.From == 0 || span.To < span.From || span.To-span.From >= sumsAtOnce {
		return false, nil, rota.Refusef(rota.KindInvalid, "archive",
			"span must be 1 to %d numbers from 1 on, got %d to %d", sumsAtOnce, span.From, span.To)
	}
	each, all, _, err := a.sums(span)
	if err != nil || bytes.Equal(all, sum) {
		return err == nil, nil, err
	}
	return false, each, nil
}

// Compare compares the records here with those of the other nodes, span by span, and calls found for each that differs
// from the majority's: it is discarded and fetched from another node. Each node checks its own records. A record
// missing on one of two nodes proves nothing, since retention and deletion remove records at different times. Compare
// returns an error naming a record that differs without any form having a majority, and stops when rest, called with
// the bytes read, returns false.
func (a *Archive) Compare(found func(name, why string), rest func(read int) bool) (split error) {
	var last uint64
	for from := a.file.Jobs.Stats().Floor + 1; ; from += sumsAtOnce {
		if last = a.file.Jobs.Last(); from > last || a.host.alone() {
			return split
		}
		span := peer.ArchiveSpan{From: from, To: min(from+sumsAtOnce-1, last)}
		own, all, read, err := a.sums(span)
		if err != nil {
			return err
		}
		wrong, undecided := a.outvoted(span, own, all)
		if undecided != 0 {
			split = rota.Refusef(rota.KindUnavailable, "archive",
				"ended job number %d differs between nodes, and no form of "+
					"it has a majority: keep all nodes up, it is compared again", undecided)
		}
		for _, seq := range wrong {
			found(fmt.Sprintf("ended job number %d", seq), "a majority of the nodes has another record of it")
		}
		if len(wrong) > 0 {
			if err := a.file.Jobs.Drop(wrong); err != nil {
				return err
			}
		}
		if !rest(read) {
			return split
		}
	}
}

// outvoted requests the others' sums of a span. It returns the numbers whose record a majority of the nodes has in one
// other form, and one that differs without any majority, 0 for none.
func (a *Archive) outvoted(span peer.ArchiveSpan, own []peer.ArchiveRecord, all []byte) (wrong []uint64,
	undecided uint64) {
	others, _ := a.host.Others()
	votes := make(map[uint64][][]byte) // from the others, by number; same needs none
	agree := 0
	a.host.ask(func(to peer.NodeAddress) (bool, error) {
		ctx, cancel := context.WithTimeout(a.host.Life, fetchTimeout)
		defer cancel()
		same, each, err := a.host.Peers.ArchiveSums(ctx, to, span, all)
		switch {
		case err != nil:
			return false, err
		case same:
			agree++
		}
		for _, r := range each {
			if r.Seq < span.From || r.Seq > span.To || len(votes[r.Seq]) > len(others) {
				return false, rota.Refusef(rota.KindInvalid, "archive",
					"node %s sends the sum of record %d, which was not "+
						"asked for", to.ID, r.Seq)
			}
			votes[r.Seq] = append(votes[r.Seq], r.Data)
		}
		return false, nil
	})
	majority := (len(others)+1)/2 + 1
	for _, r := range own {
		held, most, differs := 1+agree, 0, false
		for i, v := range votes[r.Seq] {
			if bytes.Equal(v, r.Data) {
				held++
				continue
			}
			differs = true
			count := 0
			for _, other := range votes[r.Seq][i:] {
				if bytes.Equal(other, v) {
					count++
				}
			}
			most = max(most, count)
		}
		switch {
		case most >= majority:
			wrong = append(wrong, r.Seq)
		case differs && held < majority:
			undecided = r.Seq
		}
	}
	return wrong, undecided
}
