package trace

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// decodeAll decodes chunks, with the spans' keys as they were before Encode.
func decodeAll(t *testing.T, chunks [][]byte, names []string) (all []Span) {
	t.Helper()
	for i, c := range chunks {
		spans, own, err := Decode(c)
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		for _, s := range spans {
			if s.Key != 0 {
				s.Key = uint32(slices.Index(names, own[s.Key]))
			}
			all = append(all, s)
		}
	}
	return all
}

func TestSpansComeBackFromChunks(t *testing.T) {
	names := []string{"", "conv1.weight", "conv1.bias", strings.Repeat("x", MaxName), "größe"}
	var spans []Span
	for i := range 5000 {
		spans = append(spans, Span{Kind: Kind(1 + i%16), Begin: 1e18 + int64(i)*12345 - int64(i%7)*99999, Step: uint64(i / 100), Key: uint32(i % len(names)), Shard: uint32(i % 3), Round: uint64(i / 50),
			Peer: uint64(i%4 + 1), Bytes: uint64(i) * 1000})
		spans[i].End = spans[i].Begin + int64(i)*1000
	}
	spans = append(spans, Span{Kind: Push}, Span{Kind: Other, Begin: latest, End: latest, Step: math.MaxUint64, Key: 3, Shard: math.MaxUint32, Round: math.MaxUint64, Peer: math.MaxUint64, Bytes: math.MaxUint64})
	for _, most := range []int{0, 3000, MaxChunk} {
		chunks := Encode(spans, names, most)
		for i, c := range chunks {
			if len(c) > max(most, leastInChunk) {
				t.Errorf("at most %d bytes: chunk %d has %d", most, i, len(c))
			}
		}
		if most == MaxChunk && len(chunks) != 1 {
			t.Errorf("got %d chunks for %d spans, want 1", len(chunks), len(spans))
		}
		if got := decodeAll(t, chunks, names); !slices.Equal(got, spans) {
			t.Errorf("at most %d bytes: the spans do not come back as they were", most)
		}
	}
	if got := Encode(nil, names, MaxChunk); got != nil {
		t.Errorf("no spans: got %d chunks, want none", len(got))
	}
}

// What a program may do with names and times is no reason for a chunk that cannot be read.
func TestOddSpansAreEncodedSoThatTheyCanBeRead(t *testing.T) {
	names := []string{"", "\xff", strings.Repeat("ä", MaxName)}
	spans := []Span{{Kind: Push, Begin: 100, End: 50, Key: 1}, {Kind: Push, Begin: 5, End: 6, Key: 2}, {Kind: Push, Begin: 5, End: 6, Key: 77}}
	got, own, err := Decode(Encode(spans, names, MaxChunk)[0])
	if err != nil || len(got) != 3 {
		t.Fatalf("got %d spans, %v; want 3", len(got), err)
	}
	if got[0].End != 100 || own[got[0].Key] != "" || own[got[1].Key] != strings.Repeat("ä", MaxName/2) || got[2].Key != 0 {
		t.Errorf("got %+v with names of %d and %d bytes", got, len(own[got[0].Key]), len(own[got[1].Key]))
	}
}

func TestDecodeRefusesWhatIsNoChunk(t *testing.T) {
	for _, c := range []struct {
		name  string
		chunk []byte
		want  string
	}{
		{"empty", nil, "it ends too early"},
		{"long", make([]byte, MaxChunk+1), "of 262145 bytes, want at most 262144"},
		{"other format", []byte{2, 0, 0}, "of format 2, want 1"},
		{"too many names", []byte{1, 5, 1}, "5 names in 1 bytes, want at least 1 bytes each"},
		{"name beyond the end", []byte{1, 1, 9, 'a'}, "a name of 9 bytes in 1"},
		{"not UTF-8", []byte{1, 1, 1, 0xff, 0}, "a name that is not UTF-8"},
		{"too many spans", []byte{1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0}, "2 spans in 9 bytes, want at least 9 bytes each"},
		{"unknown name", []byte{1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0}, "name 1, want at most 0"},
		{"before 1970", []byte{1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, "span 0 is from -1 for 0 ns"},
		{"left over", []byte{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7}, "1 bytes are left over"},
		{"cut", []byte{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0x80}, "it ends within a number"},
	} {
		if _, _, err := Decode(c.chunk); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A later version may have more kinds.
func TestSpansOfUnknownKindsAreLeftOut(t *testing.T) {
	chunk := Encode([]Span{{Kind: 200, Begin: 1, End: 2}, {Kind: Push, Begin: 3, End: 4}}, nil, MaxChunk)[0]
	if got, _, err := Decode(chunk); err != nil || len(got) != 1 || got[0].Kind != Push || got[0].Begin != 3 {
		t.Errorf("got %+v, %v, want the push alone", got, err)
	}
}

// FuzzDecode holds: what decodes, encodes to something that decodes to the same; anything else is
// an error.
func FuzzDecode(f *testing.F) {
	f.Add(Encode([]Span{{Kind: Push, Begin: 1e18, End: 1e18 + 5, Key: 1, Shard: 2, Round: 3, Peer: 4, Bytes: 5}, {Kind: Round, Begin: 1e18 - 7, End: 1e18, Key: 2}}, []string{"", "a", "b"}, MaxChunk)[0])
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		spans, names, err := Decode(chunk)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		if cap(spans)*leastSpan > len(chunk) {
			t.Fatalf("%d bytes made room for %d spans", len(chunk), cap(spans))
		}
		again := Encode(spans, names, MaxChunk)
		var got []Span
		for _, c := range again {
			more, own, err := Decode(c)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range more {
				want := spans[len(got)+i]
				if own[s.Key] != names[want.Key] {
					t.Fatalf("name %q came back as %q", names[want.Key], own[s.Key])
				}
				s.Key = want.Key
				if s != want {
					t.Fatalf("got %+v, want %+v", s, want)
				}
			}
			got = append(got, more...)
		}
		if len(got) != len(spans) {
			t.Fatalf("%d spans came back as %d", len(spans), len(got))
		}
		if len(again) == 1 && len(spans) > 0 && !bytes.Equal(again[0][:1], chunk[:1]) {
			t.Fatal("another format")
		}
	})
}
