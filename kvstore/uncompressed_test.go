package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// compressing makes a store within this process that compresses and whose optimizer adds.
func compressing(t *testing.T, kind string, c kvstore.Compression, length int) (kvstore.Store, *bytes.Buffer) {
	t.Helper()
	kv, log := storeWithLog(t, kind)
	must(kv.SetCompression(t.Context(), c))
	must(kv.SetOptimizer(t.Context(), optim.Config{Name: "test", LearningRate: 1}))
	must(kv.Init(t.Context(), "w", make([]float32, length)))
	return kv, log
}

// storeWithLog makes a store within this process and shows what it logs.
func storeWithLog(t *testing.T, kind string) (kvstore.Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	kv, err := kvstore.Create(t.Context(), kind, kvstore.WithEnv(func(string) string { return "" }), kvstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(err)
	t.Cleanup(func() { kv.Close() })
	return kv, &log
}

func residualOf(kv kvstore.Store) string {
	r, err := kv.Residuals(context.Background())
	must(err)
	return fmt.Sprint(r.Values)
}

var compressingStores = []string{"device", "dist_sync", "dist_async"}

// Where no code stands for NaN or infinity, and no guard looks, such a gradient is an error that
// names key and value, and changes nothing.
func TestWhatIsNotFiniteIsAnErrorWhereNoCodeSaysIt(t *testing.T) {
	for _, kind := range compressingStores {
		for _, c := range []kvstore.Compression{{Type: "2bit"}, {Type: "1bit"}} {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				kv, _ := compressing(t, kind, c, 3)
				ctx, out := t.Context(), make([]float32, 3)
				good := []float32{0.7, -0.2, 0.6}
				must(kv.PushPull(ctx, "w", [][]float32{good}, [][]float32{out}))
				before, residual := slices.Clone(out), residualOf(kv)
				for _, push := range []func() error{
					func() error { return kv.Push(ctx, "w", good, []float32{1, float32(bad), 1}) },
					func() error {
						return kv.PushPull(ctx, "w", [][]float32{{1, float32(bad), 1}}, [][]float32{out})
					},
				} {
					err := push()
					if want := fmt.Sprintf("value 1 is %v, which %s cannot carry", bad, c.Type); !errors.Is(err, kvstore.ErrNotFinite) || !strings.Contains(err.Error(), `key "w"`) || !strings.Contains(err.Error(), want) {
						t.Errorf("%s, %v: got error %v, want one with %q", kind, c, err, want)
					}
				}
				must(kv.Pull(ctx, "w", out))
				if got := residualOf(kv); !slices.Equal(out, before) || got != residual {
					t.Errorf("%s, %v, %v: got value %v and residual %s, want %v and %s as before", kind, c, bad, out, got, before, residual)
				}
				must(kv.PushPull(ctx, "w", [][]float32{good}, [][]float32{out})) // the store goes on
			}
		}
	}
}

// The others have codes for it: it shows in the value.
func TestWhatIsNotFiniteArrivesWhereACodeSaysIt(t *testing.T) {
	for _, kind := range compressingStores {
		for _, c := range []kvstore.Compression{{}, {Type: "fp16"}, {Type: "bf16"}, {Type: "topk", Ratio: 0.4}} {
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				kv, _ := compressing(t, kind, c, 3)
				out := make([]float32, 3)
				must(kv.PushPull(t.Context(), "w", [][]float32{{1, float32(bad), 1}}, [][]float32{out}))
				if out[1]-out[1] == 0 {
					t.Errorf("%s, %v: pushed %v, got %v", kind, c, bad, out)
				}
			}
		}
	}
}

