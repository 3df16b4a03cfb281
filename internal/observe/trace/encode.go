package trace

import (
	"encoding/binary"
	"unicode/utf8"
)

// MaxChunk bounds a chunk, in bytes.
const MaxChunk = 256 << 10

// Limits of what is in a chunk.
const (
	// MaxName is in bytes. Longer names are cut.
	MaxName = 1 << 10

	chunkFormat = 1
	leastSpan   = 9  // bytes
	longestSpan = 72 // bytes
	chunkHeader = 1 + binary.MaxVarintLen32 + binary.MaxVarintLen32

	// leastInChunk lets any span fit an empty chunk.
	leastInChunk = chunkHeader + MaxName + 2*binary.MaxVarintLen32 + longestSpan
)

// Encode encodes spans in their order as chunks of at most most bytes (about 1.2 KB where most is
// less). Each chunk can be decoded without the others. names are the names of the spans' keys, by
// index. A chunk is, with numbers as varints (encoding/binary):
//
//	format  1 byte, 1
//	names   count, then of each its length and its bytes, UTF-8
//	spans   count, then of each:
//	        kind (1 byte); begin minus the begin of the span before, of the first minus 0 (signed); end minus begin; step;
//	        name (0: none; n: the nth name of this chunk); shard; round; peer; bytes
//
// No spans make no chunk.
func Encode(spans []Span, names []string, most int) (chunks [][]byte) {
	for len(spans) > 0 {
		var chunk []byte
		chunk, spans = EncodeChunk(spans, names, most)
		chunks = append(chunks, chunk)
	}
	return chunks
}

// EncodeChunk encodes as many of the first spans as fit one chunk, at least one, and returns the
// others. See Encode.
func EncodeChunk(spans []Span, names []string, most int) (chunk []byte, rest []Span) {
	most = max(most, leastInChunk)
	var body, table []byte
	places := make(map[uint32]uint64)
	n, previous := 0, int64(0)
	for i := range spans {
		s := &spans[i]
		room := most - chunkHeader - len(table) - len(body)
		place, known := places[s.Key], true
		if s.Key != 0 && int(s.Key) < len(names) && place == 0 {
			known = false
			place = uint64(len(places) + 1)
		}
		if need := longestSpan; room < need || !known && room < need+binary.MaxVarintLen32+MaxName {
			break
		}
		if !known {
			places[s.Key] = place
			name := clip(names[s.Key])
			table = binary.AppendUvarint(table, uint64(len(name)))
			table = append(table, name...)
		}
		body = append(body, uint8(s.Kind))
		body = binary.AppendVarint(body, s.Begin-previous)
		previous = s.Begin
		for _, v := range [...]uint64{uint64(max(s.End-s.Begin, 0)), s.Step, place, uint64(s.Shard), s.Round, s.Peer, s.Bytes} {
			body = binary.AppendUvarint(body, v)
		}
		n++
	}
	chunk = append(make([]byte, 0, chunkHeader+len(table)+len(body)), chunkFormat)
	chunk = binary.AppendUvarint(chunk, uint64(len(places)))
	chunk = append(chunk, table...)
	chunk = binary.AppendUvarint(chunk, uint64(n))
	return append(chunk, body...), spans[n:]
}

// clip cuts a name to MaxName bytes of whole characters. What is not UTF-8 has no name.
func clip(name string) string {
	if !utf8.ValidString(name) {
		return ""
	}
	if len(name) <= MaxName {
		return name
	}
	n := MaxName
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}
