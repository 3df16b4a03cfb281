package control

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var adaptation = Adaptation{Step: 900, Workers: 3, Nodes: 2, LocalBatch: 64, Accumulation: 1, GlobalBatch: 384, InitialBatch: 96, Scale: 4, Gain: 3.1, Progress: 2000.5,
	NoiseScale: 1234, Throughput: 950, Goodput: 736, WishedWorkers: 4, WishReason: "goodput 736 to 900 examples/s", ChangeSeconds: 0.4,
	Noise:  &AdaptationNoise{Sqr: -1e-9, Var: 0.25},
	Model:  &AdaptationModel{AlphaCompute: 0.01, BetaCompute: 1e-3, Gamma: 2, Bytes: 44_700_000, Servers: 2, SharedMemory: true, NodeBandwidth: 1e9},
	Limits: &AdaptationLimits{MaxBatch: 512, MinLocal: 8, MaxLocal: 128, Accumulation: true}}

func TestAdaptationsAreReadAsTheyWereWritten(t *testing.T) {
	text, err := EncodeAdaptation(adaptation)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAdaptation(text)
	if diff := cmp.Diff(&adaptation, got); err != nil || diff != "" {
		t.Errorf("%v: -want +got:\n%s", err, diff)
	}
	const want = "384 examples a step (3 workers × 64 × 2 runs; initially 96), scale 4, gain 3.1, noise scale 1234 examples, 950 examples/s, goodput 736 examples/s; " +
		"wants 4 workers: goodput 736 to 900 examples/s"
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if text := (&Adaptation{Workers: 1, LocalBatch: 32, GlobalBatch: 32, InitialBatch: 32}).String(); text != "32 examples a step (1 worker × 32; initially 32)" {
		t.Errorf("got %s", text)
	}
	long := adaptation
	long.WishReason = strings.Repeat("x", MaxAdaptation)
	if text, err := EncodeAdaptation(long); err != nil || len(text) > MaxAdaptation {
		t.Errorf("a long reason: %d bytes, %v", len(text), err)
	}
}

func TestAdaptationsAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"local_batch":-1}`:               "local_batch is -1",
		`{"gain":1e999}`:                   "adaptation",
		`{"goodput":-2}`:                   "goodput is -2",
		`{"model":{"gamma":-1}}`:           "gamma is -1",
		`{"noise":{"sqr":-1}}`:             "",
		`{"limits":{"max_batch":-1}}`:      "max_batch is -1",
		`{"batch":1}`:                      "unknown field",
		`{"wished_workers":70000}`:         "wished_workers 70000",
		`{} {}`:                            "more data after",
		``:                                 "EOF",
		strings.Repeat(" ", 1+4096) + "{}": "want at most 4096",
	} {
		_, err := DecodeAdaptation(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: got %v, want an error with %q", text, err, want)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		bad := adaptation
		bad.Goodput = x
		if _, err := EncodeAdaptation(bad); err == nil || !strings.Contains(err.Error(), "goodput") {
			t.Errorf("goodput %g: %v, want an error that names it", x, err)
		}
	}
}

func FuzzAdaptation(f *testing.F) {
	text, err := EncodeAdaptation(adaptation)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := DecodeAdaptation(text)
		if err != nil {
			return
		}
		again, err := EncodeAdaptation(*a)
		if err != nil { // escapes and numbers may be longer
			return
		}
		if b, err := DecodeAdaptation(again); err != nil || !cmp.Equal(a, b) {
			t.Fatalf("%s: got %+v, %v, want %+v", text, b, err, a)
		}
		_ = a.String()
	})
}
