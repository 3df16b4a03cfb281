package transport

import "sync"

// A freeList holds values for reuse. Unlike a sync.Pool it keeps them over garbage collections, and
// it belongs to one owner, whose goroutines alone use it.
type freeList[T any] struct {
	mu   sync.Mutex // guards list
	list []*T
}

const maxFree = 4096

// get returns a value, or nil if there is none.
func (s *freeList[T]) get() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	if n == 0 {
		return nil
	}
	x := s.list[n-1]
	s.list[n-1] = nil
	s.list = s.list[:n-1]
	return x
}

func (s *freeList[T]) put(x *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxFree {
		s.list = append(s.list, x)
	}
}
