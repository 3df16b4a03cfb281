package gcm

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The counter of 32 bits goes on at zero, and touches no other byte of the nonce; so it is left for the next chunks.
func TestTheCounterWraps(t *testing.T) {
	if widest == 0 {
		t.Skip("this CPU has no wide AES instructions")
	}
	for bits := 256; bits <= widest; bits *= 2 {
		t.Run(fmt.Sprintf("bits=%d", bits), func(t *testing.T) { testCounter(t, bits) })
	}
}

func testCounter(t *testing.T, bits int) {
	rng := rand.NewChaCha8([32]byte{2})
	key := random(rng, 16)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	g := newWide(key, block, bits).(*wideGCM)
	for before := range uint32(40) { // blocks up to the wrap
		first := bytes.Repeat([]byte{0xff}, blockSize)
		binary.BigEndian.PutUint32(first[nonceSize:], -before)
		plain := random(rng, 3*chunk)
		want := bytes.Clone(plain)
		next := [blockSize]byte(first)
		for at := 0; at < len(plain); at += blockSize {
			var stream [blockSize]byte
			block.Encrypt(stream[:], next[:])
			for i, b := range stream {
				want[at+i] ^= b
			}
			binary.BigEndian.PutUint32(next[nonceSize:], binary.BigEndian.Uint32(next[nonceSize:])+1)
		}
		var hashes [2][2]uint64
		got, counter := make([]byte, len(plain)), [blockSize]byte(first)
		g.seal(&counter, &got[0], &plain[0], 3, &hashes[0])
		if !bytes.Equal(got, want) || counter != next {
			t.Fatalf("sealed %d blocks before the wrap: other bytes, or counter %x, want %x", before, counter, next)
		}
		counter = [blockSize]byte(first)
		g.open(&counter, &got[0], &got[0], 3, &hashes[1])
		if !bytes.Equal(got, plain) || counter != next || hashes[0] != hashes[1] {
			t.Fatalf("opened %d blocks before the wrap: other bytes, hash %x and counter %x, want %x and %x", before, hashes[1], counter, hashes[0], next)
		}
	}
}

// With registers of 256 bits it seals as crypto/cipher does. On a CPU that has wider ones nothing else uses these.
func TestBothWidthsSealAlike(t *testing.T) {
	if widest == 0 {
		t.Skip("this CPU has no wide AES instructions")
	}
	rng := rand.NewChaCha8([32]byte{6})
	for n := range 3 * chunk {
		key := random(rng, 16)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		narrow, nonce, plain, extra := newWide(key, block, 256), random(rng, 12), random(rng, n), random(rng, n%37)
		_, standard := both(t, key)
		sealed := narrow.Seal(nil, nonce, plain, extra)
		if !bytes.Equal(sealed, standard.Seal(nil, nonce, plain, extra)) {
			t.Fatalf("%d bytes sealed with 256 bits: otherwise than crypto/cipher does", n)
		}
		if opened, err := narrow.Open(sealed[:0], nonce, sealed, extra); err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("%d bytes opened with 256 bits: %v, or other bytes", n, err)
		}
	}
}
