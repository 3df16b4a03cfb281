package resume

// A ring holds bytes between two positions of a stream. It takes memory as it needs it, up to the
// most that is ever put in.
type ring struct {
	b     []byte
	start int // index of the first byte
	n     int
}

// append adds bytes at the end.
func (r *ring) append(p []byte) {
	if len(p) == 0 {
		return
	}
	if need := r.n + len(p); need > len(r.b) {
		b := make([]byte, max(need, 2*len(r.b), 4<<10))
		r.copyAt(b[:r.n], 0)
		r.b, r.start = b, 0
	}
	end := (r.start + r.n) % len(r.b)
	k := copy(r.b[end:], p)
	copy(r.b, p[k:])
	r.n += len(p)
}

// copyAt fills p with the bytes from offset on; there must be as many.
func (r *ring) copyAt(p []byte, offset int) {
	if len(p) == 0 {
		return
	}
	i := (r.start + offset) % len(r.b)
	k := copy(p, r.b[i:])
	copy(p[k:], r.b)
}

// discard drops the first n bytes.
func (r *ring) discard(n int) {
	if r.n -= n; r.n == 0 {
		// The next bytes lie in one piece.
		r.start = 0
		return
	}
	r.start = (r.start + n) % len(r.b)
}

// release gives the memory of an empty ring back.
func (r *ring) release() {
	if r.n == 0 {
		*r = ring{}
	}
}
