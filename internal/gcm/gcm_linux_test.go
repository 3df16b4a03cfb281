package gcm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded is memory between two pages that may not be touched.
func guarded(t *testing.T, pages int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	all, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(all) })
	for _, guard := range [][]byte{all[:page], all[(pages+1)*page:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : (pages+1)*page]
}

// Nothing before or behind the slices is read or written: each touches a page that ends the process when it is touched.
func TestNothingBeyondTheSlicesIsTouched(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{5})
	ours, theirs := both(t, random(rng, 16))
	texts, outs, extras := guarded(t, 2), guarded(t, 2), guarded(t, 1)
	nonces := guarded(t, 1)
	rng.Read(texts)
	rng.Read(extras)
	for n := range 1400 {
		for _, atEnd := range []bool{false, true} {
			cut := func(b []byte, n int) []byte {
				if atEnd {
					return b[len(b)-n:]
				}
				return b[:n:n]
			}
			nonce, text, out, extra := cut(nonces, 12), cut(texts, n), cut(outs, n+16), cut(extras, n%67)
			sealed := ours.Seal(out[:0], nonce, text, extra)
			if want := theirs.Seal(nil, nonce, text, extra); !bytes.Equal(sealed, want) || &sealed[0] != &out[0] {
				t.Fatalf("%d bytes: sealed otherwise than crypto/cipher does, or elsewhere", n)
			}
			if got, err := ours.Open(nil, nonce, sealed, extra); err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%d bytes: opened: %v, or other bytes", n, err)
			}
			rest := bytes.Clone(text)
			if _, err := ours.Open(text[:0], nonce, sealed, extra); err != nil || !bytes.Equal(text, rest) {
				t.Fatalf("%d bytes: opened beside the guards: %v, or other bytes", n, err)
			}
		}
	}
}
