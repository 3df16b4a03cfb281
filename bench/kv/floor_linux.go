package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// cubic gives a socket the congestion control that our own connections within a host have, before
// it connects or listens: once BBR has begun, Linux goes on pacing under cubic.
func cubic(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { _ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") })
}

// memoryLeast are the fewest bytes of a pass whose floor in shared memory is its copies and not the
// telling.
const memoryLeast = 1 << 20

// memoryWorker gives the servers its memory, and returns a sample: in each pass a byte to each
// server, and one back when the sum is written.
func memoryWorker(conns []net.Conn, w planned) (sample, error) {
	total := w.bytes()
	if total < memoryLeast {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("floor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.Ftruncate(fd, int64(total)); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	for i, x := 0, floats(memory); i < len(x); i++ {
		x[i] = float32(i%7) - 3
	}
	one := make([]byte, 1)
	all := func(text string) error {
		for _, c := range conns {
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
		for _, c := range conns {
			if _, err := io.ReadFull(c, one); err != nil {
				return err
			}
		}
		return nil
	}
	if err := all(fmt.Sprintf("/proc/%d/fd/%d\n", os.Getpid(), fd)); err != nil {
		return nil, err
	}
	return func() error {
		for range w.passes {
			if err := all("g"); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// memoryServer adds its part of all workers' memory, piece by piece in the cache, on all cores,
// when each worker has said so.
func memoryServer(conns []net.Conn, works []planned, rank, servers int) error {
	ins := make([]*bufio.Reader, len(conns))
	for i, c := range conns {
		ins[i] = bufio.NewReader(c)
	}
	answer := func() error {
		for _, c := range conns {
			if _, err := io.WriteString(c, "d"); err != nil {
				return err
			}
		}
		return nil
	}
	for _, w := range works {
		total := w.bytes()
		if total < memoryLeast {
			continue
		}
		lo, hi := total/4*rank/servers, total/4*(rank+1)/servers
		grads := make([][]float32, len(conns))
		for i, in := range ins {
			name, err := in.ReadString('\n')
			if err != nil {
				return err
			}
			f, err := os.Open(strings.TrimSpace(name))
			if err != nil {
				return err
			}
			memory, err := unix.Mmap(int(f.Fd()), 0, total, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
			f.Close()
			if err != nil {
				return err
			}
			defer unix.Munmap(memory)
			grads[i] = floats(memory)[lo:hi]
		}
		if err := answer(); err != nil {
			return err
		}
		value := floats(touched(4 * (hi - lo)))[:hi-lo]
		for range (w.samples + 3) * w.passes {
			for _, in := range ins {
				if _, err := in.ReadByte(); err != nil {
					return err
				}
			}
			sumPieces(value, grads)
			if err := answer(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumPieces writes the sum to value: each piece is read once from each and written once.
func sumPieces(value []float32, grads [][]float32) {
	const piece = 16 << 10
	var all sync.WaitGroup
	cores := runtime.NumCPU()
	for core := range cores {
		all.Go(func() {
			for lo := core * piece; lo < len(value); lo += cores * piece {
				hi := min(lo+piece, len(value))
				copy(value[lo:hi], grads[0][lo:hi])
				for _, g := range grads[1:] {
					f32.AddTo(value[lo:hi], g[lo:hi])
				}
			}
		})
	}
	all.Wait()
}

func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