// A gradient that would take thousands of pushes to leave the residual, or for ever, goes with all
// that waits there, as it is. Usual ones are compressed as before it.
func TestAGradientBeyondItsCodeTravelsAsItIs(t *testing.T) {
	for _, kind := range compressingStores {
		for _, x := range []struct {
			c   kvstore.Compression
			bad float32
		}{
			{kvstore.Compression{Type: "2bit"}, 1e30}, {kvstore.Compression{Type: "2bit"}, -1e6}, {kvstore.Compression{Type: "2bit"}, 512},
			{kvstore.Compression{Type: "1bit"}, 1e30}, {kvstore.Compression{Type: "1bit"}, 2000},
			{kvstore.Compression{Type: "fp16"}, 1e6}, {kvstore.Compression{Type: "fp16"}, -65520}, {kvstore.Compression{Type: "fp16"}, 3e38},
		} {
			kv, log := compressing(t, kind, x.c, 3)
			ctx, out := t.Context(), make([]float32, 3)
			for range 3 {
				must(kv.PushPull(ctx, "w", [][]float32{{0.25, 0.25, 0.25}}, [][]float32{out}))
			}
			must(kv.PushPull(ctx, "w", [][]float32{{0.25, x.bad, 0.25}}, [][]float32{out}))
			if want := []float32{1, 0.75 + x.bad, 1}; !slices.Equal(out, want) {
				t.Errorf("%s, %v: got %v, want %v", kind, x.c, out, want)
			}
			if strings.Contains(residualOf(kv), "e+") || x.c.Type == "2bit" && residualOf(kv) != "map[w:[[0 0 0]]]" {
				t.Errorf("%s, %v: got residual %s", kind, x.c, residualOf(kv))
			}
			before := slices.Clone(out)
			must(kv.PushPull(ctx, "w", [][]float32{{0.5, 0.5, 0.5}}, [][]float32{out}))
			if want := before[0] + 0.5; x.c.Type != "1bit" && out[0] != want {
				t.Errorf("%s, %v: a push later got %v, want %v", kind, x.c, out[0], want)
			}
			if got := strings.Count(log.String(), "are sent uncompressed"); got != 1 {
				t.Errorf("%s, %v: got %d lines in the log, want 1:\n%s", kind, x.c, got, log)
			}
		}
	}
}

// Gradients that are a few quanta large for long do not pile up for ever either.
func TestResidualsStayWithinReach(t *testing.T) {
	for _, kind := range compressingStores {
		for _, c := range []kvstore.Compression{{Type: "2bit", Threshold: 0.5}, {Type: "1bit", Threshold: 0.5}} {
			kv, _ := compressing(t, kind, c, 2)
			out := make([]float32, 2)
			const pushes = 500
			for range pushes {
				must(kv.PushPull(t.Context(), "w", [][]float32{{40, -0.5}}, [][]float32{out}))
			}
			if missing := pushes*40 - out[0]; missing < 0 || missing > 64*40+1024 {
				t.Errorf("%s, %v: %v of %v have not arrived, want at most what 64 pushes bring beyond 1024 quanta", kind, c, missing, pushes*40)
			}
			if out[1] > -0.4*pushes {
				t.Errorf("%s, %v: the other value: got %v, want about %v", kind, c, out[1], -0.5*pushes)
			}
		}
	}
}

// A push that was given up before it left is sent as it was encoded: the residual has its gradient
// already.
func TestAPushThatWasGivenUpEntersTheResidualOnce(t *testing.T) {
	for _, kind := range compressingStores {
		for _, c := range []kvstore.Compression{{Type: "2bit"}, {Type: "topk", Ratio: 0.4}} {
			kv, _ := compressing(t, kind, c, 3)
			ended, end := context.WithCancel(t.Context())
			end()
			grads, out := [][]float32{{0.4, 0.75, 0.1}, {0.05, 0, 0}}, make([]float32, 3)
			if err := kv.PushPull(ended, "w", grads, [][]float32{out}); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, %v: got error %v, want %v", kind, c, err, context.Canceled)
			}
			must(kv.PushPull(t.Context(), "w", grads, [][]float32{out}))
			r, err := kv.Residuals(t.Context())
			must(err)
			left := float32(0)
			for _, device := range r.Values["w"] {
				left += device[0] + device[1] + device[2]
			}
			if total := left + out[0] + out[1] + out[2]; math.Abs(float64(total)-1.3) > 1e-6 {
				t.Errorf("%s, %v: value %v and residuals %v add up to %v, want 1.3", kind, c, out, r.Values, total)
			}
		}
	}
}

func TestResidualsThatAreNotFiniteAreRefused(t *testing.T) {
	kv, _ := compressing(t, "dist_sync", kvstore.Compression{Type: "2bit"}, 2)
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		err := kv.SetResiduals(t.Context(), kvstore.Residuals{Compression: kvstore.Compression{Type: "2bit"},
			Values: map[string][][]float32{"w": {{0.1, float32(bad)}}}})
		if !errors.Is(err, kvstore.ErrNotFinite) || !strings.Contains(err.Error(), `key "w"`) {
			t.Errorf("%v: got error %v, want %v", bad, err, kvstore.ErrNotFinite)
		}
	}
}
