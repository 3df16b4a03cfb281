package transport

import "sync"

// spares are values that wait for their next use. Unlike those of a sync.Pool they stay over garbage collections, and belong to
// one owner, whose goroutines alone touch them.
type spares[T any] struct {
	mu   sync.Mutex // guards list
	list []*T
}

const maxSpares = 4096

// take returns a spare one, or nil.
func (s *spares[T]) take() *T {
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

func (s *spares[T]) give(x *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxSpares {
		s.list = append(s.list, x)
	}
}
