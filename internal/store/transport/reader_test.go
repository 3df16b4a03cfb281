package transport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

// pieces is a reader that returns as much as it likes, and counts.
type pieces struct {
	rest  []byte
	rng   *rand.Rand
	most  int // bytes at once; 0: as many as are asked for
	reads int
	err   error // behind the bytes
}

func (p *pieces) Read(b []byte) (int, error) {
	p.reads++
	if len(p.rest) == 0 {
		return 0, p.err
	}
	n := len(b)
	if p.most > 0 {
		n = min(n, p.rng.IntN(p.most+1)) // none, too
	}
	n = copy(b[:n], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Whatever the sizes of what is asked for and of what the connection gives, no byte is lost,
// repeated or out of place.
func TestFramesAreReadWhole(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		seeds = 40
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := make([]byte, 1<<20)
		for i := range all {
			all[i] = byte(rng.Uint32())
		}
		r := newFrameReader(&pieces{rest: all, rng: rng, most: 1 << rng.IntN(18), err: io.EOF}, traffic{})
		for at := 0; at < len(all); {
			n := min(rng.IntN(1<<rng.IntN(18)), len(all)-at)
			if rng.IntN(4) == 0 {
				if err := r.discard(n); err != nil {
					t.Fatalf("seed %d: discard %d bytes at %d: %v", seed, n, at, err)
				}
			} else {
				p := make([]byte, n)
				if err := r.full(p); err != nil || !bytes.Equal(p, all[at:at+n]) {
					t.Fatalf("seed %d: read %d bytes at %d: got others, or %v", seed, n, at, err)
				}
			}
			at += n
		}
		if err := r.full(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("seed %d: at the end: got %v, want %v", seed, err, io.EOF)
		}
	}
}

// The end in the middle of something is not the end; other errors are what they are.
func TestReadsThatStopHalfWay(t *testing.T) {
	broken := errors.New("broken")
	for _, x := range []struct {
		have, ask int
		end, want error
	}{
		{0, 16, io.EOF, io.EOF}, {3, 16, io.EOF, io.ErrUnexpectedEOF}, {3, 100_000, io.EOF, io.ErrUnexpectedEOF},
		{20_000, 100_000, io.EOF, io.ErrUnexpectedEOF}, {3, 16, broken, broken}, {3, 100_000, broken, broken},
	} {
		for _, before := range []int{0, 1} { // the rest is in the buffer then
			r := newFrameReader(&pieces{rest: make([]byte, before+x.have), err: x.end}, traffic{})
			if err := r.full(make([]byte, before)); err != nil {
				t.Fatal(err)
			}
			if err := r.full(make([]byte, x.ask)); !errors.Is(err, x.want) {
				t.Errorf("%d bytes of %d, after %d: got %v, want %v", x.have, x.ask, before, err, x.want)
			}
		}
	}
}

// Small frames that wait are read many at once; a large payload goes where it belongs, and but
// little of the next is read ahead.
func TestManySmallFramesAreReadAtOnce(t *testing.T) {
	from := &pieces{rest: make([]byte, 10<<20), err: io.EOF}
	r := newFrameReader(from, traffic{})
	for range 1000 {
		r.full(make([]byte, 16))
		r.full(make([]byte, 1100))
	}
	if most := 1000*1116/readBuffer + 4; from.reads > most {
		t.Errorf("1000 frames of 1116 bytes: got %d reads, want at most %d", from.reads, most)
	}
	r.full(make([]byte, 1<<20))
	r.full(make([]byte, 1))
	if n := r.buffered(); n >= readAhead {
		t.Errorf("read ahead after a large payload: got %d bytes, want less than %d", n, readAhead)
	}
}
