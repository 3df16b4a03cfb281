package data

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// unmixed and mixed are the batches of a data set without Mix and with it.
func unmixed(t *testing.T, d Dataset, cfg LoaderConfig) (plain, mixed []Batch) {
	t.Helper()
	m := cfg.Mix
	cfg.Mix = Mix{}
	plain = all(t, d, upTo(d.Len()), cfg)
	cfg.Mix = m
	return plain, all(t, d, upTo(d.Len()), cfg)
}

// Each image is a mean of itself and the next one of its batch, and its target the same mean of
// their classes.
func TestMixupIsAMeanWithTheNextImage(t *testing.T) {
	set := Synthetic(21, 3)
	plain, mixed := unmixed(t, set, LoaderConfig{BatchSize: 8, Seed: 5, Readers: 3, Mix: Mix{Mixup: 1, Classes: 10}, Augment: Augment{Mean: CIFAR10Mean, Std: CIFAR10Std}})
	shares := map[float32]bool{}
	for b, m := range mixed {
		for k := range m.N {
			next := (k + 1) % m.N
			own, other := plain[b].Labels[k], plain[b].Labels[next]
			target := m.Targets[k*10 : (k+1)*10]
			share := target[own]
			if own == other {
				if math.Abs(float64(share)-1) > 1e-6 {
					t.Errorf("batch %d: image %d and its partner are of class %d: got targets %v", b, k, own, target)
				}
				continue
			}
			shares[share] = true
			if math.Abs(float64(share+target[other]-1)) > 1e-6 {
				t.Errorf("batch %d: targets of image %d are %v, want shares of classes %d and %d", b, k, target, own, other)
			}
			for p := range 3072 {
				want := share*plain[b].Images[k*3072+p] + (1-share)*plain[b].Images[next*3072+p]
				if got := m.Images[k*3072+p]; math.Abs(float64(got-want)) > 1e-5 {
					t.Fatalf("batch %d, image %d, pixel %d: got %v, want %v", b, k, p, got, want)
				}
			}
		}
		if !slices.Equal(m.Labels, plain[b].Labels) {
			t.Errorf("batch %d: got labels %v, want %v", b, m.Labels, plain[b].Labels)
		}
		for k := m.N; k < 8; k++ {
			if slices.Max(m.Targets[k*10:(k+1)*10]) != -1 {
				t.Errorf("batch %d: targets of padding are %v, want −1", b, m.Targets[k*10:(k+1)*10])
			}
		}
	}
	if len(shares) < 10 {
		t.Errorf("the images have %d different shares, want one each", len(shares))
	}
}

// Each pixel is the image's own or its partner's, and the target has the share of the pixels.
func TestCutMixPutsABoxOfTheNextImageIn(t *testing.T) {
	const n = 16
	plain, mixed := unmixed(t, &drawing{counting: counting{n: n}}, LoaderConfig{BatchSize: n, Still: true, Mix: Mix{CutMix: 1, Classes: n}})
	cut := 0
	for k := range n {
		next, others := (k+1)%n, 0
		for p := range 16 {
			switch got := mixed[0].Images[k*16+p]; got {
			case plain[0].Images[k*16]:
			case plain[0].Images[next*16]:
				others++
			default:
				t.Fatalf("image %d, pixel %d: got %v, want that of %d or %d", k, p, got, k, next)
			}
		}
		cut += others
		if got, want := mixed[0].Targets[k*n+k%10], 1-float32(others)/16; got != want {
			t.Errorf("image %d with %d pixels of the next one: its share is %v, want %v", k, others, got, want)
		}
	}
	if cut == 0 {
		t.Error("no pixel of any image is its partner's")
	}
}

func TestMixDependsOnSeedEpochAndBatchOnly(t *testing.T) {
	set := Synthetic(40, 1)
	images := func(seed uint64, epoch, readers int) []float32 {
		return all(t, set, upTo(40), LoaderConfig{BatchSize: 40, Seed: seed, Epoch: epoch, Readers: readers, Mix: Mix{Mixup: 0.2, CutMix: 1, Classes: 10}})[0].Images
	}
	want := images(7, 2, 1)
	if !slices.Equal(images(7, 2, 8), want) {
		t.Error("8 readers: want the same images")
	}
	if slices.Equal(images(8, 2, 1), want) || slices.Equal(images(7, 3, 1), want) {
		t.Error("another seed or epoch: want other images")
	}
}

