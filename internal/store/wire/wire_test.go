package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden frames; changing one is changing the format")

// allKinds lists the kinds that New knows.
func allKinds() (ks []Kind) {
	for k := range 256 {
		if New(Kind(k)) != nil {
			ks = append(ks, Kind(k))
		}
	}
	return ks
}

// fill sets every field of a message through next, which gives a number for each.
func fill(v reflect.Value, next func() uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), int(next()%4), 4))
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text%d", next()%1000))
	case reflect.Bool:
		v.SetBool(next()%2 == 1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(int32(next())) / 16)
	case reflect.Int32:
		v.SetInt(int64(int32(next())))
	case reflect.Int64:
		v.SetInt(int64(next()))
	default:
		v.SetUint(next() >> (64 - v.Type().Bits()))
	}
}

func TestEveryKindComesBackAsItWas(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, k := range allKinds() {
		for range 50 {
			m := New(k)
			if m.Kind() != k {
				t.Fatalf("New(%v) has kind %v", k, m.Kind())
			}
			fill(reflect.ValueOf(m).Elem(), rng.Uint64)
			head := AppendHead([]byte("x"), m)[1:]
			got := New(k)
			if err := DecodeHead(got, head); err != nil {
				t.Fatalf("%v: decode %x: %v", k, head, err)
			}
			used := bytes.Repeat([]byte{0xa5}, 1<<12) // memory in which something else was
			if again := AppendHead(used[:0], got); !bytes.Equal(again, head) {
				t.Fatalf("%v: encoded again\n got %x\nwant %x", k, again, head)
			}
			// An empty list and none are the same on the wire.
			if d := cmp.Diff(m, got, cmp.FilterValues(func(a, b any) bool {
				va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
				return va.Kind() == reflect.Slice && vb.Kind() == reflect.Slice && va.Len() == 0 && vb.Len() == 0
			}, cmp.Ignore())); d != "" {
				t.Fatalf("%v: %s", k, d)
			}
		}
	}
}

func TestEveryMessageAndCodeHasAName(t *testing.T) {
	if got := len(allKinds()); got != 53 {
		t.Errorf("%d kinds can be made, want 53", got)
	}
	for _, k := range allKinds() {
		if strings.HasPrefix(k.String(), "kind ") {
			t.Errorf("kind %d has no name", k)
		}
	}
	for c := CodeMalformed; c <= CodePushAlone; c++ {
		if strings.HasPrefix(c.String(), "code ") {
			t.Errorf("code %d has no name", c)
		}
	}
	if got := Kind(200).String() + ", " + Code(999).String(); got != "kind 200, code 999" {
		t.Errorf("unknown kind and code: %s", got)
	}
	if New(0) != nil || New(255) != nil {
		t.Error("New makes messages of unknown kinds")
	}
}

// What peers of other versions send as forms, rules and so on is never given another meaning.
func TestNumbersInFieldsStay(t *testing.T) {
	for i, numbers := range [][]uint8{{FormDense, FormRows, FormOpen}, {RuleOptimizer, RuleAverage}} {
		for k, n := range numbers {
			if int(n) != k+1 {
				t.Errorf("list %d: number %d is %d, want %d", i, k, n, k+1)
			}
		}
	}
}

