package transport

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/paragon-train/paragon/internal/gcm"
)

// After the handshake of TLS 1.3 the bytes of each direction travel in records, as those of TLS but longer:
//
//	offset  size  field
//	     0     4  n, length of the plaintext, 1 to sealedBytes, little-endian
//	     4     n  ciphertext
//	   4+n    16  tag
//
// The cipher is the one that the handshake agreed on: AES-GCM, or ChaCha20-Poly1305 where one of the processors has no instructions for AES. The first
// four bytes are its additional data. The nonce is the number of the record in its direction, from 0, xor a fixed part, as in TLS 1.3, so a
// record that is changed, lost, repeated, out of order or from the other direction is not valid, and ends the connection. Keys come from the
// handshake's exporter (RFC 8446, 7.5), one secret for each direction. After rekeyAfter records a direction's next secret and key are derived from
// its secret by HKDF, as by TLS's KeyUpdate, but at both ends by count.
//
// Package tls has records of 16 KB at most, copies each three times, and makes a call for each; on two cores that took more CPU time than the cipher.
const (
	sealedBytes    = 256 << 10 // most plaintext of a record: with its ciphertext it stays in a core's cache
	sealedHeader   = 4
	sealedTag      = 16
	sealedOverhead = sealedHeader + sealedTag

	// rekeyAfter is how many records have one key. TLS 1.3 allows 2^24.5 records of 2^10 blocks with AES-GCM (RFC 8446, 5.5); 2^20 of 2^14 blocks are fewer.
	rekeyAfter = 1 << 20

	exporterLabel = "EXPORTER-paragon-records"
	secretBytes   = sha256.Size
)

// A recordKey seals or opens the records of one direction.
type recordKey struct {
	suite  uint16
	secret []byte
	aead   cipher.AEAD
	iv     [12]byte
	nonce  [12]byte
	number uint64 // of the next record, since the last change of the key
	limit  uint64 // records of a key
}

// recordKeys returns the keys of both directions of a connection whose handshake is over.
func recordKeys(s tls.ConnectionState) (fromClient, fromServer *recordKey, err error) {
	both, err := s.ExportKeyingMaterial(exporterLabel, nil, 2*secretBytes)
	if err != nil {
		return nil, nil, err
	}
	if fromClient, err = newRecordKey(s.CipherSuite, both[:secretBytes]); err == nil {
		fromServer, err = newRecordKey(s.CipherSuite, both[secretBytes:])
	}
	return fromClient, fromServer, err
}

func newRecordKey(suite uint16, secret []byte) (*recordKey, error) {
	k := &recordKey{suite: suite, secret: secret, limit: rekeyAfter}
	return k, k.derive()
}

// derive makes the key of the secret.
func (k *recordKey) derive() error {
	size := 16
	if k.suite != tls.TLS_AES_128_GCM_SHA256 {
		size = 32
	}
	key, err := hkdf.Expand(sha256.New, k.secret, "paragon record key", size)
	if err != nil {
		return err
	}
	iv, err := hkdf.Expand(sha256.New, k.secret, "paragon record iv", len(k.iv))
	if err != nil {
		return err
	}
	k.number = 0
	copy(k.iv[:], iv)
	switch k.suite {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384:
		k.aead, err = gcm.New(key)
		return err
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		k.aead, err = chacha20poly1305.New(key)
		return err
	}
	return fmt.Errorf("records: cipher suite %s: want one of TLS 1.3", tls.CipherSuiteName(k.suite))
}

// next returns the nonce of the next record.
func (k *recordKey) next() ([]byte, error) {
	if k.number == k.limit {
		secret, err := hkdf.Expand(sha256.New, k.secret, "paragon next secret", secretBytes)
		if err != nil {
			return nil, err
		}
		k.secret = secret
		if err := k.derive(); err != nil {
			return nil, err
		}
	}
	k.nonce = k.iv
	tail := k.nonce[4:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^k.number)
	k.number++
	return k.nonce[:], nil
}

// seal appends a record to b. The plaintext may lie where its ciphertext will: sealedHeader bytes behind the end of b.
func (k *recordKey) seal(b, plaintext []byte) ([]byte, error) {
	nonce, err := k.next()
	if err != nil {
		return b, err
	}
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(plaintext)))
	return k.aead.Seal(b, nonce, plaintext, b[at:]), nil
}

// A recordReader opens the records of one direction.
type recordReader struct {
	r   io.Reader
	key *recordKey
	err error // of a record that was not valid, or of the connection's end

	buf      []byte
	from, to int    // bytes of buf that were read and are not opened
	plain    []byte // part of buf, before from: opened, and not taken by Read
}

// errRecord says what a changed record looks like from here.
var errRecord = errors.New("a record is not valid: something on the way changed, dropped or repeated bytes")