// A damaged image is mixed with nothing, and its neighbours are not mixed with it.
func TestDamagedImagesAreNotMixed(t *testing.T) {
	d := &drawing{counting: counting{n: 4}, bad: func(i int) bool { return i == 2 }}
	plain, mixed := unmixed(t, d, LoaderConfig{BatchSize: 4, BadExamples: 1, Mix: Mix{Mixup: 1, Classes: 10}})
	for k, same := range []bool{false, true, true, false} {
		if got := slices.Equal(mixed[0].Images[k*16:(k+1)*16], plain[0].Images[k*16:(k+1)*16]); got != same {
			t.Errorf("image %d is as it was: %v, want %v", k, got, same)
		}
	}
	if got := mixed[0].Targets[20:30]; slices.Max(got) != -1 {
		t.Errorf("targets of the damaged image: got %v, want −1", got)
	}
	if got := mixed[0].Targets[11]; got != 1 {
		t.Errorf("image 1 before the damaged one: its share is %v, want 1", got)
	}
}

func TestMixSmoothsTargets(t *testing.T) {
	_, mixed := unmixed(t, counting{n: 1}, LoaderConfig{BatchSize: 1, Mix: Mix{Mixup: 1, Classes: 4, Smoothing: 0.2}})
	if want := []float32{0.85, 0.05, 0.05, 0.05}; !slices.Equal(mixed[0].Targets, want) {
		t.Errorf("targets of class 0: got %v, want %v", mixed[0].Targets, want)
	}
}

func TestMixMixesWideLabels(t *testing.T) {
	_, mixed := unmixed(t, &drawing{counting: counting{n: 4}, width: 2}, LoaderConfig{BatchSize: 4, Mix: Mix{Mixup: 1}})

	// Image k has the labels k and k+1, the next one more by 1.
	for k := range 3 {
		a, b := mixed[0].Targets[2*k]-float32(k), mixed[0].Targets[2*k+1]-float32(k+1)
		if !(a > 0 && a < 1) || math.Abs(float64(a-b)) > 1e-5 {
			t.Errorf("image %d: got labels %v, want both moved alike towards the next image's", k, mixed[0].Targets[2*k:2*k+2])
		}
	}
}

// Moments of Beta(α, α): the mean is ½, the variance 1/(4(2α+1)).
func TestBetaHasItsMoments(t *testing.T) {
	for _, alpha := range []float64{0.01, 0.2, 1, 4} {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 40000
		sum, squares := 0.0, 0.0
		for range n {
			v := beta(r, alpha)
			if !(v >= 0 && v <= 1) {
				t.Fatalf("α %v: drew %v", alpha, v)
			}
			sum += v
			squares += (v - 0.5) * (v - 0.5)
		}
		if want := 1 / (4 * (2*alpha + 1)); math.Abs(sum/n-0.5) > 0.01 || math.Abs(squares/n-want) > 0.01 {
			t.Errorf("α %v: mean %.4f, variance %.4f, want 0.5 and %.4f", alpha, sum/n, squares/n, want)
		}
	}
}

func TestMixErrorsSayWhatCannotBe(t *testing.T) {
	for _, c := range []struct {
		dataset Dataset
		cfg     LoaderConfig
		want    string
	}{
		{counting{n: 1}, LoaderConfig{Mix: Mix{Mixup: -1}}, "Mix.Mixup: got -1"},
		{counting{n: 1}, LoaderConfig{Mix: Mix{CutMix: math.NaN()}}, "Mix.CutMix: got NaN"},
		{counting{n: 1}, LoaderConfig{Mix: Mix{CutMix: 1}}, "Mix.Classes: got 0"},
		{&drawing{width: 2}, LoaderConfig{Mix: Mix{CutMix: 1, Classes: 3}}, "Mix.Classes: got 3, want 2"},
		{counting{n: 1}, LoaderConfig{Mix: Mix{Mixup: 1, Classes: 3}, Raw: true}, "Mix with Raw"},
		{counting{n: 1}, LoaderConfig{Mix: Mix{Mixup: 1, Classes: 3, Smoothing: 1}}, "Mix.Smoothing: got 1"},
		{&drawing{width: 2}, LoaderConfig{Mix: Mix{CutMix: 1, Smoothing: 0.1}}, "Mix.Smoothing: got 0.1 with labels of 2 numbers"},
		{counting{n: 1}, LoaderConfig{BadExamples: -1}, "BadExamples: got -1"},
		{counting{n: 1}, LoaderConfig{PrefetchBytes: -1}, "PrefetchBytes: got -1"},
	} {
		c.cfg.BatchSize = 1
		if _, err := NewLoader(c.dataset, upTo(1), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
	l, err := NewLoader(counting{n: 5}, upTo(5), LoaderConfig{BatchSize: 5, Mix: Mix{Mixup: 1, Classes: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Next(t.Context()); err == nil || errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "example 3: got label 3, want one of Mix.Classes, below 3") {
		t.Errorf("a label that is no class: got error %v", err)
	}
}
