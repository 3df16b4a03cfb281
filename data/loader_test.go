package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counting is a data set whose image i is all i mod 256, but for one corner.
type counting struct {
	n    int
	read func(i int) error // may be nil
}

func (c counting) Len() int     { return c.n }
func (c counting) Shape() Shape { return Shape{1, 4, 4} }
func (c counting) Read(i int, dst []uint8) (int, error) {
	if c.read != nil {
		if err := c.read(i); err != nil {
			return 0, err
		}
	}
	for k := range dst {
		dst[k] = uint8(i)
	}
	dst[0] = 255 - uint8(i)
	return i % 10, nil
}

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// all returns copies of all batches.
func all(t *testing.T, d Dataset, order iter.Seq[int], cfg LoaderConfig) []Batch {
	t.Helper()
	l, err := NewLoader(d, order, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var batches []Batch
	for {
		b, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			if _, err := l.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("Next after io.EOF: got %v", err)
			}
			return batches
		}
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, Batch{Images: slices.Clone(b.Images), Pixels: slices.Clone(b.Pixels), Draws: slices.Clone(b.Draws), Labels: slices.Clone(b.Labels),
			Indices: slices.Clone(b.Indices), Targets: slices.Clone(b.Targets), N: b.N, Bad: b.Bad})
	}
}

func TestLoaderGivesEveryExampleInOrder(t *testing.T) {
	for _, readers := range []int{1, 2, 5} {
		batches := all(t, counting{n: 103}, upTo(103), LoaderConfig{BatchSize: 10, Readers: readers, Prefetch: 3})
		next := 0
		for _, b := range batches {
			for k := range b.N {
				if b.Indices[k] != next || int(b.Labels[k]) != next%10 || b.Images[k*16+5] != float32(next)/255 {
					t.Fatalf("%d readers, example %d: got index %d, label %d, pixel %v", readers, next, b.Indices[k], b.Labels[k], b.Images[k*16+5]*255)
				}
				next++
			}
		}
		if next != 103 {
			t.Errorf("%d readers: got %d examples, want 103", readers, next)
		}
	}
}

func TestTheLastBatchIsPaddedDroppedOrShort(t *testing.T) {
	for _, c := range []struct {
		last    Last
		n       int
		want    string // N/len of each batch
		indices []int  // of the last
	}{
		{PadLast, 10, "4/4 4/4 2/4", []int{8, 9, 8, 9}},
		{PadLast, 9, "4/4 4/4 1/4", []int{8, 8, 8, 8}},
		{PadLast, 8, "4/4 4/4", []int{4, 5, 6, 7}},
		{DropLast, 10, "4/4 4/4", []int{4, 5, 6, 7}},
		{ShortLast, 10, "4/4 4/4 2/2", []int{8, 9}},
		{PadLast, 0, "", nil},
	} {
		cfg := LoaderConfig{BatchSize: 4, Last: c.last}
		batches := all(t, counting{n: c.n}, upTo(c.n), cfg)
		var got []string
		for _, b := range batches {
			got = append(got, fmt.Sprintf("%d/%d", b.N, len(b.Labels)))
			if len(b.Images) != 16*len(b.Labels) || len(b.Indices) != len(b.Labels) {
				t.Errorf("last %d, n %d: got %d pixels for %d labels", c.last, c.n, len(b.Images), len(b.Labels))
			}
		}
		if strings.Join(got, " ") != c.want || cfg.Len(c.n) != len(batches) {
			t.Errorf("last %d, n %d: got %v, Len %d, want %s", c.last, c.n, got, cfg.Len(c.n), c.want)
		}
		if len(batches) > 0 {
			b := batches[len(batches)-1]
			if !slices.Equal(b.Indices, c.indices) || b.Images[len(b.Images)-1] != float32(b.Indices[len(b.Indices)-1])/255 {
				t.Errorf("last %d, n %d: got %v, want %v", c.last, c.n, b.Indices, c.indices)
			}
			for k, label := range b.Labels {
				if want := int32(b.Indices[k] % 10); k < b.N && label != want || k >= b.N && label != -1 {
					t.Errorf("last %d, n %d: label %d of %d: got %d, want %d or −1 for padding", c.last, c.n, k, b.N, label, want)
				}
			}
		}
	}
}

