package gcm

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// widest is the number of bits of the widest registers that the instructions can use here: 512, 256, or 0 if the CPU does not have them.
var widest = func() int {
	const vectorAES, vectorPCLMULQDQ = 1 << 9, 1 << 10 // of extendedFeatures, which CPUs with AVX2 have
	switch x := &cpu.X86; {
	case !x.HasAES || !x.HasPCLMULQDQ || !x.HasAVX2 || extendedFeatures()&(vectorAES|vectorPCLMULQDQ) != vectorAES|vectorPCLMULQDQ:
		return 0
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VAES && x.HasAVX512VPCLMULQDQ:
		return 512
	}
	return 256
}()

const (
	blockSize = 16
	nonceSize = 12
	tagSize   = 16
	chunk     = 16 * blockSize // what a round of sealChunks and openChunks takes

	maxPlaintext = (1<<32 - 2) * blockSize // then the counter would repeat
)

// A schedule is a key as the instructions want it. Assembly knows its layout.
type schedule struct {
	rounds [11][blockSize]byte
	powers [16][2]uint64 // of the hash key, highest first, each times x
	folded [16][2]uint64 // the sum of each power's halves, twice
}

// A wideGCM is AES-128-GCM. Its methods may be called from many goroutines.
type wideGCM struct {
	block cipher.Block
	bits  int // of the registers, 256 or 512
	k     schedule
}

// seal and open are sealChunks and openChunks with registers of g.bits.
func (g *wideGCM) seal(counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64) {
	if g.bits == 512 {
		sealChunks(&g.k, counter, dst, src, n, hash)
	} else {
		sealChunks256(&g.k, counter, dst, src, n, hash)
	}
}

func (g *wideGCM) open(counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64) {
	if g.bits == 512 {
		openChunks(&g.k, counter, dst, src, n, hash)
	} else {
		openChunks256(&g.k, counter, dst, src, n, hash)
	}
}

// sealChunks encrypts n chunks and hashes the ciphertext; openChunks hashes n chunks of ciphertext and decrypts them. Counter is the block of the first
// one's counter, and of the next one's afterwards. dst and src are the same or do not overlap; n is at least 1.
//
//go:noescape
func sealChunks(k *schedule, counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64)

//go:noescape
func openChunks(k *schedule, counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64)

//go:noescape
func sealChunks256(k *schedule, counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64)

//go:noescape
func openChunks256(k *schedule, counter *[blockSize]byte, dst, src *byte, n int, hash *[2]uint64)

// extendedFeatures is register ECX after CPUID of leaf 7. Only CPUs that have the leaf may be asked.
func extendedFeatures() (ecx uint32)

// hashBlocks hashes n blocks, at least 1, with the hash key h.
//
//go:noescape
func hashBlocks(h, hash *[2]uint64, src *byte, n int)

// expandKey sets k.rounds.
//
//go:noescape
func expandKey(k *schedule, key *byte)

func newWide(key []byte, block cipher.Block, bits int) cipher.AEAD {
	g := &wideGCM{block: block, bits: bits}
	expandKey(&g.k, &key[0])
	var h [blockSize]byte
	block.Encrypt(h[:], h[:])
	high, low := binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])
	carry := -(high >> 63)
	power := [2]uint64{low<<1 ^ carry&1, high<<1 | low>>63}
	power[1] ^= carry & 0xc2 << 56
	first := power
	var zero [blockSize]byte
	for i := range g.k.powers {
		g.k.powers[len(g.k.powers)-1-i] = power
		hashBlocks(&first, &power, &zero[0], 1) // times the hash key
	}
	for i, p := range g.k.powers {
		g.k.folded[i] = [2]uint64{p[0] ^ p[1], p[0] ^ p[1]}
	}
	return g
}

func (g *wideGCM) NonceSize() int { return nonceSize }
func (g *wideGCM) Overhead() int  { return tagSize }

