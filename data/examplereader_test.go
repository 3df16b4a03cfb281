package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// drawing is an ExampleReader whose image i is a number that it draws, and whose labels are i and
// i+1.
type drawing struct {
	counting
	width int
	bad   func(i int) bool // may be nil
	read  func(ctx context.Context, i int) error

	mu        sync.Mutex
	announced []int
}

func (d *drawing) LabelWidth() int { return d.width }

func (d *drawing) ReadExample(ctx context.Context, i int, e *Example) error {
	if d.read != nil {
		if err := d.read(ctx, i); err != nil {
			return err
		}
	}
	for k := range e.Pixels {
		e.Pixels[k] = uint8(i)
	}
	if d.bad != nil && d.bad(i) {
		return fmt.Errorf("reading: %w", &BadExampleError{Example: i, Name: fmt.Sprintf("image-%d.jpg", i), Err: errors.New("ends too early")})
	}
	if e.Draw != nil {
		for k := range e.Pixels {
			e.Pixels[k] = uint8(e.Draw.Uint32())
		}
	}
	for k := range e.Labels {
		e.Labels[k] = float32(i + k)
	}
	e.Label = i % 10
	return nil
}

func (d *drawing) Announce(_ context.Context, indices []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announced = append(d.announced, indices...)
}

// What an example draws depends on seed, epoch and index, not on who reads it in which batch.
func TestAnExampleDrawsBySeedEpochAndIndexOnly(t *testing.T) {
	images := func(cfg LoaderConfig) map[int][]float32 {
		found := map[int][]float32{}
		for _, b := range all(t, &drawing{counting: counting{n: 40}}, upTo(40), cfg) {
			for k, i := range b.Indices[:b.N] {
				found[i] = b.Images[k*16 : (k+1)*16]
			}
		}
		return found
	}
	want := images(LoaderConfig{BatchSize: 8, Seed: 7, Epoch: 2, Readers: 1})
	same := func(got map[int][]float32) (n int) {
		for i, image := range got {
			if slices.Equal(image, want[i]) {
				n++
			}
		}
		return n
	}
	if n := same(images(LoaderConfig{BatchSize: 5, Seed: 7, Epoch: 2, Readers: 8})); n != 40 {
		t.Errorf("other batches and readers: %d images are the same, want 40", n)
	}
	for what, cfg := range map[string]LoaderConfig{
		"another seed":  {BatchSize: 8, Seed: 8, Epoch: 2},
		"another epoch": {BatchSize: 8, Seed: 7, Epoch: 3},
		"an evaluation": {BatchSize: 8, Seed: 7, Epoch: 2, Still: true},
	} {
		if n := same(images(cfg)); n != 0 {
			t.Errorf("%s: %d images are the same, want none", what, n)
		}
	}
}

// Draws of an example are a stream of their own: they are not those of Augment.
func TestExamplesAndAugmentDrawApart(t *testing.T) {
	images := func(augment Augment) []float32 {
		return all(t, &drawing{counting: counting{n: 1}}, upTo(1), LoaderConfig{BatchSize: 1, Seed: 1, Augment: augment})[0].Images
	}
	still, flipped := images(Augment{}), images(Augment{Flip: true})
	slices.Sort(still)
	slices.Sort(flipped)
	if !slices.Equal(still, flipped) {
		t.Errorf("the pixels are %v, with Flip %v, want the same ones", still, flipped)
	}
}

func TestWideLabelsComeAsTargets(t *testing.T) {
	batches := all(t, &drawing{counting: counting{n: 5}, width: 2}, upTo(5), LoaderConfig{BatchSize: 3})
	if got, want := fmt.Sprint(batches[0].Targets, batches[1].Targets), "[0 1 1 2 2 3] [3 4 4 5 -1 -1]"; got != want {
		t.Errorf("got targets %v, want %v", got, want)
	}
	short := all(t, &drawing{counting: counting{n: 5}, width: 2}, upTo(5), LoaderConfig{BatchSize: 3, Last: ShortLast})
	if got := len(short[1].Targets); got != 4 {
		t.Errorf("a short batch of 2 has %d targets, want 4", got)
	}
}

