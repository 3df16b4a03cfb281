package transport

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/paragon-train/paragon/internal/identity"
)

var recordSuites = []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256}

// recordKeyOf returns a key of a secret; each end has its own.
func recordKeyOf(t testing.TB, suite uint16, secret byte, limit uint64) *recordKey {
	t.Helper()
	k, err := newRecordKey(suite, bytes.Repeat([]byte{secret}, secretBytes))
	if err != nil {
		t.Fatal(err)
	}
	k.limit = limit
	return k
}

// sealed returns the records of some pieces, all together and each.
func sealed(t testing.TB, k *recordKey, pieces ...[]byte) (all []byte, each [][]byte) {
	t.Helper()
	for _, p := range pieces {
		b, err := k.seal(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		all, each = append(all, b...), append(each, b)
	}
	return all, each
}

// What is written in any pieces is read in any others, with every cipher and over changes of the key.
func TestRecordsCarryAllPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, suite := range recordSuites {
		for _, sizes := range [][]int{{1}, {0, 0}, {50, 64 << 10, 50, 1 << 20, 3}, {smallFrame - 1, smallFrame, smallFrame + 1}, {sealedBytes, sealedBytes + 1}, make([]int, 300)} {
			var pieces [][]byte
			var want []byte
			for i, n := range sizes {
				if len(sizes) == 300 {
					n = 1000 + i // more small pieces than a record has
				}
				p := bytes.Repeat([]byte{byte(i + 1)}, n)
				pieces, want = append(pieces, p), append(want, p...)
			}
			var wire bytes.Buffer
			w := recordWriter{write: wire.Write, key: recordKeyOf(t, suite, 1, 3)}
			if err := w.writeVector(&pieces); err != nil || len(pieces) > 0 {
				t.Fatalf("%s, %v: %d pieces left, %v", tls.CipherSuiteName(suite), sizes, len(pieces), err)
			}
			r := recordReader{r: iotest.OneByteReader(&wire), key: recordKeyOf(t, suite, 1, 3)}
			if len(want) > 10_000 {
				r.r = &wire
			}
			got := make([]byte, 0, len(want))
			for len(got) < len(want) {
				n, err := r.Read(got[len(got):min(cap(got), len(got)+1+rng.IntN(600_000))])
				if err != nil {
					t.Fatalf("%s, %v: after %d of %d bytes: %v", tls.CipherSuiteName(suite), sizes, len(got), len(want), err)
				}
				got = got[:len(got)+n]
			}
			if _, err := r.Read(make([]byte, 1)); err != io.EOF || !bytes.Equal(got, want) {
				t.Errorf("%s, %v: read other bytes, or %v, want EOF", tls.CipherSuiteName(suite), sizes, err)
			}
			if most := sealedOverhead + sealedBytes + sealedHeader; len(r.buf) > most {
				t.Errorf("the reader took %d bytes, want at most %d", len(r.buf), most)
			}
		}
	}
}

// A large piece has records of its own, which are opened where the reader wants them.
func TestLargePiecesAreNotCopied(t *testing.T) {
	var wire bytes.Buffer
	w := recordWriter{write: wire.Write, key: recordKeyOf(t, recordSuites[0], 1, rekeyAfter)}
	pieces := [][]byte{make([]byte, 40), make([]byte, sealedBytes+20_000), make([]byte, 40)}
	if err := w.writeVector(&pieces); err != nil {
		t.Fatal(err)
	}
	r := recordReader{r: &wire, key: recordKeyOf(t, recordSuites[0], 1, rekeyAfter)}
	for i, want := range []int{40, sealedBytes, 20_000, 40} {
		if n, err := r.Read(make([]byte, 1<<20)); n != want || err != nil || len(r.plain) > 0 {
			t.Errorf("read %d: got %d bytes, %d left, %v, want %d, the whole record", i, n, len(r.plain), err, want)
		}
	}
}

