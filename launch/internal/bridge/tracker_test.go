package bridge

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// Whatever the order in which exchanges end, their answers come in order, each when all before have
// ended, with the first error that no answer had.
func TestAnswersComeInTheOrderOfExchanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tr := &tracker{}
	over, answers := map[uint64]bool{}, map[uint64]bool{}
	failed := map[uint64]bool{}
	var underWay []uint64
	ended, told, answered := uint64(0), uint64(0), uint64(0)
	for range 200_000 {
		if len(underWay) < maxExchanges && tr.last-ended < trackerRoom && random.IntN(2) == 0 {
			n := tr.last + 1
			answers[n] = random.IntN(3) == 0
			if full, err := tr.begin(n, answers[n]); full || err != nil {
				t.Fatalf("exchange %d with %d under way: full %v, %v", n, len(underWay), full, err)
			}
			underWay = append(underWay, n)
		} else if len(underWay) > 0 {
			i := random.IntN(min(len(underWay), 1+random.IntN(len(underWay))))
			n := underWay[i]
			underWay = append(underWay[:i], underWay[i+1:]...)
			var e *errorText
			if failed[n] = random.IntN(10) == 0; failed[n] {
				e = &errorText{Number: n}
			}
			over[n] = true
			tr.end(n, e)
		}
		for over[ended+1] {
			ended++
			if !answers[ended] {
				continue
			}
			answered = ended
			a, ok := tr.take()
			first := uint64(0)
			for n := told + 1; n <= ended && first == 0; n++ {
				if failed[n] {
					first = n
				}
			}
			told = ended
			if !ok || a.number != ended || (a.failure == nil) != (first == 0) || first != 0 && a.failure.Number != first {
				t.Fatalf("got the answer %+v, %v, want %d with the error of %d", a, ok, ended, first)
			}
		}
		if a, ok := tr.take(); ok {
			t.Fatalf("got the answer %+v, and %d was the last due", a, answered)
		}
	}
}

func TestTrackerRefusesWhatTheProtocolDoesNotHave(t *testing.T) {
	tr := &tracker{}
	if _, err := tr.begin(2, false); !errors.Is(err, errProtocol) {
		t.Errorf("exchange 2 comes first: got %v, want errProtocol", err)
	}
	for n := uint64(1); n <= trackerRoom; n++ {
		full, err := tr.begin(n, true)
		if full != (n > maxExchanges) || err != nil {
			t.Fatalf("exchange %d: full %v, %v", n, full, err)
		}
	}
	if _, err := tr.begin(trackerRoom+1, true); !errors.Is(err, errProtocol) {
		t.Errorf("got %v, want errProtocol: there is no room", err)
	}
}