func TestACutOrPaddedHeadIsAnError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range allKinds() {
		m := New(k)
		fill(reflect.ValueOf(m).Elem(), rng.Uint64)
		head := AppendHead(nil, m)
		for n := range head {
			if err := DecodeHead(New(k), head[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v: %d of %d bytes: got %v, want ErrMalformed", k, n, len(head), err)
			}
		}
		if err := DecodeHead(New(k), append(head, 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%v: one byte too many: got %v, want ErrMalformed", k, err)
		}
	}
}

func TestDecodeRefusesWhatEncodingNeverMakes(t *testing.T) {
	le := func(n uint32) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }
	zeros := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		name string
		kind Kind
		head []byte
		want string
	}{
		{"bool 2", KindLeave, append(append(zeros(8), 2), le(0)...), "wire: leave head: malformed: byte 8: a bool is 0 or 1, got 2"},
		{"long adaptation", KindHeartbeat, append(zeros(32), le(MaxAdaptation+1)...), "a string of 4097 bytes, want at most 4096"},
		{"long record", KindHeartbeat, append(append(zeros(44), le(MaxRecord+1)...), zeros(MaxRecord+1)...), "byte 44: a list of 2049 items, want at most 2048"},
		{"long trace chunk", KindTraceChunk, append(append(zeros(45), le(MaxTraceChunk+1)...), zeros(MaxTraceChunk+1)...), "byte 45: a list of 262145 items, want at most 262144"},
		{"long profile part", KindProfilePart, append(append(zeros(49), le(MaxTraceChunk+1)...), zeros(MaxTraceChunk+1)...), "byte 49: a list of 262145 items, want at most 262144"},
		{"record beyond the end", KindLeave, append(append(zeros(9), le(0)...), le(5)...), "a list of 5 items in 0 bytes, want at least 1 each"},
		{"long string", KindSignal, append(zeros(8), le(MaxString+1)...), "a string of 65537 bytes, want at most 65536"},
		{"string beyond the end", KindSignal, append(zeros(8), le(7)...), "wire: signal head: malformed: got 12 bytes, want at least 19"},
		{"not UTF-8", KindSignal, append(append(zeros(8), le(1)...), 0xff), "byte 12: a string that is not UTF-8"},
		{"long list", KindMembership, append(zeros(29), le(MaxList+1)...), "a list of 65537 items, want at most 65536"},
		{"list beyond the end", KindMembership, append(zeros(29), le(MaxList)...), "a list of 65536 items in 0 bytes, want at least 4 each"},
		{"cuts beyond the end", KindMembership, append(zeros(77), le(2)...), "a list of 2 items in 0 bytes, want at least 8 each"},
		{"many contributors", KindPush, append(zeros(120), le(MaxContributors+1)...), "byte 120: a list of 1025 items, want at most 1024"},
		{"contributors beyond the end", KindPush, append(append(zeros(120), le(2)...), zeros(97)...), "a list of 2 items in 97 bytes, want at least 57 each"},
		{"short", KindPush, zeros(31), "wire: push head: malformed: got 31 bytes, want at least 120"},
		{"left over", KindAck, zeros(17), "wire: ack head: malformed: got 17 bytes, want 16"},
	} {
		err := DecodeHead(New(c.kind), c.head)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A decoder must not take memory for a list before it is known to be there.
func TestAShortHeadCannotMakeADecoderTakeMuchMemory(t *testing.T) {
	head := append(make([]byte, 29), 0xff, 0xff, 0, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_ = DecodeHead(new(Membership), head)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 8192 {
		t.Errorf("decoding %d bytes took %d bytes of memory", len(head), got)
	}
}

func TestFloatsKeepTheirBits(t *testing.T) {
	for _, bits := range []uint32{0x7fc00001, 0xff800000, 0x80000000, 1} {
		head := AppendHead(nil, &Push{Weight: math.Float32frombits(bits)})
		var p Push
		if err := DecodeHead(&p, head); err != nil {
			t.Fatal(err)
		}
		if got := math.Float32bits(p.Weight); got != bits {
			t.Errorf("weight %08x came back as %08x", bits, got)
		}
	}
}

func TestHeaderIsCheckedBeforeItIsBelieved(t *testing.T) {
	h := Header{Kind: KindPush, Head: 90, Payload: 1 << 20, ID: 0xdeadbeef}
	var b [HeaderSize]byte
	h.Put(b[:])
	got, err := ParseHeader(b[:])
	if err != nil || got != h {
		t.Fatalf("got %+v, %v, want %+v", got, err, h)
	}
	for _, c := range []struct {
		name string
		edit func([]byte)
		want string
	}{
		{"version", func(b []byte) { b[0] = 1 }, "version 1, want 3"},
		{"zeros", func(b []byte) { b[3] = 9 }, "bytes 2 and 3 are 0 and 9, want 0"},
		{"head", func(b []byte) { b[6] = 0x11 }, "a head of 1114202 and a payload of 1048576 bytes, want at most 1048576 and 67108864"},
		{"payload", func(b []byte) { b[11] = 0xff }, "bytes, want at most 1048576 and 67108864"},
	} {
		bad := b
		c.edit(bad[:])
		if _, err := ParseHeader(bad[:]); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ParseHeader(b[:15]); !errors.Is(err, ErrMalformed) {
		t.Errorf("15 bytes: got %v", err)
	}
	for _, h := range []Header{{Head: MaxHead + 1}, {Payload: MaxPayload + 1}, {Head: -1}} {
		if h.Check() == nil {
			t.Errorf("%+v: no error", h)
		}
	}
}

// frame returns the kind's golden frame: every field set, from 1 on.
func frame(k Kind) []byte {
	m := New(k)
	var n uint64
	fill(reflect.ValueOf(m).Elem(), func() uint64 { n++; return n * 0x0101010101010101 })
	head := AppendHead(nil, m)
	b := make([]byte, HeaderSize)
	Header{Kind: k, Head: len(head), ID: 7}.Put(b)
	return append(b, head...)
}

func TestGoldenFrames(t *testing.T) {
	for _, k := range allKinds() {
		path := filepath.Join("testdata", strings.ReplaceAll(k.String(), " ", "_")+".hex")
		got := hex.Dump(frame(k))
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%v: the frame changed, and with it the format\n got\n%swant\n%s", k, got, want)
		}
	}
}

// FuzzDecode holds for every kind: what decodes encodes to the same bytes; anything else is an
// error.
func FuzzDecode(f *testing.F) {
	for _, k := range allKinds() {
		f.Add(byte(k), frame(k)[HeaderSize:])
		f.Add(byte(k), AppendHead(nil, New(k)))
	}
	f.Fuzz(func(t *testing.T, kind byte, head []byte) {
		m := New(Kind(kind))
		if m == nil {
			return
		}
		if err := DecodeHead(m, head); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v: %v is not ErrMalformed", m.Kind(), err)
			}
			return
		}
		if again := AppendHead(nil, m); !bytes.Equal(again, head) {
			t.Fatalf("%v: encoded again\n got %x\nwant %x", m.Kind(), again, head)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(frame(KindPush)[:HeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		if err := h.Check(); err != nil {
			t.Fatalf("%+v was parsed: %v", h, err)
		}
		var again [HeaderSize]byte
		h.Put(again[:])
		if !bytes.Equal(again[:], b[:HeaderSize]) {
			t.Fatalf("got %x, want %x", again, b[:HeaderSize])
		}
	})
}