// No record that was changed, left out, repeated, moved or sent back is read, nor anything after it.
func TestChangedRecordsEndTheConnection(t *testing.T) {
	plain := [][]byte{[]byte("one one one"), []byte("two"), bytes.Repeat([]byte("three"), 80)}
	for _, suite := range recordSuites {
		all, each := sealed(t, recordKeyOf(t, suite, 1, rekeyAfter), plain...)
		_, others := sealed(t, recordKeyOf(t, suite, 2, rekeyAfter), plain...)
		join := func(records ...[]byte) []byte { return bytes.Join(records, nil) }
		type attack struct {
			name  string
			bytes []byte
			good  int // records before it
			err   error
		}
		attacks := []attack{
			{"nothing", all, 3, io.EOF},
			{"cut between records", join(each[0]), 1, io.EOF},
			{"cut in a record", all[:len(all)-1], 2, io.ErrUnexpectedEOF},
			{"cut in a length", all[:len(each[0])+2], 1, io.ErrUnexpectedEOF},
			{"left out", join(each[0], each[2]), 1, errRecord},
			{"the first left out", join(each[1:]...), 0, errRecord},
			{"repeated", join(each[0], each[0], each[1]), 1, errRecord},
			{"changed places", join(each[0], each[2], each[1]), 1, errRecord},
			{"of the other direction", join(each[0], others[1]), 1, errRecord},
			{"of no length", join(each[0], make([]byte, 100)), 1, errRecord},
			{"too long", join(each[0], []byte{1, 0, 4, 0}, make([]byte, 100)), 1, errRecord},
			{"as long as numbers go", join(each[0], []byte{255, 255, 255, 255}, make([]byte, 100)), 1, errRecord},
			{"two as one", join([]byte{14 + sealedOverhead, 0, 0, 0}, each[0][sealedHeader:], each[1]), 0, errRecord},
		}
		for i := range all {
			changed := bytes.Clone(all)
			changed[i] ^= 1 << (i % 8)
			good := 0
			for at := len(each[0]); at <= i; at += len(each[good]) {
				good++
			}
			attacks = append(attacks, attack{fmt.Sprintf("byte %d", i), changed, good, nil})
		}
		for _, a := range attacks {
			r := recordReader{r: bytes.NewReader(a.bytes), key: recordKeyOf(t, suite, 1, rekeyAfter)}
			var got [][]byte
			var err error
			for err == nil {
				p := make([]byte, 500)
				var n int
				if n, err = r.Read(p); err == nil {
					got = append(got, p[:n])
				} else if !bytes.Equal(p, make([]byte, 500)) {
					t.Errorf("%s: bytes of a record that is not valid are in the caller's memory", a.name)
				}
			}
			if a.err != nil && !errors.Is(err, a.err) || a.err == nil && !errors.Is(err, errRecord) && err != io.ErrUnexpectedEOF {
				t.Errorf("%s, %s: got %v, want %v", tls.CipherSuiteName(suite), a.name, err, a.err)
			}
			if len(got) != a.good || !bytes.Equal(join(got...), join(plain[:a.good]...)) {
				t.Errorf("%s, %s: %d records were read, want the first %d", tls.CipherSuiteName(suite), a.name, len(got), a.good)
			}
			if errors.Is(err, errRecord) {
				r.r = bytes.NewReader(each[len(got)]) // the right one, too late
				if n, again := r.Read(make([]byte, 500)); n != 0 || !errors.Is(again, errRecord) {
					t.Errorf("%s: after the error %d bytes, %v, want the error again", a.name, n, again)
				}
			}
		}
	}
}

// No nonce comes twice with one key, and keys change at both ends after the same record.
func TestKeysChangeBeforeNoncesRepeat(t *testing.T) {
	const limit = 5
	k := recordKeyOf(t, recordSuites[0], 1, limit)
	seen := map[string]int{}
	for i := range 4 * limit {
		nonce, err := k.next()
		if err != nil {
			t.Fatal(err)
		}
		name := string(k.secret) + string(nonce)
		if before, ok := seen[name]; ok {
			t.Fatalf("records %d and %d have one key and one nonce", before, i)
		}
		seen[name] = i
		if want := i%limit + 1; int(k.number) != want {
			t.Errorf("record %d: number %d comes next, want %d", i, k.number, want)
		}
	}
	plain := make([][]byte, 2*limit)
	for i := range plain {
		plain[i] = []byte("the same")
	}
	all, each := sealed(t, recordKeyOf(t, recordSuites[0], 1, limit), plain...)
	if bytes.Equal(each[0], each[limit]) {
		t.Error("the first records of two keys are the same")
	}
	for _, other := range []uint64{limit - 1, limit + 1} {
		r := recordReader{r: bytes.NewReader(all), key: recordKeyOf(t, recordSuites[0], 1, other)}
		got, err := io.ReadAll(&r)
		if want := int(min(limit, other)) * len(plain[0]); len(got) != want || !errors.Is(err, errRecord) {
			t.Errorf("a reader that changes keys after %d records in place of %d read %d bytes, %v, want %d and an error", other, limit, len(got), err, want)
		}
	}
}