// Seal implements cipher.AEAD.
func (g *wideGCM) Seal(dst, nonce, plaintext, additional []byte) []byte {
	if len(plaintext) > maxPlaintext {
		panic("gcm: message too large")
	}
	counter, mask := g.begin(nonce)
	n := len(plaintext)
	at := len(dst)
	dst = slices.Grow(dst, n+tagSize)[:at+n+tagSize]
	out := dst[at:]
	mustNotOverlap(out, plaintext, additional)
	hash := g.hash(additional)
	if whole := n / chunk; whole > 0 {
		g.seal(&counter, &out[0], &plaintext[0], whole, &hash)
	}
	if at := n &^ (chunk - 1); at < n {
		var last [chunk]byte
		copy(last[:], plaintext[at:])
		var none [2]uint64
		g.seal(&counter, &last[0], &last[0], 1, &none)
		copy(out[at:], last[:n-at])
		g.hashLast(&hash, &last, n-at)
	}
	g.tag((*[tagSize]byte)(out[n:]), hash, mask, len(additional), n)
	return dst
}

var errOpen = errors.New("gcm: message authentication failed")

// Open implements cipher.AEAD.
func (g *wideGCM) Open(dst, nonce, ciphertext, additional []byte) ([]byte, error) {
	if len(ciphertext) < tagSize || len(ciphertext)-tagSize > maxPlaintext {
		return nil, errOpen
	}
	counter, mask := g.begin(nonce)
	n := len(ciphertext) - tagSize
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	out := dst[at:]
	mustNotOverlap(out, ciphertext, additional)
	hash := g.hash(additional)
	if whole := n / chunk; whole > 0 {
		g.open(&counter, &out[0], &ciphertext[0], whole, &hash)
	}
	if at := n &^ (chunk - 1); at < n {
		var last [chunk]byte
		copy(last[:], ciphertext[at:n])
		g.hashLast(&hash, &last, n-at)
		var none [2]uint64
		g.open(&counter, &last[0], &last[0], 1, &none)
		copy(out[at:], last[:n-at])
	}
	var tag [tagSize]byte
	g.tag(&tag, hash, mask, len(additional), n)
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return dst, nil
}

// begin returns the first counter and the mask of the tag.
func (g *wideGCM) begin(nonce []byte) (counter, mask [blockSize]byte) {
	if len(nonce) != nonceSize {
		panic("gcm: incorrect nonce length")
	}
	copy(counter[:], nonce)
	counter[blockSize-1] = 1
	g.block.Encrypt(mask[:], counter[:])
	counter[blockSize-1] = 2
	return counter, mask
}

// hash begins a hash with the additional data.
func (g *wideGCM) hash(additional []byte) (hash [2]uint64) {
	h := &g.k.powers[len(g.k.powers)-1]
	if whole := len(additional) / blockSize; whole > 0 {
		hashBlocks(h, &hash, &additional[0], whole)
		additional = additional[whole*blockSize:]
	}
	if len(additional) > 0 {
		var last [blockSize]byte
		copy(last[:], additional)
		hashBlocks(h, &hash, &last[0], 1)
	}
	return hash
}

// hashLast hashes the first n bytes of the last chunk of ciphertext, and zeros up to the block's end.
func (g *wideGCM) hashLast(hash *[2]uint64, last *[chunk]byte, n int) {
	padded := *last
	clear(padded[n:])
	hashBlocks(&g.k.powers[len(g.k.powers)-1], hash, &padded[0], (n+blockSize-1)/blockSize)
}

// tag ends the hash with the lengths.
func (g *wideGCM) tag(tag *[tagSize]byte, hash [2]uint64, mask [blockSize]byte, additional, text int) {
	var lengths [blockSize]byte
	binary.BigEndian.PutUint64(lengths[:8], uint64(additional)*8)
	binary.BigEndian.PutUint64(lengths[8:], uint64(text)*8)
	hashBlocks(&g.k.powers[len(g.k.powers)-1], &hash, &lengths[0], 1)
	binary.BigEndian.PutUint64(tag[:8], hash[1])
	binary.BigEndian.PutUint64(tag[8:], hash[0])
	subtle.XORBytes(tag[:], tag[:], mask[:])
}

// mustNotOverlap panics unless the text begins where out does, or has no memory in common with it, and the additional data has none.
func mustNotOverlap(out, text, additional []byte) {
	if overlap(out, additional) || overlap(out, text) && &out[0] != &text[0] {
		panic("gcm: invalid buffer overlap")
	}
}

// overlap reports whether a and b have memory in common.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
