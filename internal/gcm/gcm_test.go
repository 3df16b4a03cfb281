package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
	"testing"
)

// both returns this package's AES-GCM and crypto/cipher's with one key.
func both(t testing.TB, key []byte) (ours, theirs cipher.AEAD) {
	t.Helper()
	ours, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func random(rng *rand.ChaCha8, n int) []byte {
	b := make([]byte, n)
	rng.Read(b)
	return b
}

// What is sealed here is what crypto/cipher seals, at every length around the chunks, and opens at both.
func TestSealsAndOpensAsTheStandardLibrary(t *testing.T) {
	if !wide {
		t.Log("this CPU has no wide AES instructions: crypto/cipher is compared with itself")
	}
	rng := rand.NewChaCha8([32]byte{1})
	lengths := []int{4096, 5000, 65536, 256<<10 - 1, 256 << 10}
	for n := range 1100 {
		lengths = append(lengths, n)
	}
	for i, n := range lengths {
		ours, theirs := both(t, random(rng, 16+16*(i%5/4))) // one in five of 256 bits
		nonce, plain, extra := random(rng, 12), random(rng, n), random(rng, i%40)
		got, want := ours.Seal([]byte("head"), nonce, plain, extra), theirs.Seal([]byte("head"), nonce, plain, extra)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes with %d additional ones: sealed otherwise than crypto/cipher does", n, len(extra))
		}
		sealed := want[4:]
		for _, place := range []struct {
			name string
			dst  []byte
		}{{"elsewhere", nil}, {"in place", bytes.Clone(sealed)}} {
			in := sealed
			if place.dst != nil {
				in = place.dst
			}
			if opened, err := ours.Open(place.dst[:0], nonce, in, extra); err != nil || !bytes.Equal(opened, plain) {
				t.Fatalf("%d bytes opened %s: %v, or other bytes", n, place.name, err)
			}
		}
		place := append(bytes.Clone(plain), make([]byte, 16)...)
		if got := ours.Seal(place[:0], nonce, place[:n], extra); !bytes.Equal(got, sealed) {
			t.Fatalf("%d bytes sealed in place: other bytes", n)
		}
	}
}

// The counter of 32 bits goes on at zero, and touches no other byte of the nonce.
func TestManyBlocks(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{2})
	ours, theirs := both(t, random(rng, 16))
	nonce, plain := bytes.Repeat([]byte{0xff}, 12), random(rng, 2<<20) // more than 2^16 blocks
	if !bytes.Equal(ours.Seal(nil, nonce, plain, nil), theirs.Seal(nil, nonce, plain, nil)) {
		t.Error("sealed otherwise than crypto/cipher does")
	}
}

// Any changed bit is found, and nothing of the text is left.
func TestChangedBytesAreRefused(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{3})
	ours, _ := both(t, random(rng, 16))
	nonce, plain, extra := random(rng, 12), random(rng, 700), random(rng, 20)
	sealed := ours.Seal(nil, nonce, plain, extra)
	dst := make([]byte, len(plain))
	refused := func(what string, nonce, sealed, extra []byte) {
		t.Helper()
		if got, err := ours.Open(dst[:0], nonce, sealed, extra); err == nil || got != nil || !bytes.Equal(dst, make([]byte, len(dst))) {
			t.Errorf("%s: got %d bytes, %v, text left %t; want an error and nothing", what, len(got), err, !bytes.Equal(dst, make([]byte, len(dst))))
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("byte %d changed", i), nonce, changed, extra)
	}
	for _, n := range []int{0, 15, 16, 256 + 16, len(sealed) - 1} {
		refused(fmt.Sprintf("cut to %d bytes", n), nonce, sealed[:n], extra)
	}
	refused("another nonce", random(rng, 12), sealed, extra)
	refused("other additional data", nonce, sealed, extra[1:])
	if _, err := ours.Open(nil, nonce, sealed, extra); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestMisuseIsAPanic(t *testing.T) {
	ours, _ := both(t, make([]byte, 16))
	b := make([]byte, 1000)
	for name, misuse := range map[string]func(){
		"a short nonce": func() { ours.Seal(nil, b[:8], b, nil) },
		"sealed over":   func() { ours.Seal(b[1:1], b[:12], b[:500], nil) },
		"opened over":   func() { ours.Open(b[1:1], b[:12], b[:500], nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
	if _, err := New(b[:15]); err == nil {
		t.Error("a key of 15 bytes: no error")
	}
}

func FuzzAgainstTheStandardLibrary(f *testing.F) {
	f.Add(make([]byte, 16), make([]byte, 12), []byte("text"), []byte("more"))
	f.Add(make([]byte, 16), make([]byte, 12), make([]byte, 513), []byte(nil))
	f.Fuzz(func(t *testing.T, key, nonce, plain, extra []byte) {
		if len(key) != 16 || len(nonce) != 12 {
			t.Skip()
		}
		ours, theirs := both(t, key)
		sealed := theirs.Seal(nil, nonce, plain, extra)
		if !bytes.Equal(ours.Seal(nil, nonce, plain, extra), sealed) {
			t.Error("sealed otherwise than crypto/cipher does")
		}
		got, err := ours.Open(nil, nonce, plain, extra) // most likely not valid
		want, err2 := theirs.Open(nil, nonce, plain, extra)
		if (err == nil) != (err2 == nil) || !bytes.Equal(got, want) {
			t.Errorf("opened: got %v, want %v", err, err2)
		}
	})
}

// go test ./internal/gcm -run xxx -bench .
func BenchmarkGCM(b *testing.B) {
	ours, theirs := both(b, make([]byte, 16))
	for _, way := range []struct {
		name string
		aead cipher.AEAD
	}{{"wide", ours}, {"standard", theirs}} {
		for _, n := range []int{1 << 10, 16 << 10, 256 << 10} {
			nonce, plain := make([]byte, 12), make([]byte, n)
			sealed := way.aead.Seal(nil, nonce, plain, nil)
			b.Run(fmt.Sprintf("op=seal/by=%s/bytes=%d", way.name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sealed = way.aead.Seal(sealed[:0], nonce, plain, nil)
				}
			})
			b.Run(fmt.Sprintf("op=open/by=%s/bytes=%d", way.name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					if _, err := way.aead.Open(plain[:0], nonce, sealed, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