// Read implements io.Reader. A record that fits into p is opened there; one that does not, in the buffer. After a deadline that has passed reading can
// go on: no bytes are lost.
func (r *recordReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.plain) == 0 {
		n, err := r.record()
		if err != nil {
			return 0, err
		}
		dst := r.buf[r.from+sealedHeader:]
		if n <= len(p) {
			dst = p
		}
		if err := r.open(dst[:0], n); err != nil {
			return 0, err
		}
		if n <= len(p) {
			return n, nil
		}
		r.plain = dst[:n]
	}
	n := copy(p, r.plain)
	r.plain = r.plain[n:]
	return n, nil
}

// open opens the next record, of n bytes of plaintext, into dst.
func (r *recordReader) open(dst []byte, n int) error {
	nonce, err := r.key.next()
	if err == nil {
		header, sealed := r.buf[r.from:r.from+sealedHeader], r.buf[r.from+sealedHeader:r.from+sealedOverhead+n]
		if _, err = r.key.aead.Open(dst, nonce, sealed, header); err != nil {
			err = errRecord
		}
	}
	r.err = err
	r.from += sealedOverhead + n
	return err
}

// record reads the next record into the buffer and returns the length of its plaintext. It reads readBuffer bytes ahead where the buffer is empty, so
// that small records share a system call, and of a large record no more than its end and the next one's header, so that little is moved.
func (r *recordReader) record() (n int, err error) {
	for {
		if r.err != nil {
			return 0, r.err
		}
		have, want := r.to-r.from, sealedHeader
		if have >= want {
			n = int(binary.LittleEndian.Uint32(r.buf[r.from:]))
			if n < 1 || n > sealedBytes {
				r.err = fmt.Errorf("%w: its length is %d, want 1 to %d", errRecord, n, sealedBytes)
				return 0, r.err
			}
			if want = sealedOverhead + n; have >= want {
				return n, nil
			}
			want += sealedHeader
		}
		r.makeRoom(max(want, readBuffer))
		end := r.from + max(want, readBuffer)
		m, err := r.r.Read(r.buf[r.to:end])
		r.to += m
		if m == 0 && err != nil {
			if err == io.EOF && have > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

// makeRoom moves what was read to the front of a buffer of at least n bytes.
func (r *recordReader) makeRoom(n int) {
	buf := r.buf
	if r.from == 0 && len(buf) >= n {
		return
	}
	if len(buf) < n {
		buf = make([]byte, n)
	}
	r.to = copy(buf, r.buf[r.from:r.to])
	r.buf, r.from = buf, 0
}

// A recordWriter seals the records of one direction. Sealing never waits: records go into a buffer, and from there to the connection. After an
// error of the connection the next write begins with what is left of them.
type recordWriter struct {
	write func([]byte) (int, error)
	key   *recordKey
	buf   []byte
	out   []byte // the part of buf that is not written
}

// flush writes the records that are left.
func (w *recordWriter) flush() error {
	for len(w.out) > 0 {
		n, err := w.write(w.out)
		w.out = w.out[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// writeVector writes all pieces and takes out of rest what it has sealed. Small pieces share a record. A large piece has its own: the peer then
// opens it where it belongs.
func (w *recordWriter) writeVector(rest *[][]byte) error {
	for {
		if err := w.flush(); err != nil || len(*rest) == 0 {
			return err
		}
		w.buf = w.buf[:0]
		for len(*rest) > 0 && len(w.buf) < sealedBytes/2 {
			if err := w.sealNext(rest); err != nil {
				return err
			}
		}
		w.out = w.buf
	}
}

// sealNext seals one record of the first pieces.
func (w *recordWriter) sealNext(rest *[][]byte) (err error) {
	if p := (*rest)[0]; len(p) >= smallFrame {
		n := min(len(p), sealedBytes)
		w.buf, err = w.key.seal(w.buf, p[:n])
		consume(rest, n)
		return err
	}
	at := len(w.buf)
	b := append(w.buf, make([]byte, sealedHeader)...)
	for len(*rest) > 0 && len((*rest)[0]) < smallFrame && len(b)-at < sealedBytes/2 {
		b = append(b, (*rest)[0]...)
		(*rest)[0] = nil
		*rest = (*rest)[1:]
	}
	if plaintext := b[at+sealedHeader:]; len(plaintext) > 0 {
		w.buf, err = w.key.seal(b[:at], plaintext)
	}
	return err
}

// consume takes the first n bytes out of v.
func consume(v *[][]byte, n int) {
	for n > 0 {
		first := &(*v)[0]
		if n < len(*first) {
			*first = (*first)[n:]
			return
		}
		n -= len(*first)
		*first = nil
		*v = (*v)[1:]
	}
}
