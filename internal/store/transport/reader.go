package transport

import (
	"errors"
	"io"
)

// A frameReader reads frames from one connection. Small frames come through a buffer, many with one
// read; large payloads bypass it. The amount read ahead grows while small frames fill the buffer,
// and falls with every large frame, because the part of it that was read ahead is copied twice.
type frameReader struct {
	r     io.Reader
	count traffic
	buf   []byte
	// from and to bound the unread part of buf.
	from, to int
	// ahead is the most bytes to read when the buffer is empty.
	ahead int
}

func newFrameReader(r io.Reader, count traffic) *frameReader {
	return &frameReader{r: r, count: count, buf: make([]byte, readBuffer), ahead: readAhead}
}

// buffered is the number of unread bytes in the buffer.
func (r *frameReader) buffered() int { return r.to - r.from }

// full fills p. The error is io.EOF only if nothing came at all.
func (r *frameReader) full(p []byte) error {
	n := copy(p, r.buf[r.from:r.to])
	r.from += n
	for n < len(p) {
		if len(p)-n >= smallFrame {
			r.ahead = readAhead
			m, err := io.ReadFull(r.r, p[n:])
			r.count.received(m)
			if n+m > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if err := r.fill(); err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		m := copy(p[n:], r.buf[:r.to])
		r.from = m
		n += m
	}
	return nil
}

// discard skips n bytes.
func (r *frameReader) discard(n int) error {
	for n > r.buffered() {
		n -= r.buffered()
		if err := r.fill(); err != nil {
			return err
		}
	}
	r.from += n
	return nil
}

// fill reads into the empty buffer, at least one byte.
func (r *frameReader) fill() error {
	r.from, r.to = 0, 0
	for r.to == 0 {
		n, err := r.r.Read(r.buf[:r.ahead])
		if n == 0 && err != nil {
			return err
		}
		r.to = n
	}
	r.count.received(r.to)
	if r.to == r.ahead {
		r.ahead = min(2*r.ahead, len(r.buf))
	}
	return nil
}
