// Package freelist keeps values for reuse, where a request or a round must not allocate.
//
// Unlike a sync.Pool, a List keeps its values over garbage collections, and it has one owner: the
// values of one store, or of one connection, do not serve another. So what the values hold on to
// ends with the owner.
package freelist

import "sync"

// Most is how many values a List keeps. It bounds what a burst leaves behind.
const Most = 4096

// A List holds values for reuse. Its zero value is empty. Its methods may be called concurrently,
// and take no other lock.
type List[T any] struct {
	// mu guards values.
	mu     sync.Mutex
	values []*T
}

// Take returns a value, the newest kept, or nil if there is none.
func (l *List[T]) Take() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.values) - 1
	if last < 0 {
		return nil
	}
	x := l.values[last]
	l.values[last] = nil
	l.values = l.values[:last]
	return x
}

// TakeMany appends to list as many values as there are, at most n.
func (l *List[T]) TakeMany(list []*T, n int) []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := len(l.values) - min(n, len(l.values))
	list = append(list, l.values[rest:]...)
	clear(l.values[rest:])
	l.values = l.values[:rest]
	return list
}

// Keep takes a value that no one uses any more. It leaves the value to the garbage collector if
// there are enough.
func (l *List[T]) Keep(x *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.values) < Most {
		l.values = append(l.values, x)
	}
}

// KeepMany is Keep for each value of a list, which stays the caller's.
func (l *List[T]) KeepMany(list []*T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values = append(l.values, list[:min(len(list), Most-len(l.values))]...)
}
