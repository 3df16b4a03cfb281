package inorder

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestResultsComeInOrderWhateverTheGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, goroutines := range []int{0, 1, 3, 100} {
			var at int
			var under, most atomic.Int64
			err := Run(t.Context(), 50, goroutines, func(_ context.Context, i int) (int, error) {
				n := under.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Duration(1+i*37%11) * time.Second)
				under.Add(-1)
				return i * i, nil
			}, func(i, value int) error {
				if i != at || value != i*i {
					t.Errorf("%d goroutines: got %d, %d, want %d, %d", goroutines, i, value, at, at*at)
				}
				at++
				return nil
			})
			if err != nil || at != 50 {
				t.Errorf("%d goroutines: %d results and error %v, want 50", goroutines, at, err)
			}
			if want := int64(max(1, min(goroutines, 50))); most.Load() != want {
				t.Errorf("%d goroutines: %d worked at once, want %d", goroutines, most.Load(), want)
			}
		}
	})
}

func TestNoItemsAreNoError(t *testing.T) {
	if err := Run(t.Context(), 0, 4, func(context.Context, int) (int, error) { return 0, nil }, nil); err != nil {
		t.Error(err)
	}
}

func TestTheFirstErrorEndsAll(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		used := 0
		err := Run(t.Context(), 1000, 4, func(_ context.Context, i int) (int, error) {
			if i == 10 {
				return 0, broken
			}
			return i, nil
		}, func(int, int) error { used++; return nil })
		if !errors.Is(err, broken) || used != 10 {
			t.Errorf("working fails: %d results and error %v, want 10 and %v", used, err, broken)
		}
		err = Run(t.Context(), 1000, 4, func(_ context.Context, i int) (int, error) { return i, nil }, func(i, _ int) error {
			if i == 7 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("using fails: got error %v, want %v", err, broken)
		}
	})
}

func TestItEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, 1000, 4, func(ctx context.Context, i int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, func(int, int) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
