package objects_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// random returns bytes that repeat nowhere.
func random(n int) []byte {
	p := make([]byte, n)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(p)
	return p
}

func info(t *testing.T, store objects.Store, name string) objects.Info {
	t.Helper()
	i, err := store.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAReaderReadsSeeksAndReadsAt(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		data := random(size)
		store := objectstest.New(map[string][]byte{"a": data})
		if size < 1<<20 { // It reads byte by byte.
			if err := iotest.TestReader(objects.NewReader(t.Context(), store, info(t, store, "a")), data); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		r := objects.NewReader(t.Context(), store, info(t, store, "a"))
		rng := rand.New(rand.NewPCG(uint64(size), 1))
		for range 200 {
			off := rng.IntN(size + 1)
			if _, err := r.Seek(int64(off), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, min(rng.IntN(1000), size-off))
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, data[off:off+len(got)]) {
				t.Fatalf("%d bytes: %d bytes from byte %d: got others, or error %v", size, len(got), off, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is read in sequence comes in large reads, and the next one is under way meanwhile.
func TestReadsInSequenceAreReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := random(40 << 20)
		store := objectstest.New(map[string][]byte{"a": data})
		store.Latency, store.BytesPerSecond = 20*time.Millisecond, 100<<20
		r := objects.NewReader(t.Context(), store, info(t, store, "a"))
		began, buf := time.Now(), make([]byte, 4096)
		for range len(data) / len(buf) {
			if _, err := io.ReadFull(r, buf); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / (100 << 20 / 4096)) // as long as reading takes
		}
		// One after the other would take 0.4 s for the bytes, 0.4 s for the work and 20 ms
		// for each read.
		if took := time.Since(began); took > 850*time.Millisecond {
			t.Errorf("40 MiB at 100 MiB/s took %v with as much work, want them at once", took)
		}
	})
}

func TestAReadersErrorIsTheStores(t *testing.T) {
	broken := errors.New("broken")
	store := objectstest.New(map[string][]byte{"a": random(1 << 20)})
	store.Fail = func(c objectstest.Call) error {
		if c.Kind == objectstest.Read && c.Number == 3 {
			return broken
		}
		return nil
	}
	r := objects.NewReader(t.Context(), store, info(t, store, "a"))
	n, err := io.Copy(io.Discard, r)
	if !errors.Is(err, broken) || n != 64<<10+128<<10 {
		t.Errorf("got %d bytes and error %v, want two reads and %v", n, err, broken)
	}
	if rest, err := io.Copy(io.Discard, r); err != nil || n+rest != 1<<20 {
		t.Errorf("read again: got %d bytes more and error %v, want the rest", rest, err)
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("seek to -1: got no error")
	}
}