func TestAugmentationDependsOnSeedEpochAndIndexOnly(t *testing.T) {
	set := Synthetic(40, 1)
	augment := Augment{Pad: 4, Flip: true, Mean: CIFAR10Mean, Std: CIFAR10Std}
	image := func(seed uint64, epoch, readers, batch int, order iter.Seq[int], index int) []float32 {
		for _, b := range all(t, set, order, LoaderConfig{BatchSize: batch, Seed: seed, Epoch: epoch, Readers: readers, Augment: augment}) {
			if k := slices.Index(b.Indices, index); k >= 0 {
				return b.Images[k*3072 : (k+1)*3072]
			}
		}
		return nil
	}
	want := image(7, 2, 1, 8, upTo(40), 33)
	if got := image(7, 2, 4, 5, slices.Values([]int{33, 1, 33, 2, 3, 4}), 33); !slices.Equal(got, want) {
		t.Error("other batches and readers: want the same image")
	}
	if got := image(8, 2, 1, 8, upTo(40), 33); slices.Equal(got, want) {
		t.Error("another seed: want another image")
	}
	if got := image(7, 3, 1, 8, upTo(40), 33); slices.Equal(got, want) {
		t.Error("another epoch: want another image")
	}
}

// The augmenter's picture is one of the (2·Pad+1)²·2 possible ones, each of
// which is written down here pixel by pixel, and all of them come.
func TestCropAndFlipGiveEveryWindow(t *testing.T) {
	shape := Shape{2, 3, 5}
	pixels := make([]uint8, shape.Size())
	for i := range pixels {
		pixels[i] = uint8(i + 1)
	}
	possible := map[string]bool{}
	for dy := -2; dy <= 2; dy++ {
		for dx := -2; dx <= 2; dx++ {
			for _, flip := range []bool{false, true} {
				var window []float32
				for c := range 2 {
					for y := range 3 {
						for x := range 5 {
							sx, sy := x+dx, y+dy
							if flip {
								sx = 4 - x + dx
							}
							v := float32(0)
							if sx >= 0 && sx < 5 && sy >= 0 && sy < 3 {
								v = float32(pixels[(c*3+sy)*5+sx])
							}
							window = append(window, v/255)
						}
					}
				}
				possible[fmt.Sprint(window)] = false
			}
		}
	}
	cfg := Augment{Pad: 2, Flip: true}
	a := &augmenter{Augment: cfg, shape: shape, table: cfg.values(2)}
	dst := make([]float32, shape.Size())
	for i := range 3000 {
		a.image(dst, pixels, a.draw(1, 0, i))
		if _, ok := possible[fmt.Sprint(dst)]; !ok {
			t.Fatalf("index %d: got %v, not a window of the image", i, dst)
		}
		possible[fmt.Sprint(dst)] = true
	}
	for window, seen := range possible {
		if !seen {
			t.Errorf("never drawn in 3000: %s", window)
		}
	}
}

func TestNormaliseIsByChannel(t *testing.T) {
	cfg := Augment{Mean: []float32{0.5, 0}, Std: []float32{0.25, 2}}
	a := &augmenter{Augment: cfg, shape: Shape{2, 1, 1}, table: cfg.values(2)}
	dst := make([]float32, 2)
	a.image(dst, []uint8{255, 255}, a.draw(0, 0, 0))
	if dst[0] != 2 || dst[1] != 0.5 {
		t.Errorf("got %v, want [2 0.5]", dst)
	}
}

func TestAReadErrorEndsTheLoader(t *testing.T) {
	bad := errors.New("bad sector")
	d := counting{n: 20, read: func(i int) error {
		if i == 9 {
			return bad
		}
		return nil
	}}
	l, err := NewLoader(d, upTo(20), LoaderConfig{BatchSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for k := range 2 {
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatalf("batch %d: %v", k, err)
		}
	}
	for range 2 {
		if _, err := l.Next(t.Context()); !errors.Is(err, bad) || !strings.Contains(err.Error(), "example 9") {
			t.Errorf("batch 2: got error %v, want %v at example 9", err, bad)
		}
	}
}

func TestCloseStopsAllGoroutinesAndBuffersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make(chan int, 1000)
		d := counting{n: 1000, read: func(i int) error { reads <- i; return nil }}
		l, err := NewLoader(d, upTo(1000), LoaderConfig{BatchSize: 10, Prefetch: 3})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := len(reads); got != 40 {
			t.Errorf("read ahead before the first Next: got %d examples, want 40", got)
		}
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Close()
		l.Close()
		if _, err := l.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Next after Close: got %v, want %v", err, ErrClosed)
		}

		// The bubble ends only when no goroutine is left.
	})
}

func TestNextGivesUpWithItsContextAndGoesOnWithAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := counting{n: 4, read: func(i int) error { time.Sleep(10 * time.Second); return nil }}
		l, err := NewLoader(d, upTo(4), LoaderConfig{BatchSize: 2, Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next for a second: got %v, want %v", err, context.DeadlineExceeded)
		}
		b, err := l.Next(t.Context())
		if err != nil || b.Indices[0] != 0 {
			t.Errorf("Next again: got %v, want the first batch", err)
		}
		if got := l.Waited(); got != 20*time.Second {
			t.Errorf("waited: got %v, want 20s", got)
		}
		time.Sleep(time.Minute)
		if _, err := l.Next(t.Context()); err != nil || l.Waited() != 20*time.Second {
			t.Errorf("a batch that was ready: got %v, waited %v, want 20s as before", err, l.Waited())
		}
	})
}

