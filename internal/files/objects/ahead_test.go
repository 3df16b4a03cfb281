package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func TestAnAheadIsAStore(t *testing.T) {
	var store *objectstest.Memory
	objectstest.TestStore(t, objectstest.Suite{
		Make: func(_ *testing.T, contents map[string][]byte) objects.Store {
			store = objectstest.New(contents)
			return objects.NewAhead(store, objects.AheadConfig{})
		},
		Replace: func(_ *testing.T, name string, data []byte) { store.Put(name, data) },
		Remove:  func(_ *testing.T, name string) { store.Remove(name) },
	})
}

// A pool is a store of one object with ranges of 1000 bytes, and an Ahead over it.
type pool struct {
	*objectstest.Memory
	ahead  *objects.Ahead
	data   []byte
	ranges []objects.Range
}

// newPool makes a pool whose ranges have gaps of so many bytes.
func newPool(t *testing.T, ranges, gap int, cfg objects.AheadConfig) *pool {
	p := &pool{data: random(ranges * (1000 + gap))}
	p.Memory = objectstest.New(map[string][]byte{"a": p.data})
	p.Latency = 20 * time.Millisecond
	object := objects.Info{Name: "a", Size: int64(len(p.data)), Version: "v1"}
	for i := range ranges {
		p.ranges = append(p.ranges, objects.Range{Object: object, Off: int64(i * (1000 + gap)), Length: 1000})
	}
	p.ahead = objects.NewAhead(p.Memory, cfg)
	t.Cleanup(func() {
		if err := p.ahead.Close(); err != nil {
			t.Error(err)
		}
		if held, _ := p.ahead.Held(); held != 0 {
			t.Errorf("%d bytes are held after Close", held)
		}
	})
	return p
}

// read reads range i and checks it.
func (p *pool) read(t *testing.T, i int) {
	t.Helper()
	r := p.ranges[i]
	got := make([]byte, r.Length)
	if err := p.ahead.ReadRange(t.Context(), r.Object, got, r.Off); err != nil || !bytes.Equal(got, p.data[r.Off:r.Off+r.Length]) {
		t.Errorf("range %d: got other bytes, or error %v", i, err)
	}
}

func (p *pool) wantHeld(t *testing.T, bytes int64, ranges int) {
	t.Helper()
	if b, n := p.ahead.Held(); b != bytes || n != ranges {
		t.Errorf("holds %d bytes and knows %d ranges, want %d and %d", b, n, bytes, ranges)
	}
}

// offsets are the offsets of the store's reads.
func (p *pool) offsets() (offs []int64) {
	for _, c := range p.Calls() {
		offs = append(offs, c.Off)
	}
	return offs
}

func TestWhatWasAnnouncedIsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 10, 10, objects.AheadConfig{Gap: -1})
		p.ahead.Announce(t.Context(), p.ranges)
		time.Sleep(time.Second)
		p.wantHeld(t, 10_000, 10)
		began := time.Now()
		for i := range p.ranges {
			p.read(t, i)
		}
		if took := time.Since(began); took != 0 || len(p.Calls()) != 10 {
			t.Errorf("10 reads took %v with %d calls, want no time and 10", took, len(p.Calls()))
		}
		p.wantHeld(t, 0, 0)
		p.read(t, 3) // It is not announced any more.
		if n := len(p.Calls()); n != 11 {
			t.Errorf("got %d calls, want 11", n)
		}
	})
}

func TestAReadWaitsForTheRequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 10, 10, objects.AheadConfig{})
		p.ahead.Announce(t.Context(), p.ranges)
		time.Sleep(15 * time.Millisecond)
		began := time.Now()
		p.read(t, 9)
		if took := time.Since(began); took != 5*time.Millisecond || len(p.Calls()) != 1 {
			t.Errorf("took %v with %d calls, want 5ms and 1", took, len(p.Calls()))
		}
	})
}

func TestRangesNearEachOtherShareARequest(t *testing.T) {
	for _, c := range []struct {
		gap, limit int64
		longest    int64
		want       []int64 // offsets of requests
	}{
		{gap: 10, limit: 10, want: []int64{0}},
		{gap: 10, limit: 9, want: []int64{0, 1010, 2020, 3030}},
		{gap: 10, limit: -1, want: []int64{0, 1010, 2020, 3030}},
		{gap: 0, limit: -1, want: []int64{0}},
		{gap: 10, limit: 10, longest: 2010, want: []int64{0, 2020}},
		{gap: 10, limit: 10, longest: 500, want: []int64{0, 1010, 2020, 3030}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, 4, int(c.gap), objects.AheadConfig{Gap: c.limit, Longest: c.longest})
			shuffled := []objects.Range{p.ranges[2], p.ranges[0], p.ranges[3], p.ranges[1]}
			p.ahead.Announce(t.Context(), shuffled)
			for i := range p.ranges {
				p.read(t, i)
			}
			got := p.offsets()
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("gaps of %d, at most %d, and requests of at most %d bytes: got requests at %d, want %d", c.gap, c.limit, c.longest, got, c.want)
			}
			p.wantHeld(t, 0, 0)
		})
	}
}

