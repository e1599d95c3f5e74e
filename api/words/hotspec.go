package words

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rotasched/rota"
)

// readJobSpec reads a job into words that share b's memory. Priority stays as it is where
// none is set.
func readJobSpec(s *rota.JobSpec, b []byte) error {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch f.kind {
		case protowire.VarintType:
			readSpecNumber(s, f.number, f.value)
		case protowire.BytesType:
			err = readSpecBytes(s, f.number, f.bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readSpecNumber(s *rota.JobSpec, number protowire.Number, v uint64) {
	switch number {
	case 5:
		s.Priority = int32(v)
	case 6:
		s.Fee = int64(v)
	case 7:
		s.SizeBytes = int64(v)
	case 9:
		s.DelayMs = int64(v)
	case 10:
		s.NotBefore = rota.Date(v)
	case 11:
		s.TTLMs = int64(v)
	case 12:
		s.MaxRuntimeMs = int64(v)
	case 13:
		s.CPUMilli = int64(v)
	case 14:
		s.MemoryBytes = int64(v)
	case 22:
		s.SimulateMs = int64(v)
	case 23:
		s.Units = int64(v)
	case 26:
		s.ExpectedMs = int64(v)
	case 27:
		s.RetryOnInvalidProof = v != 0
	case 29:
		s.Minted = v != 0
	case 30:
		s.IOBytesPerS = int64(v)
	}
}

func readSpecBytes(s *rota.JobSpec, number protowire.Number, b []byte) error {
	switch number {
	case 1:
		return textOfBytes(&s.ID, b)
	case 2:
		return textOfBytes(&s.Queue, b)
	case 3:
		return textOfBytes(&s.Type, b)
	case 4:
		return textOfBytes(&s.Tenant, b)
	case 8:
		s.Payload = b
	case 15:
		return readText(&s.Requires, b)
	case 16:
		return readText(&s.RegionsAllow, b)
	case 17:
		return readText(&s.RegionsDeny, b)
	case 18:
		return textOfBytes(&s.Zone, b)
	case 19:
		return textOfBytes(&s.Domain, b)
	case 20:
		return textOfBytes(&s.Worker, b)
	case 21:
		s.ExpectedDigest = b
	case 24:
		return pairOfBytes(&s.Labels, b)
	case 25:
		key, _, value, err := readPair(b, protowire.VarintType)
		if err == nil && s.Limits == nil {
			s.Limits = make(map[string]int64)
		}
		if err == nil {
			s.Limits[key] = int64(value)
		}
		return err
	case 28:
		return readText(&s.DataKeys, b)
	}
	return nil
}

func readText(to *[]string, b []byte) error {
	var s string
	err := textOfBytes(&s, b)
	*to = append(*to, s)
	return err
}

// readPair reads an entry of a map whose values are texts or numbers.
func readPair(b []byte, values protowire.Type) (key, text string, number uint64, err error) {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return "", "", 0, err
		}
		b = rest
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			err = textOfBytes(&key, f.bytes)
		case f.number != 2 || f.kind != values:
		case values == protowire.BytesType:
			err = textOfBytes(&text, f.bytes)
		default:
			number = f.value
		}
		if err != nil {
			return "", "", 0, err
		}
	}
	return key, text, number, nil
}

// pairOfBytes adds an entry of a map of texts.
func pairOfBytes(to *map[string]string, b []byte) error {
	key, value, _, err := readPair(b, protowire.BytesType)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = make(map[string]string)
	}
	(*to)[key] = value
	return nil
}
