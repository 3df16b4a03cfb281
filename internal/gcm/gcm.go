// Package gcm is AES-GCM with the wide AES instructions of newer CPUs (VAES and VPCLMULQDQ), which crypto/cipher does not use: with registers of
// 512 bits on AMD from Zen 4 and Intel from Ice Lake, and of 256 bits on AMD Zen 3 and Intel's newer CPUs without AVX-512. On other CPUs, and for keys
// of 256 bits, it is crypto/cipher's.
//
// Its time depends on lengths alone: there are no tables that keys or data index.
//
// In FIPS 140-3 mode (GODEBUG=fips140=on) it is always crypto/cipher's, and fips140=only refuses it, as crypto/cipher does: the nonces are the caller's.
package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
)

// New returns AES-GCM with nonces of 12 bytes and tags of 16. Key has 16 or 32 bytes.
func New(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if widest > 0 && len(key) == 16 && !fips140.Enabled() {
		return newWide(key, block, widest), nil
	}
	return cipher.NewGCM(block)
}