// Damaged examples are left out within the budget, wherever in a batch they are, and named.
func TestDamagedExamplesAreLeftOutWithinTheBudget(t *testing.T) {
	bad := func(i int) bool { return i == 1 || i == 6 }
	for _, raw := range []bool{false, true} {
		var log strings.Builder
		batches := all(t, &drawing{counting: counting{n: 9}, width: 1, bad: bad}, upTo(9), LoaderConfig{BatchSize: 4, BadExamples: 2, Raw: raw,
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		labels, targets, n := []int32{}, []float32{}, 0
		for _, b := range batches {
			labels, targets, n = append(labels, b.Labels[:b.N]...), append(targets, b.Targets[:b.N]...), n+len(b.Bad)
		}
		if got, want := fmt.Sprint(labels, targets, n), "[0 -1 2 3 4 5 -1 7 8] [0 -1 2 3 4 5 -1 7 8] 2"; got != want {
			t.Errorf("raw %v: got labels, targets and damaged ones %v, want %v", raw, got, want)
		}
		if b := batches[0]; raw && slices.Max(b.Pixels[16:32]) != 0 || !raw && slices.Max(b.Images[16:32]) != 0 {
			t.Errorf("raw %v: the pixels of example 1 are not 0", raw)
		}
		for _, want := range []string{`example=1 name=image-1.jpg error="ends too early" "left out"=1 budget=2`, "example=6"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("raw %v: the log is %q, want %s in it", raw, log.String(), want)
			}
		}
	}
}

// Whoever reads, the same example is the one too many, and the error names the first ones.
func TestOneDamagedExampleTooManyEndsTheLoader(t *testing.T) {
	for _, readers := range []int{1, 6} {
		d := &drawing{counting: counting{n: 40}, bad: func(i int) bool { return i%2 == 1 }}
		l, err := NewLoader(d, upTo(40), LoaderConfig{BatchSize: 8, BadExamples: 9, Readers: readers})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			if _, err := l.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, err = l.Next(t.Context())
		var many *BadExamplesError
		if !errors.As(err, &many) || many.Count != 10 || many.First[9].Example != 19 {
			t.Fatalf("%d readers: got error %v, want the tenth damaged example, 19", readers, err)
		}
		for _, want := range []string{"10 examples are damaged, more than the 9", "example 1 (image-1.jpg): ends too early; example 3 "} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%d readers: got error %v, want %q in it", readers, err, want)
			}
		}
	}
	d := &drawing{counting: counting{n: 4}, bad: func(i int) bool { return i == 2 }}
	l, err := NewLoader(d, upTo(4), LoaderConfig{BatchSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Next(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "data: loader: example 2 (image-2.jpg): ends too early; BadExamples leaves") {
		t.Errorf("without a budget: got error %v, want the example's", err)
	}
}

// Several readers share a batch: one slow batch does not wait for one of them alone.
func TestReadersShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drawing{counting: counting{n: 8}, read: func(context.Context, int) error { time.Sleep(time.Second); return nil }}
		l, err := NewLoader(d, upTo(8), LoaderConfig{BatchSize: 8, Readers: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.Next(t.Context()); err != nil || l.Waited() != 2*time.Second {
			t.Errorf("8 examples of a second by 4 readers took %v, error %v, want 2s", l.Waited(), err)
		}
	})
}

func TestCloseEndsReadsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drawing{counting: counting{n: 8}, read: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		l, err := NewLoader(d, upTo(8), LoaderConfig{BatchSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.Close()

		// The bubble ends only when no goroutine is left.
	})
}

// Close of a loader returns only when no reader uses the data set any more, so that the caller may
// close the data set next.
func TestCloseWaitsForReadsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading atomic.Int32
		d := &drawing{counting: counting{n: 8}, read: func(ctx context.Context, _ int) error {
			reading.Add(1)
			defer reading.Add(-1)
			<-ctx.Done()
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		l, err := NewLoader(d, upTo(8), LoaderConfig{BatchSize: 4, Readers: 3})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := reading.Load(); got != 3 {
			t.Errorf("%d reads are under way, want one of each of 3 readers", got)
		}
		l.Close()
		if got := reading.Load(); got != 0 {
			t.Errorf("%d reads are under way after Close, want none", got)
		}
	})
}

// A batch is announced, in its order, before it is read, and no more than the batches that are read
// ahead.
func TestBatchesAreAnnouncedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drawing{counting: counting{n: 100}, read: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		l, err := NewLoader(d, upTo(100), LoaderConfig{BatchSize: 10, Prefetch: 3})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := slices.Collect(upTo(40)); !slices.Equal(d.announced, want) {
			t.Errorf("announced: got %v, want %v", d.announced, want)
		}
		l.Close()
	})
}

// However many batches are to be read ahead, they take no more memory than is allowed, but one is
// read ahead.
func TestBatchesReadAheadAreBoundedInBytes(t *testing.T) {
	for _, c := range []struct {
		raw   bool
		bytes int64
		want  int // batches
	}{
		{false, 10 * 16 * 4 * 3, 3},
		{true, 10 * 16 * 3, 3},
		{false, 1, 2},
		{false, 0, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &drawing{counting: counting{n: 1000}}
			l, err := NewLoader(d, upTo(1000), LoaderConfig{BatchSize: 10, Prefetch: 6, PrefetchBytes: c.bytes, Raw: c.raw})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := len(d.announced) / 10; got != c.want {
				t.Errorf("%d bytes, raw %v: got %d batches, want %d", c.bytes, c.raw, got, c.want)
			}
			l.Close()
		})
	}
}

func TestReadersAreAsManyAsDecodingNeeds(t *testing.T) {
	for _, c := range []struct {
		dataset Dataset
		want    int
	}{{counting{n: 1}, 2}, {&drawing{counting: counting{n: 1}}, runtime.GOMAXPROCS(0)}} {
		cfg := LoaderConfig{BatchSize: 1}
		if cfg.setDefaults(c.dataset); cfg.Readers != c.want {
			t.Errorf("%T: got %d readers, want %d", c.dataset, cfg.Readers, c.want)
		}
	}
}