func TestLoaderConfigErrorsNameTheField(t *testing.T) {
	for _, c := range []struct {
		cfg  LoaderConfig
		want string
	}{
		{LoaderConfig{}, "BatchSize: got 0"},
		{LoaderConfig{BatchSize: 1, Last: 9}, "Last: got 9"},
		{LoaderConfig{BatchSize: 1, Prefetch: -1}, "Prefetch"},
		{LoaderConfig{BatchSize: 1, Augment: Augment{Pad: -1}}, "Augment.Pad: got -1"},
		{LoaderConfig{BatchSize: 1, Augment: Augment{Mean: []float32{1, 2}}}, "Augment.Mean: got 2 numbers"},
		{LoaderConfig{BatchSize: 1, Augment: Augment{Std: []float32{0}}}, "Augment.Std[0]: got 0"},
	} {
		if _, err := NewLoader(counting{n: 1}, upTo(1), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}

// go test -run - -bench Loader ./data/
func BenchmarkLoader(b *testing.B) {
	set := Synthetic(1024, 1)
	for _, readers := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			for b.Loop() {
				l, err := NewLoader(set, upTo(1024), LoaderConfig{BatchSize: 64, Readers: readers,
					Augment: Augment{Pad: 4, Flip: true, Mean: CIFAR10Mean, Std: CIFAR10Std}})
				if err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := l.Next(b.Context()); err != nil {
						break
					}
				}
				l.Close()
			}
			b.ReportMetric(1024*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// What a device makes of raw pixels and draws is what the loader makes itself.
func TestRawBatchesHaveThePixelsAndDrawsOfTheImages(t *testing.T) {
	set := Synthetic(21, 1)
	cfg := LoaderConfig{BatchSize: 8, Seed: 7, Epoch: 2, Augment: Augment{Pad: 4, Flip: true, Mean: CIFAR10Mean, Std: CIFAR10Std}}
	for _, last := range []Last{PadLast, ShortLast} {
		cfg.Last, cfg.Raw = last, false
		want := all(t, set, upTo(21), cfg)
		cfg.Raw = true
		got := all(t, set, upTo(21), cfg)
		a := &augmenter{Augment: cfg.Augment, shape: set.Shape(), table: cfg.Augment.values(3)}
		image := make([]float32, set.Shape().Size())
		if len(got) != len(want) {
			t.Fatalf("last %v: got %d raw batches, want %d", last, len(got), len(want))
		}
		for b := range want {
			if len(got[b].Draws) != len(want[b].Labels) || got[b].Images != nil || !slices.Equal(got[b].Labels, want[b].Labels) {
				t.Fatalf("last %v, batch %d: got %d draws and labels %v, want %v and no images", last, b, len(got[b].Draws), got[b].Labels, want[b].Labels)
			}
			for k, d := range got[b].Draws {
				a.image(image, got[b].Pixels[k*len(image):(k+1)*len(image)], d)
				if !slices.Equal(image, want[b].Images[k*len(image):(k+1)*len(image)]) {
					t.Errorf("last %v, batch %d: image %d made of raw pixels is another", last, b, k)
				}
			}
		}
	}
}

func TestSizesCutTheBatches(t *testing.T) {
	sizes := slices.Values([]int{4, 2, 4, 1, 3})
	for _, c := range []struct {
		last Last
		n    int
		want string // N/len of each batch
	}{
		{PadLast, 21, "4/4 2/4 4/4 1/4 3/4 4/4 3/4"},
		{ShortLast, 21, "4/4 2/2 4/4 1/1 3/3 4/4 3/3"},
		{DropLast, 13, "4/4 2/4 4/4 1/4"}, // the fifth is not full
	} {
		batches := all(t, counting{n: c.n}, upTo(c.n), LoaderConfig{BatchSize: 4, Sizes: sizes, Last: c.last, Prefetch: 1})
		var got []string
		next := 0
		for _, b := range batches {
			got = append(got, fmt.Sprintf("%d/%d", b.N, len(b.Labels)))
			for k := range b.N {
				if b.Indices[k] != next || int(b.Labels[k]) != next%10 || b.Images[k*16+5] != float32(next)/255 {
					t.Errorf("last %d: example %d: got index %d, label %d", c.last, next, b.Indices[k], b.Labels[k])
				}
				next++
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("last %d: got %v, want %s", c.last, got, c.want)
		}
	}
}