// Two versions and two objects are never read by one request.
func TestOnlyOneVersionOfOneObjectIsInARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 3, 0, objects.AheadConfig{})
		p.Put("b", p.data)
		p.ranges[1].Object.Version = "v0"
		other, err := p.Stat(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		p.ranges[2].Object = other
		p.ahead.Announce(t.Context(), p.ranges)
		p.read(t, 0)
		p.read(t, 2)
		r := p.ranges[1]
		if err := p.ahead.ReadRange(t.Context(), r.Object, make([]byte, 1000), r.Off); !errors.Is(err, objects.ErrChanged) {
			t.Errorf("got error %v, want %v", err, objects.ErrChanged)
		}
	})
}

func TestRequestsBeginInTheOrderAnnouncedWithinTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 100, 10, objects.AheadConfig{Gap: -1, Requests: 8, Bytes: 20_000})
		order := rand.New(rand.NewPCG(1, 2)).Perm(100)
		var ranges []objects.Range
		for _, i := range order {
			ranges = append(ranges, p.ranges[i])
		}
		p.ahead.Announce(t.Context(), ranges[:50])
		p.ahead.Announce(t.Context(), ranges[50:])
		time.Sleep(time.Second)
		if n := len(p.Calls()); n != 20 || p.MostReads() != 8 {
			t.Errorf("got %d requests, %d at once, want 20 for 20000 bytes, 8 at once", n, p.MostReads())
		}
		p.wantHeld(t, 20_000, 100)
		for i, at := range order {
			p.read(t, at)
			synctest.Wait()
			if held, _ := p.ahead.Held(); held > 20_000 {
				t.Fatalf("after %d reads %d bytes are held, want at most 20000", i+1, held)
			}
		}
		var want []int64
		for _, r := range ranges {
			want = append(want, r.Off)
		}
		got := p.offsets()
		if len(got) != 100 {
			t.Fatalf("got %d requests, want 100", len(got))
		}

		// Those that begin together may be seen in another order.
		for i, off := range got {
			if at := slices.Index(want, off); at < i-8 || at > i+8 {
				t.Errorf("request %d is for range %d of those announced", i, at)
			}
		}
	})
}

// Readers never wait for memory: they read in the opposite order, and the bound is below a range.
func TestNoOrderOfReadsAndNoBoundEndsInADeadlock(t *testing.T) {
	for _, bound := range []int64{1, 999, 1000, 1500, 5000, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, 50, 10, objects.AheadConfig{Bytes: bound, Requests: 2})
			p.ahead.Announce(t.Context(), p.ranges)
			for i := range slices.Backward(p.ranges) {
				p.read(t, i)
			}
			synctest.Wait()
			p.wantHeld(t, 0, 0)
			if p.BytesRead() > 2*50*1010 {
				t.Errorf("bound %d: %d bytes were read for 50000", bound, p.BytesRead())
			}
		})
	}
}

func TestWhatIsAnnouncedTwiceIsReadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2, 10, objects.AheadConfig{Gap: -1})
		p.ahead.Announce(t.Context(), []objects.Range{p.ranges[0], p.ranges[1], p.ranges[0]})
		p.ahead.Announce(t.Context(), p.ranges[:1])
		for range 3 {
			p.read(t, 0)
		}
		p.wantHeld(t, 1000, 1)
		p.read(t, 1)
		p.wantHeld(t, 0, 0)
		if n := len(p.Calls()); n != 2 {
			t.Errorf("got %d requests, want 2", n)
		}
	})
}

// A request that fails is sent anew by the reader, whose error is that of its own range.
func TestAFailedRequestHarmsNoNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 3, 10, objects.AheadConfig{})
		broken := errors.New("broken")
		p.Fail = func(c objectstest.Call) error {
			if c.Off <= 1010 && c.Off+c.Length > 1010 {
				return broken
			}
			return nil
		}
		p.ahead.Announce(t.Context(), p.ranges)
		p.read(t, 0)
		p.read(t, 2)
		r := p.ranges[1]
		err := p.ahead.ReadRange(t.Context(), r.Object, make([]byte, 1000), r.Off)
		if want := fmt.Sprintf("1000 bytes from byte %d", r.Off); !errors.Is(err, broken) || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("got error %v, want that of %s", err, want)
		}
		p.wantHeld(t, 0, 0)
	})
}

// The end of a context ends what only it has announced: requests, memory and goroutines.
func TestTheEndOfAnAnnouncementFreesItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 100, 10, objects.AheadConfig{Gap: -1, Requests: 4, Bytes: 50_000})
		ctx, cancel := context.WithCancel(t.Context())
		p.ahead.Announce(ctx, p.ranges)
		p.ahead.Announce(t.Context(), p.ranges[:2])
		time.Sleep(50 * time.Millisecond) // Eight are there, four under way.
		began := time.Now()
		cancel()
		synctest.Wait()
		p.wantHeld(t, 2000, 2)
		if n := len(p.Calls()); n != 12 || time.Since(began) != 0 {
			t.Errorf("got %d requests by the end, %v after it, want 12 at once", n, time.Since(began))
		}
		p.read(t, 0)
		p.read(t, 1)
		p.wantHeld(t, 0, 0)
		p.read(t, 2)
		p.ahead.Announce(ctx, p.ranges) // It has ended.
		p.wantHeld(t, 0, 0)
	})
}

func TestAReadEndsWhileItsRangeIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2, 10, objects.AheadConfig{})
		p.ahead.Announce(t.Context(), p.ranges)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		r := p.ranges[0]
		if err := p.ahead.ReadRange(ctx, r.Object, make([]byte, 1000), r.Off); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
		}
		p.read(t, 1)
		p.wantHeld(t, 0, 0)
	})
}

func TestCloseEndsRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 10, 10, objects.AheadConfig{Gap: -1, Requests: 2})
		p.ahead.Announce(t.Context(), p.ranges)
		time.Sleep(time.Millisecond)
		began := time.Now()
		if err := p.ahead.Close(); err != nil || !p.Closed() || time.Since(began) != 0 {
			t.Errorf("got error %v, and the store is closed: %v after %v", err, p.Closed(), time.Since(began))
		}
	})
}

// Many announce, read and give up at once; each byte is right, and nothing is left.
func TestManyAnnounceAndReadAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 300, 10, objects.AheadConfig{Gap: 10, Requests: 5, Bytes: 30_000, Longest: 4000})
		p.Latency = 0
		p.Fail = func(c objectstest.Call) error {
			if c.Number%17 == 0 && c.Length > 1000 {
				return errors.New("broken")
			}
			return nil
		}
		var readers sync.WaitGroup
		for r := range 8 {
			readers.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(r)))
				for range 40 {
					ctx, cancel := context.WithCancel(t.Context())
					var some []objects.Range
					order := rng.Perm(len(p.ranges))[:1+rng.IntN(20)]
					for _, i := range order {
						some = append(some, p.ranges[i])
					}
					p.ahead.Announce(ctx, some)
					rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
					for _, i := range order[:rng.IntN(len(order)+1)] {
						p.read(t, i)
					}
					cancel()
				}
			})
		}
		readers.Wait()
		synctest.Wait()
		p.wantHeld(t, 0, 0)
	})
}

// With 20 ms to the first byte a reader ahead gives what 64 requests at once give.
func TestReadingAheadHidesLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 6400, 10, objects.AheadConfig{Gap: -1})
		order := rand.New(rand.NewPCG(1, 2)).Perm(len(p.ranges))
		began := time.Now()
		const window = 512
		announce := func(from, to int) {
			var some []objects.Range
			for _, i := range order[min(from, len(order)):min(to, len(order))] {
				some = append(some, p.ranges[i])
			}
			p.ahead.Announce(t.Context(), some)
		}
		announce(0, window)
		for n, i := range order {
			if n%64 == 0 {
				announce(n+window, n+window+64)
			}
			p.read(t, i)
		}
		// Direct reads by one reader would take 128 s.
		if took, want := time.Since(began), 2*time.Second; took > want+100*time.Millisecond {
			t.Errorf("6400 reads took %v, want %v", took, want)
		}
	})
}

// Small records that are spread over an object are read one by one where the gaps are the larger
// part: what the store sends is at most twice what is wanted.
func TestAtMostHalfOfTheBytesReadAreGaps(t *testing.T) {
	for _, gap := range []int{500, 1000, 1001, 5000, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, 2000, gap, objects.AheadConfig{})
			order := rand.New(rand.NewPCG(1, 2)).Perm(len(p.ranges))[:1000]
			var some []objects.Range
			for _, i := range order {
				some = append(some, p.ranges[i])
			}
			p.ahead.Announce(t.Context(), some)
			for _, i := range order {
				p.read(t, i)
			}
			wanted := int64(1000 * len(order))
			if p.BytesRead() > 2*wanted {
				t.Errorf("gaps of %d bytes: %d bytes in %d requests were read for %d, want at most twice as many",
					gap, p.BytesRead(), len(p.Calls()), wanted)
			}
			for _, c := range p.Calls() {
				inside := int64(0)
				for _, r := range some {
					if r.Off >= c.Off && r.Off < c.Off+c.Length {
						inside += r.Length
					}
				}
				if c.Length > 2*inside {
					t.Errorf("gaps of %d bytes: a request of %d bytes has %d that are wanted", gap, c.Length, inside)
				}
			}
		})
	}
}

// What a reader has taken out of a request that waits is a gap in it: then it is two requests.
func TestWhatReadersTakeOutOfARequestIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 20, 1000, objects.AheadConfig{Requests: 1})
		p.ahead.Announce(t.Context(), p.ranges[:1])
		p.ahead.Announce(t.Context(), p.ranges[10:13])
		p.read(t, 11)
		for _, i := range []int{0, 10, 12} {
			time.Sleep(time.Second)
			p.read(t, i)
		}
		for _, c := range p.Calls() {
			if c.Length > 1000 {
				t.Errorf("a request has %d bytes of which 2000 are wanted", c.Length)
			}
		}
		if n := len(p.Calls()); n != 4 {
			t.Errorf("got %d requests, want 4", n)
		}
		p.wantHeld(t, 0, 0)
	})
}
