package gcm

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// The counter of 32 bits goes on at zero, and touches no other byte of the nonce; so it is left for the next chunks.
func TestTheCounterWraps(t *testing.T) {
	if !wide {
		t.Skip("this CPU has no wide AES instructions")
	}
	rng := rand.NewChaCha8([32]byte{2})
	key := random(rng, 16)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	g := newWide(key, block).(*wideGCM)
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
		sealChunks(&g.k, &counter, &got[0], &plain[0], 3, &hashes[0])
		if !bytes.Equal(got, want) || counter != next {
			t.Fatalf("sealed %d blocks before the wrap: other bytes, or counter %x, want %x", before, counter, next)
		}
		counter = [blockSize]byte(first)
		openChunks(&g.k, &counter, &got[0], &got[0], 3, &hashes[1])
		if !bytes.Equal(got, plain) || counter != next || hashes[0] != hashes[1] {
			t.Fatalf("opened %d blocks before the wrap: other bytes, hash %x and counter %x, want %x and %x", before, hashes[1], counter, hashes[0], next)
		}
	}
}
