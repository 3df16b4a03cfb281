package shardserver

import "sync"

// A spareCalls keeps calls for reuse, so that a request allocates nothing.
type spareCalls struct {
	mu   sync.Mutex // guards list
	list []*call
}

// maxSpareCalls is how many calls are kept for reuse.
const maxSpareCalls = 4096

// take appends to list as many calls as are there, at most n.
func (x *spareCalls) take(list []*call, n int) []*call {
	x.mu.Lock()
	defer x.mu.Unlock()
	rest := len(x.list) - min(n, len(x.list))
	list = append(list, x.list[rest:]...)
	clear(x.list[rest:])
	x.list = x.list[:rest]
	return list
}

// one returns a call, or nil if none is there.
func (x *spareCalls) one() *call {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := len(x.list) - 1
	if last < 0 {
		return nil
	}
	c := x.list[last]
	x.list = x.list[:last]
	return c
}

// keep takes calls that have ended.
func (x *spareCalls) keep(calls ...*call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, calls[:min(len(calls), max(0, maxSpareCalls-len(x.list)))]...)
}

// newCall returns an empty call.
func (s *Server) newCall() *call {
	if c := s.spare.one(); c != nil {
		return c
	}
	return makeCall(s)
}

// newCalls appends n empty calls to list.
func (s *Server) newCalls(list []*call, n int) []*call {
	had := len(list)
	list = s.spare.take(list, n)
	for len(list) < had+n {
		list = append(list, makeCall(s))
	}
	return list
}

func makeCall(s *Server) *call {
	c := &call{s: s}
	c.release = c.finish
	return c
}
