package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
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

// What is sealed here is what crypto/cipher seals, and opens at both, at every length up to 4096 bytes and around larger ones, in place and elsewhere, at
// all offsets in memory, with additional data of many lengths.
func TestSealsAndOpensAsTheStandardLibrary(t *testing.T) {
	if widest == 0 {
		t.Log("this CPU has no wide AES instructions: crypto/cipher is compared with itself")
	}
	rng := rand.NewChaCha8([32]byte{1})
	var lengths []int
	for n := range 4097 {
		lengths = append(lengths, n)
	}
	for _, n := range []int{64 << 10, 256 << 10, 16 << 20} {
		lengths = append(lengths, n-17, n-1, n, n+1, n+255)
	}
	text := random(rng, 17<<20)
	for i, n := range lengths {
		ours, theirs := both(t, random(rng, 16+16*(i%5/4))) // one in five of 256 bits
		extra := text[100:][:i%40]
		if i%200 == 3 {
			extra = text[100:][:50_000+i]
		}
		nonce, plain := random(rng, 12), text[i%64:][:n]
		want := theirs.Seal([]byte("head"), nonce, plain, extra)
		if got := ours.Seal([]byte("head"), nonce, plain, extra); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes with %d additional ones: sealed otherwise than crypto/cipher does", n, len(extra))
		}
		sealed := want[4:]
		at := i * 7 % 64
		place := make([]byte, at+n+16)[at:]
		copy(place, plain)
		if got := ours.Seal(place[:0], nonce, place[:n], extra); !bytes.Equal(got, sealed) {
			t.Fatalf("%d bytes sealed in place: other bytes", n)
		}
		if opened, err := ours.Open(place[:0], nonce, place, extra); err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("%d bytes opened in place: %v, or other bytes", n, err)
		}
		if opened, err := ours.Open(place[:0], nonce, sealed, extra); err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("%d bytes opened elsewhere: %v, or other bytes", n, err)
		}
	}
}

// The test cases 1 to 4 of McGrew and Viega, "The Galois/Counter Mode of Operation", which NIST's SP 800-38D refers to.
func TestPublishedVectors(t *testing.T) {
	const (
		key   = "feffe9928665731c6d6a8f9467308308"
		nonce = "cafebabefacedbaddecaf888"
		text  = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
		coded = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
	)
	zeros := strings.Repeat("00", 16)
	for i, c := range []struct{ key, nonce, text, extra, sealed string }{
		{zeros, zeros[:24], "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
		{zeros, zeros[:24], zeros, "", "0388dace60b6a392f328c2b971b2fe78" + "ab6e47d42cec13bdf53a67b21257bddf"},
		{key, nonce, text, "", coded + "4d5c2af327cd64a62cf35abd2ba6fab4"},
		{key, nonce, text[:120], "feedfacedeadbeeffeedfacedeadbeefabaddad2", coded[:120] + "5bc94fbc3221a5db94fae95ae7121a47"},
	} {
		hexed := func(s string) []byte {
			b, err := hex.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		ours, _ := both(t, hexed(c.key))
		if got := hex.EncodeToString(ours.Seal(nil, hexed(c.nonce), hexed(c.text), hexed(c.extra))); got != c.sealed {
			t.Errorf("case %d: got %s, want %s", i+1, got, c.sealed)
		}
	}
}

// One key serves many goroutines, whatever interrupts them.
func TestManyGoroutinesShareAKey(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{4})
	ours, theirs := both(t, random(rng, 16))
	nonce, plain := random(rng, 12), random(rng, 100_001)
	want := theirs.Seal(nil, nonce, plain, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b := make([]byte, 0, len(want))
			for range 200 {
				if b = ours.Seal(b[:0], nonce, plain, nil); !bytes.Equal(b, want) {
					t.Error("sealed otherwise than crypto/cipher does")
					return
				}
				if got, err := ours.Open(b[:0], nonce, b, nil); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("opened: %v, or other bytes", err)
					return
				}
			}
		})
	}
	done := make(chan bool)
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			runtime.GC() // which stops the goroutines, by signals where they are long without a call
		}
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
		"a short nonce":         func() { ours.Seal(nil, b[:8], b, nil) },
		"sealed over":           func() { ours.Seal(b[101:101], b[:12], b[100:500], nil) },
		"opened over":           func() { ours.Open(b[101:101], b[:12], b[100:500], nil) },
		"the tag over the text": func() { ours.Seal(b[100:100], b[:12], b[510:910], nil) },
		"the text over the tag": func() { ours.Open(b[490:490], b[:12], b[100:500], nil) },
		"sealed over more data": func() { ours.Seal(b[100:100], b[:12], b[100:500], b[400:600]) },
		"opened over more data": func() { ours.Open(b[100:100], b[:12], b[100:500], b[400:600]) },
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

// Where the process is to use validated modules alone it does, or uses none.
func TestFIPSModeHasTheStandardLibraryAlone(t *testing.T) {
	if mode := os.Getenv("PARAGON_TEST_FIPS"); mode != "" {
		aead, err := New(make([]byte, 16))
		fmt.Printf("%T %v\n", aead, err)
		os.Exit(0)
	}
	for mode, want := range map[string]string{"on": "*gcm.GCM <nil>", "only": "<nil> crypto/cipher: "} {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "PARAGON_TEST_FIPS=1", "GODEBUG=fips140="+mode)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("GODEBUG=fips140=%s: got %q, %v, want %q", mode, out, err, want)
		}
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
