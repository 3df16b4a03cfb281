// Package inorder works on numbered items at once and hands the results on in their order.
package inorder

import (
	"context"
	"sync"
)

// An item is one of the numbers, with its result.
type item[T any] struct {
	i     int
	value T
	err   error
	done  chan struct{}
}

// Run calls work for 0 to n-1, in several goroutines at once, and use with each result, one after
// another and in order. It ends with the first error of either, or when ctx ends. At most twice as
// many results wait as there are goroutines.
func Run[T any](ctx context.Context, n, goroutines int, work func(ctx context.Context, i int) (T, error), use func(i int, value T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	goroutines = max(1, min(goroutines, n))

	// order has the items in the order of their numbers, jobs has them for whoever is free. An
	// item goes into order first, and its room bounds how far work runs ahead of use.
	order := make(chan *item[T], 2*goroutines)
	jobs := make(chan *item[T])
	wg.Go(func() {
		defer close(order)
		defer close(jobs)
		for i := range n {
			it := &item[T]{i: i, done: make(chan struct{})}
			for _, c := range []chan *item[T]{order, jobs} {
				select {
				case c <- it:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	for range goroutines {
		wg.Go(func() {
			for it := range jobs {
				it.value, it.err = work(ctx, it.i)
				close(it.done)
			}
		})
	}
	for it := range order {
		select {
		case <-it.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if it.err != nil {
			return it.err
		}
		if err := use(it.i, it.value); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
