package transform

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// raceEnabled says that the race detector runs, which makes sync.Pool forget.
var raceEnabled bool

func draws(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// each is every transform, with whether it draws.
func each() map[Transform]bool {
	return map[Transform]bool{
		Resize(20): false, ResizeTo(9, 31): false, CenterCrop(16): false,
		RandomResizedCrop(16): true, RandomCrop(8, 4): true, Flip(): true,
		ColorJitter(0.4, 0.4, 0.4, 0.1): true, RandAugment(2, 9): true, TrivialAugment(): true, RandomErasing(0.9): true, Grayscale(): false,
	}
}

// What a transform makes depends on the image and the draws alone: not on what it made before, nor
// on who calls it at the same time.
func TestEqualDrawsGiveEqualImages(t *testing.T) {
	for tr := range each() {
		t.Run(fmt.Sprint(tr), func(t *testing.T) {
			for _, shape := range [][3]int{{40, 30, 3}, {31, 42, 1}, {8, 8, 3}} {
				want := make([]*Image, 20)
				for i := range want {
					img, err := tr.Apply(made(shape[0], shape[1], shape[2]), draws(uint64(i)))
					if err != nil {
						t.Fatal(err)
					}
					want[i] = img
				}
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						for i := range want {
							got, err := tr.Apply(made(shape[0], shape[1], shape[2]), draws(uint64(i)))
							if err != nil {
								t.Error(err)
								return
							}
							if got.Width != want[i].Width || got.Height != want[i].Height || !bytes.Equal(got.Pix, want[i].Pix) {
								t.Errorf("draw %d of an image of %v: two calls give two images", i, shape)
							}
						}
					})
				}
				all.Wait()
			}
		})
	}
}

// A Sizer keeps its promise, and no transform changes the number of channels.
func TestImagesHaveThePromisedSize(t *testing.T) {
	for tr := range each() {
		for _, shape := range [][3]int{{40, 30, 3}, {17, 99, 1}, {9, 9, 3}} {
			for seed := range uint64(5) {
				img, err := tr.Apply(made(shape[0], shape[1], shape[2]), draws(seed))
				if err != nil {
					t.Fatalf("%v of %v: %v", tr, shape, err)
				}
				if err := img.check("test"); err != nil {
					t.Errorf("%v of %v: %v", tr, shape, err)
				}
				if img.Channels != shape[2] {
					t.Errorf("%v of %v: got %d channels", tr, shape, img.Channels)
				}
				if s, ok := tr.(Sizer); ok {
					if w, h := s.Size(); w != 0 && (w != img.Width || h != img.Height) {
						t.Errorf("%v of %v: got %d×%d, want the promised %d×%d", tr, shape, img.Width, img.Height, w, h)
					}
				}
			}
		}
	}
}

func TestRandomTransformsRefuseAnEvaluation(t *testing.T) {
	for tr, random := range each() {
		_, err := tr.Apply(made(30, 30, 3), nil)
		if random != (err != nil) {
			t.Errorf("%v without random numbers: got error %v, want one: %v", tr, err, random)
		}
	}
}

func TestImagesThatMakeNoSenseAreErrors(t *testing.T) {
	for tr := range each() {
		for _, img := range []*Image{nil, {}, {Width: 0, Height: 3, Channels: 3}, {Width: 2, Height: 2, Channels: 2, Pix: make([]uint8, 8)},
			{Width: 2, Height: 2, Channels: 3, Pix: make([]uint8, 11)}, {Width: -1, Height: -1, Channels: 1, Pix: make([]uint8, 1)}} {
			if _, err := tr.Apply(img, draws(1)); err == nil || !strings.Contains(err.Error(), "got") {
				t.Errorf("%v of %+v: got error %v, want one that says what it got", tr, img, err)
			}
		}
	}
	if _, err := RandomCrop(32, 3).Apply(made(25, 40, 3), draws(1)); err == nil {
		t.Error("a random crop of 32 of an image of 25×40 with 3 around it: got no error")
	}
	if _, err := Resize(4000).Apply(made(1, 20, 3), nil); err == nil {
		t.Error("an image of 1×20 with a shorter side of 4000: got no error")
	}
}

