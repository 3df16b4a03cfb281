package gputest

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

const (
	guardBytes = 256

	// poison makes floating point numbers of all types not a number.
	poison = 0xff

	stageBytes = 8 << 20
)

// A Memory gives memory of a GPU and takes numbers there and back. On the GPU itself each piece
// lies between guards and is full of poison: stand-ins do so by themselves.
type Memory struct {
	ctx    *drv.Context
	s      drv.Stream
	stage  []byte // pinned, on the GPU itself
	pieces []piece
}

type piece struct {
	base, at drv.Ptr
	bytes    int64
}

// NewMemory is for work on a stream.
func NewMemory(ctx *drv.Context, s drv.Stream) (*Memory, error) {
	m := &Memory{ctx: ctx, s: s}
	if !on {
		return m, nil
	}
	err := ctx.Do(func() (err error) { m.stage, err = ctx.HostAlloc(stageBytes); return })
	return m, err
}

// Room is memory of so many bytes, that many bytes from where it would be aligned best.
func (m *Memory) Room(bytes, skew int64) (p drv.Ptr, err error) {
	err = m.ctx.Do(func() error {
		before, all := skew, skew+bytes
		if on {
			before, all = before+guardBytes, all+2*guardBytes
		}
		base, err := m.ctx.Malloc(all)
		if err != nil {
			return err
		}
		p = base + drv.Ptr(before)
		m.pieces = append(m.pieces, piece{base, p, bytes})
		if !on {
			return nil
		}
		return m.ctx.Memset8(base, poison, all, m.s)
	})
	return p, err
}

// pinned calls f with memory of the host, for n bytes or for a part of them.
func (m *Memory) pinned(n int64, f func(host []byte) error) error {
	if m.stage != nil {
		return f(m.stage[:min(n, stageBytes)])
	}
	host, err := m.ctx.HostAlloc(max(n, 1))
	if err != nil {
		return err
	}
	return errors.Join(f(host[:n]), m.ctx.HostFree(host))
}

// Read reads after the stream's work.
func (m *Memory) Read(p drv.Ptr, n int64) ([]byte, error) {
	out := make([]byte, 0, n)
	err := m.ctx.Do(func() error {
		return m.pinned(n, func(host []byte) error {
			for left := n; left > 0; left = n - int64(len(out)) {
				part := min(left, int64(len(host)))
				if err := errors.Join(m.ctx.CopyToHost(unsafe.Pointer(&host[0]), p+drv.Ptr(len(out)), part, m.s), m.ctx.Synchronize(m.s)); err != nil {
					return err
				}
				out = append(out, host[:part]...)
			}
			return nil
		})
	})
	return out, err
}

// Write writes, after the stream's work.
func (m *Memory) Write(p drv.Ptr, data []byte) error {
	return m.ctx.Do(func() error {
		return m.pinned(int64(len(data)), func(host []byte) error {
			for at := 0; at < len(data); at += len(host) {
				n := copy(host, data[at:])
				if err := errors.Join(m.ctx.CopyToDevice(p+drv.Ptr(at), unsafe.Pointer(&host[0]), int64(n), m.s), m.ctx.Synchronize(m.s)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Repeat fills n bytes with copies of a part.
func (m *Memory) Repeat(p drv.Ptr, n int64, part []byte) error {
	for ; n > 0; n, p = n-int64(len(part)), p+drv.Ptr(len(part)) {
		if err := m.Write(p, part[:min(n, int64(len(part)))]); err != nil {
			return err
		}
	}
	return nil
}

// Release gives all pieces back. It is an error if a guard is not as it was.
func (m *Memory) Release() error {
	var errs []error
	for _, p := range m.pieces {
		if m.stage != nil {
			errs = append(errs, m.guards(p))
		}
		errs = append(errs, m.ctx.Do(func() error { return m.ctx.Free(p.base) }))
	}
	m.pieces = nil
	return errors.Join(errs...)
}

// guards looks at the guards of a piece.
func (m *Memory) guards(p piece) error {
	for _, at := range [2]drv.Ptr{p.at - guardBytes, p.at + drv.Ptr(p.bytes)} {
		guard, err := m.Read(at, guardBytes)
		if err != nil {
			return err
		}
		for i, v := range guard {
			if v != poison {
				return fmt.Errorf("byte %d from a buffer of %d bytes was written", int64(at)-int64(p.at)+int64(i), p.bytes)
			}
		}
	}
	return nil
}

// Close releases what there is.
func (m *Memory) Close() error {
	err := m.Release()
	if m.stage != nil {
		err = errors.Join(err, m.ctx.Do(func() error { return m.ctx.HostFree(m.stage) }))
	}
	return err
}