// The first records of two keys, computed with crypto/cipher from what is written above their type: a format that changes is another one.
func TestRecordsAreAsDescribed(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, 32)
	expand := func(info string, n int) []byte {
		b, err := hkdf.Expand(sha256.New, secret, info, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	k := recordKeyOf(t, tls.TLS_AES_128_GCM_SHA256, 7, 2)
	for i, text := range []string{"one", "two", "three", "four", "five"} {
		if i > 0 && i%2 == 0 {
			secret = expand("paragon next secret", 32)
		}
		block, err := aes.NewCipher(expand("paragon record key", 16))
		if err != nil {
			t.Fatal(err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		nonce := expand("paragon record iv", 12)
		nonce[11] ^= byte(i % 2)
		header := []byte{byte(len(text)), 0, 0, 0}
		want := aead.Seal(header, nonce, []byte(text), header)
		if _, each := sealed(t, k, []byte(text)); !bytes.Equal(each[0], want) {
			t.Errorf("record %d: got %x, want %x", i, each[0], want)
		}
	}
	// RFC 8446, section 5.5: 2^24.5 records of 2^14 bytes with one key of AES-GCM.
	if most := math.Exp2(24.5) * (1 << 14); rekeyAfter*sealedBytes > most {
		t.Errorf("%d records of %d bytes have one key, want at most %.0f bytes", rekeyAfter, sealedBytes, most)
	}
}

// A peer of the job that seals an empty record gets no further: a reader would have nothing to return, without end.
func TestEmptyRecordsAreRefused(t *testing.T) {
	all, _ := sealed(t, recordKeyOf(t, recordSuites[0], 1, rekeyAfter), []byte("one"), nil, []byte("two"))
	r := recordReader{r: bytes.NewReader(all), key: recordKeyOf(t, recordSuites[0], 1, rekeyAfter)}
	got, err := io.ReadAll(&r)
	if string(got) != "one" || !errors.Is(err, errRecord) {
		t.Errorf("got %q, %v, want what came before, and an error", got, err)
	}
}

// What several goroutines write at once comes whole, in some order.
func TestManyWritersShareARecordConnection(t *testing.T) {
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	key := func(secret byte) *recordKey { return recordKeyOf(t, recordSuites[0], secret, 5) }
	from, to := newSecureConn(x, key(1), key(2)), newSecureConn(y, key(2), key(1))
	const writers, writes, size = 4, 50, 1000
	var wg sync.WaitGroup
	var inside atomic.Int32
	write := from.out.write
	from.out.write = func(b []byte) (int, error) {
		if inside.Add(1) > 1 {
			t.Error("two writers are at work at once")
		}
		defer inside.Add(-1)
		time.Sleep(10 * time.Microsecond) // the others run
		return write(b)
	}
	for i := range writers {
		wg.Go(func() {
			for range writes {
				if _, err := from.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
					t.Error(err)
					x.Close()
					return
				}
			}
		})
	}
	p := make([]byte, size)
	var came [writers]int
	for range writers * writes {
		if _, err := io.ReadFull(to, p); err != nil || !bytes.Equal(p, bytes.Repeat(p[:1], size)) {
			t.Errorf("got error %v, or bytes of several writes", err)
			break
		}
		came[p[0]]++
	}
	y.Close()
	wg.Wait()
	if came != [writers]int{writes, writes, writes, writes} {
		t.Errorf("got %v writes, want %d of each", came, writes)
	}
}

// Both ends have the same keys, other ones for each direction and for each connection.
func TestRecordKeysAreOfTheHandshake(t *testing.T) {
	a, err := identity.NewAuthority("job")
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Issue(identity.Server, "server 0")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 2 {
		x, y := net.Pipe()
		accepted := make(chan *secureConn, 1)
		go func() {
			nc, _, err := secureToClient(y, id.Server())
			if err != nil {
				t.Error(err)
			}
			c, _ := nc.(*secureConn)
			accepted <- c
		}()
		nc, err := secureToServer(x, id.Client())
		if err != nil {
			t.Fatal(err)
		}
		dialled, server := nc.(*secureConn), <-accepted
		if server == nil {
			t.FailNow()
		}
		for _, pair := range [][2]*recordKey{{dialled.out.key, server.in.key}, {server.out.key, dialled.in.key}} {
			if !bytes.Equal(pair[0].secret, pair[1].secret) || pair[0].iv != pair[1].iv || pair[0].limit != rekeyAfter {
				t.Error("the ends of one direction have different keys")
			}
			seen[string(pair[0].secret)] = true
		}
		x.Close()
		y.Close()
	}
	if len(seen) != 4 {
		t.Errorf("two connections have %d keys, want 4 different ones", len(seen))
	}
	if _, err := newRecordKey(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, make([]byte, secretBytes)); err == nil {
		t.Error("a cipher suite of TLS 1.2: no error")
	}
}

// FuzzRecords: whatever comes, nothing is read that was not sealed, and the reader takes no more memory than for a record.
func FuzzRecords(f *testing.F) {
	plain := [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 100)}
	all, each := sealed(f, recordKeyOf(f, recordSuites[0], 1, rekeyAfter), plain...)
	f.Add(all, 1)
	f.Add(each[1], 3)
	f.Add(append(bytes.Clone(each[0]), each[0]...), 1000)
	f.Add([]byte{0, 0, 4, 0, 1, 2, 3}, 5)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		r := recordReader{r: bytes.NewReader(b), key: recordKeyOf(t, recordSuites[0], 1, rekeyAfter)}
		p := make([]byte, 1+uint(size)%5000)
		var got []byte
		for {
			n, err := r.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				break
			}
		}
		if !bytes.HasPrefix(bytes.Join(plain, nil), got) {
			t.Errorf("read %q, which was not sealed", got)
		}
		if most := sealedOverhead + sealedBytes + sealedHeader; len(r.buf) > most {
			t.Errorf("the reader took %d bytes, want at most %d", len(r.buf), most)
		}
	})
}
