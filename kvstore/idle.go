package kvstore

import "sync"

// An idleList keeps values for reuse.
type idleList[T any] struct {
	// mu guards list.
	mu   sync.Mutex
	list []*T
}

// take takes a value out; nil: there is none.
func (l *idleList[T]) take() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return takeLast(&l.list)
}

func (l *idleList[T]) keep(x *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, x)
}

// takeIdle takes one of the idle values of a key, or nil; keepIdle gives it back. They are guarded
// by the key's mutex, because an idleList for each key would take more memory.
func takeIdle[T any](k *key, idle *[]*T) *T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return takeLast(idle)
}

func keepIdle[T any](k *key, idle *[]*T, x *T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*idle = append(*idle, x)
}

// takeLast removes the last value of a list and returns it; nil: the list is empty.
func takeLast[T any](list *[]*T) *T {
	n := len(*list)
	if n == 0 {
		return nil
	}
	x := (*list)[n-1]
	*list = (*list)[:n-1]
	return x
}
