package text

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/sampler"
)

// Each token but the first is foretold once in an epoch, whatever number of workers there is.
func TestEachWindowIsReadOnceByAllWorkers(t *testing.T) {
	tokens := make([]uint16, 1000)
	for i := range tokens {
		tokens[i] = uint16(i)
	}
	w, err := NewWindows(tokens, 9)
	if err != nil {
		t.Fatal(err)
	}
	if w.Len() != 111 || w.Length() != 9 || w.NumTokens() != 1000 {
		t.Errorf("got %d windows of %d of %d tokens, want 111 of 9 of 1000", w.Len(), w.Length(), w.NumTokens())
	}
	for _, workers := range []int{1, 3, 4} {
		var foretold []int32
		inputs, targets := make([]int32, 9), make([]int32, 9)
		for rank := range workers {
			s, err := sampler.Split(w.Len(), workers, rank, sampler.Ordered(sampler.Permutation))
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Epoch(2) {
				if err := w.ReadPair(t.Context(), i, inputs, targets); err != nil {
					t.Fatal(err)
				}
				for k := range inputs {
					if targets[k] != inputs[k]+1 {
						t.Errorf("window %d: got target %d behind %d", i, targets[k], inputs[k])
					}
				}
				foretold = append(foretold, targets...)
			}
		}
		slices.Sort(foretold)
		if len(foretold) != 999 || foretold[0] != 1 || len(slices.Compact(foretold)) != 999 {
			t.Errorf("%d workers: got %d targets, want each of 999 once", workers, len(foretold))
		}
	}
}

func TestWindowsOfBytesAreThoseOfTheirTokens(t *testing.T) {
	const text = "to be, or not to be"
	a, err := NewWindows([]byte(text), 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewWindows(Bytes{}.Append(nil, text), 4)
	if err != nil {
		t.Fatal(err)
	}
	if a.Fingerprint() != b.Fingerprint() {
		t.Errorf("got fingerprints %s and %s, want the same", a.Fingerprint(), b.Fingerprint())
	}
	other, err := NewWindows([]byte(text+"!"), 4)
	if err != nil {
		t.Fatal(err)
	}
	if other.Fingerprint() == a.Fingerprint() {
		t.Error("another text has the same fingerprint")
	}
}

func TestWindowsThatThereCannotBeAreErrors(t *testing.T) {
	for _, length := range []int{0, -1, 4} {
		if _, err := NewWindows([]byte("four"), length); err == nil {
			t.Errorf("windows of %d: got no error", length)
		}
	}
	w, err := NewWindows([]byte("fours"), 4)
	if err != nil {
		t.Fatal(err)
	}
	room := make([]int32, 4)
	wantError(t, w.ReadPair(t.Context(), 1, room, room), "text: windows: got window 1, want 0 to 0")
	wantError(t, w.ReadPair(t.Context(), 0, room[:3], room), "text: windows: got room for 3 inputs and 4 targets, want 4 each")
}

func TestADocumentEndsWithItsEnd(t *testing.T) {
	got := make([]int32, 6)
	Documents([]int32{5, 9, 5, 5, 9, 9}, 9, got)
	if want := []int32{0, 0, 1, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
