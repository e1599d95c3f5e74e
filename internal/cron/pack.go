package cron

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

const (
	// packMagic begins what Pack writes; its digit is the version of the format.
	packMagic = "rotatz1\n"
	// maxZone bounds the name of a zone; the longest has 32 bytes.
	maxZone = 64
	// maxZones bounds the names of a release, aliases included; 2026f has 598.
	maxZones = 2_000
	// maxUnpacked bounds the data of all zones; 2026f has 207 KB, and 900 KB where every year is listed.
	maxUnpacked = 4 << 20
)

// Pack writes zones, TZif data by name, in one compressed piece: each distinct data once, then the sorted names. It
// refuses zones that Open would not read, and more than rota.MaxTZDataBytes.
func Pack(files map[string][]byte) ([]byte, error) {
	var contents, names []byte
	places, total := make(map[string]int), 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		place, known := places[string(data)]
		if !known {
			place = len(places)
			places[string(data)] = place
			total += len(data)
			contents = append(binary.AppendUvarint(contents, uint64(len(data))), data...)
		}
		names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
		names = binary.AppendUvarint(names, uint64(place))
	}
	body := append(binary.AppendUvarint(nil, uint64(len(places))), contents...)
	body = append(binary.AppendUvarint(body, uint64(len(files))), names...)
	if len(body) > maxUnpacked {
		return nil, refuseData("got %d bytes of zones, maximum %d", total, maxUnpacked)
	}
	packed := bytes.NewBufferString(packMagic)
	w, err := flate.NewWriter(packed, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(body); err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	if packed.Len() > rota.MaxTZDataBytes {
		return nil, refuseData("got %d bytes once packed, maximum %d; use the PyPI package tzdata, which is smaller",
			packed.Len(), rota.MaxTZDataBytes)
	}
	_, err = unpack(packed.Bytes())
	return packed.Bytes(), err
}

// unpack reads what Pack wrote.
func unpack(packed []byte) (map[string][]byte, error) {
	if len(packed) > rota.MaxTZDataBytes {
		return nil, refuseData("got %d bytes, maximum %d", len(packed), rota.MaxTZDataBytes)
	}
	rest, ok := bytes.CutPrefix(packed, []byte(packMagic))
	if !ok {
		return nil, refuseData("got data that does not begin with %q; install a file with `rota tzdata install`",
			packMagic)
	}
	body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(rest)), maxUnpacked+1))
	if err != nil || len(body) > maxUnpacked {
		return nil, refuseData("got data that does not decompress to at most %d bytes", maxUnpacked)
	}
	r := packReader{b: body}
	contents := make([][]byte, 0, min(r.count(), maxZones))
	for range cap(contents) {
		contents = append(contents, r.bytes(maxUnpacked))
	}
	count := r.count()
	files, last := make(map[string][]byte, count), ""
	for range count {
		name, place := string(r.bytes(maxZone)), r.count()
		if name <= last || place >= len(contents) {
			r.bad = true
			break
		}
		files[name], last = contents[place], name
	}
	if r.bad || len(r.b) > 0 || len(files) == 0 {
		return nil, refuseData("got damaged data, want 1 to %d zones with names of at most %d bytes", maxZones, maxZone)
	}
	return files, nil
}

// packReader reads the parts of unpacked data; the first fault sticks.
type packReader struct {
	b   []byte
	bad bool
}

func (r *packReader) count() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > maxZones {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *packReader) bytes(most uint64) []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most || n > uint64(len(r.b)-size) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[size : size+int(n)]
	r.b = r.b[size+int(n):]
	return b
}