// Numbers that stand in a program panic, those of a Config are errors; both name what is wrong.
func TestOptionsThatMakeNoSenseAreNamed(t *testing.T) {
	for want, err := range map[string]error{
		"ResizeConfig.Width: got 0":             ResizeConfig{}.Validate(),
		"ResizeConfig.Shorter: got -1":          ResizeConfig{Shorter: -1}.Validate(),
		"got Shorter 3 and 4×0":                 ResizeConfig{Shorter: 3, Width: 4}.Validate(),
		"ResizeConfig.Filter: got Filter(9)":    ResizeConfig{Shorter: 3, Filter: 9}.Validate(),
		"RandomResizedCropConfig.Height: got 0": RandomResizedCropConfig{Width: 3}.Validate(),
		"RandomResizedCropConfig.Scale: got [0 2]": RandomResizedCropConfig{Width: 3, Height: 3,
			Scale: [2]float64{0, 2}}.Validate(),
		"RandomResizedCropConfig.Ratio: got [NaN 2]": RandomResizedCropConfig{Width: 3, Height: 3,
			Ratio: [2]float64{math.NaN(), 2}}.Validate(),
		"ColorJitterConfig.Hue: got 0.6":           ColorJitterConfig{Hue: 0.6}.Validate(),
		"ColorJitterConfig.Contrast: got NaN":      ColorJitterConfig{Contrast: math.NaN()}.Validate(),
		"RandomErasingConfig.P: got 2":             RandomErasingConfig{P: 2}.Validate(),
		"RandomErasingConfig.Scale: got [0.5 0.1]": RandomErasingConfig{Scale: [2]float64{0.5, 0.1}}.Validate(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	for name, f := range map[string]func() Transform{
		"Resize":            func() Transform { return Resize(0) },
		"ResizeTo":          func() Transform { return ResizeTo(3, -1) },
		"CenterCrop":        func() Transform { return CenterCrop(0) },
		"RandomCrop":        func() Transform { return RandomCrop(4, -1) },
		"RandomResizedCrop": func() Transform { return RandomResizedCrop(1 << 20) },
		"Flip":              func() Transform { return FlipWith(1.5) },
		"ColorJitter":       func() Transform { return ColorJitter(-1, 0, 0, 0) },
		"RandAugment":       func() Transform { return RandAugment(2, 31) },
		"RandAugment of 0":  func() Transform { return RandAugment(0, 9) },
		"RandomErasing":     func() Transform { return RandomErasing(-1) },
	} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "got") {
					t.Errorf("%s: got panic %q, want one that says what it got", name, s)
				}
			}()
			f()
		}()
	}
}

// The parts that a random crop takes have the areas, the proportions and the places that were asked
// for.
func TestRandomPartsAreSpreadAsAskedFor(t *testing.T) {
	r := RandomResizedCrop(8).(randomResizedCrop)
	d := draws(7)
	const n = 4000
	var area, left float64
	for range n {
		b := r.choose(500, 375, d)
		share := float64(b.width*b.height) / (500 * 375)
		ratio := float64(b.width) / float64(b.height)
		if b.left < 0 || b.top < 0 || b.left+b.width > 500 || b.top+b.height > 375 || share < 0.079 || ratio < 0.74 || ratio > 1.35 {
			t.Fatalf("got part %+v, a share of %.3f with sides of %.3f", b, share, ratio)
		}
		area += share
		if b.width < 500 {
			left += float64(b.left) / float64(500-b.width)
		}
	}
	// Parts that do not fit are drawn anew, so the mean is below that of 0.08 to 1, which is
	// 0.54.
	if mean := area / n; mean < 0.41 || mean > 0.46 {
		t.Errorf("got a mean share of %.3f, want 0.41 to 0.46", mean)
	}
	if mean := left / n; mean < 0.45 || mean > 0.55 {
		t.Errorf("got a mean place of %.3f, want 0.5", mean)
	}
	for _, c := range []struct {
		w, h int
		want box
	}{{100, 1, box{49, 0, 1, 1}}, {1, 100, box{0, 49, 1, 1}}, {1, 1, box{0, 0, 1, 1}}, {1000, 10, box{493, 0, 13, 10}}, {10, 1000, box{0, 493, 10, 13}}} {
		wide := must(RandomResizedCropConfig{Width: 8, Height: 8, Scale: [2]float64{0.9, 1}}.New()).(randomResizedCrop)
		if got := wide.choose(c.w, c.h, d); got != c.want {
			t.Errorf("image of %d×%d: got part %+v, want the middle %+v", c.w, c.h, got, c.want)
		}
	}
}

// An image that is read again into the same memory costs no garbage.
func TestTransformsMakeNoGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("skipped: counts of allocations are those of a plain build")
	}
	from := made(120, 90, 3)
	img := &Image{}
	d := draws(1)
	for tr := range each() {
		if strings.HasPrefix(fmt.Sprint(tr), "RandomCrop") {
			continue // it pads
		}
		n := testing.AllocsPerRun(50, func() {
			img.Width, img.Height, img.Channels = from.Width, from.Height, from.Channels
			img.Pix = append(img.Pix[:0], from.Pix...)
			if _, err := tr.Apply(img, d); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0.5 {
			t.Errorf("%v: got %v allocations for an image, want none", tr, n)
		}
	}
}

func BenchmarkTransform(b *testing.B) {
	from := made(500, 375, 3)
	for _, tr := range []Transform{RandomResizedCrop(224), Resize(256), ResizeTo(224, 224), Flip(), ColorJitter(0.4, 0.4, 0.4, 0.1), TrivialAugment()} {
		b.Run(fmt.Sprintf("of=%v", tr), func(b *testing.B) {
			img, d := &Image{}, draws(1)
			for b.Loop() {
				img.Width, img.Height, img.Channels = from.Width, from.Height, from.Channels
				img.Pix = append(img.Pix[:0], from.Pix...)
				if _, err := tr.Apply(img, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
