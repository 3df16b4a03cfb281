package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

type echoStore struct{}

func (echoStore) PushPull(ctx context.Context, key string, in, out [][]float32) error {
	return nil
}

func TestAParameterWithoutValuesThatIsHandedInLastLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grads := [][][]float32{{nil}, {make([]float32, 3)}}
		e := newExchange(t.Context(), echoStore{}, []string{"empty", "w"}, grads, grads, func(int) error { return nil }, nil)
		defer e.close()
		e.submit(1)
		e.submit(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.flush(ctx); err != nil {
			t.Errorf("flush: %v, want nil", err)
		}
	})
}

// countingStore tells which keys have come.
type countingStore struct {
	came chan string
}

func (s countingStore) PushPull(ctx context.Context, key string, in, out [][]float32) error {
	s.came <- key
	return nil
}

// Gradients leave in buckets, and in smaller ones towards the end of a step: the last ones to come
// are the first that the next step wants.
func TestLessLeavesTogetherTowardsTheEndOfAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const k = 1 << 10
		kilobytes := []int{100, 400, 200, 500, 1000, 2000, 3000, 3000} // by parameter, in the order of the forward pass
		var keys []string
		var grads [][][]float32
		for i, n := range kilobytes {
			keys = append(keys, string(rune('a'+i)))
			grads = append(grads, [][]float32{make([]float32, n*k/4)})
		}
		store := countingStore{came: make(chan string, len(keys))}
		e := newExchange(t.Context(), store, keys, grads, grads, func(int) error { return nil }, nil)
		defer e.close()
		for range 2 { // each step anew
			var left []string
			for i := len(keys) - 1; i >= 0; i-- {
				e.submit(i)
				synctest.Wait()
				portion := ""
				for len(store.came) > 0 {
					portion += <-store.came
				}
				if portion != "" {
					p := []byte(portion)
					slices.Sort(p)
					left = append(left, string(p))
				}
			}
			// In KiB: 6000 of two, above 4096; 3000, behind which 1200 come; 700,
			// behind which 500; the rest.
			if want := []string{"gh", "ef", "cd", "ab"}; !slices.Equal(left, want) {
				t.Errorf("left together: got %q, want %q", left, want)
			}
		}
	})
}
