package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

func encode(t testing.TB, metadata map[string]string, tensors ...Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), int64(len(b)), "test.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// raw returns a file with the given header text and data.
func raw(header, data string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...)
}

// The bytes that the format's description promises, written down by hand.
func TestAFileHasTheBytesOfTheFormat(t *testing.T) {
	got := encode(t, map[string]string{"b": "2", "a": "1"},
		Uint8s("u", []int{3}, []uint8{7, 8, 9}),
		Float32s("w", []int{1, 2}, []float32{1, -2}),
		Int64s("n", nil, []int64{-1}))
	want := raw(`{"__metadata__":{"a":"1","b":"2","paragon.crc32c":"d061f027 48674bc7 aa36f2c9 f132df67"},`+
		`"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},`+
		`"w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"u":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}}`+"     ",
		"\xff\xff\xff\xff\xff\xff\xff\xff"+"\x00\x00\x80\x3f\x00\x00\x00\xc0"+"\x07\x08\x09")
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	large := make([]float32, 100_003) // several buffers
	for i := range large {
		large[i] = r.Float32()
	}
	f64, i64, u8 := []float64{math.Pi, math.Inf(-1), 0}, []int64{math.MinInt64, 5, math.MaxInt64}, []uint8{0, 255}
	path := filepath.Join(t.TempDir(), "a.safetensors")
	metadata := map[string]string{"step": "17", "note": "Größe <&>\n"}
	err := Save(path, metadata, []Tensor{
		Uint8s("bytes", []int{2}, u8), Float32s("large", []int{100_003}, large), Float64s("f64", []int{3, 1}, f64),
		Int64s("i64", []int{3}, i64), Float32s("none", []int{0, 7}, nil), Float32s("number", []int{}, []float32{4}),
		Stream("stream", I16, []int{2}, func(w io.Writer) error {
			for _, b := range []byte{1, 0, 2, 0} {
				if _, err := w.Write([]byte{b}); err != nil {
					return err
				}
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !reflect.DeepEqual(f.Metadata(), metadata) {
		t.Errorf("metadata: got %q, want %q", f.Metadata(), metadata)
	}
	gotLarge, gotF64, gotI64, gotU8 := make([]float32, len(large)), make([]float64, 3), make([]int64, 3), make([]uint8, 2)
	number, stream := make([]float32, 1), make([]byte, 4)
	for name, err := range map[string]error{
		"large": f.ReadFloat32s("large", gotLarge), "f64": f.ReadFloat64s("f64", gotF64), "i64": f.ReadInt64s("i64", gotI64),
		"bytes": f.ReadUint8s("bytes", gotU8), "none": f.ReadFloat32s("none", nil), "number": f.ReadFloat32s("number", number),
		"stream": f.ReadBytes("stream", stream),
	} {
		if err != nil {
			t.Errorf("read %s: %v", name, err)
		}
	}
	if !slices.Equal(gotLarge, large) || !slices.Equal(gotF64, f64) || !slices.Equal(gotI64, i64) || !bytes.Equal(gotU8, u8) ||
		number[0] != 4 || !bytes.Equal(stream, []byte{1, 0, 2, 0}) {
		t.Errorf("got other values than were written: %v %v %v %v %v", gotF64, gotI64, gotU8, number, stream)
	}
	for _, info := range f.Tensors() {
		if width := int64(info.DType.Size()); info.offset%width != 0 {
			t.Errorf("tensor %s: lies at byte %d, want a multiple of %d", info.Name, info.offset, width)
		}
	}
	if info, err := f.Tensor("f64"); err != nil || !slices.Equal(info.Shape, []int{3, 1}) || info.DType != F64 || info.Bytes != 24 {
		t.Errorf("f64: got %+v (%v)", info, err)
	}
	s, err := f.Section("bytes")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); err != nil || !bytes.Equal(b, u8) {
		t.Errorf("section: got %v (%v), want %v", b, err, u8)
	}
}

func TestHalvesRoundToNearestEven(t *testing.T) {
	for h := range 1 << 16 { // every half is itself
		if x := f32.Float16Value(uint16(h)); x == x {
			if got := f32.Float16Bits(x); got != uint16(h) {
				t.Fatalf("F16 %#04x = %v: got %#04x back", h, x, got)
			}
		}
		if x := f32.BFloat16Value(uint16(h)); x == x {
			if got := f32.BFloat16Bits(x); got != uint16(h) {
				t.Fatalf("BF16 %#04x = %v: got %#04x back", h, x, got)
			}
		}
	}
	for h := range 0x7bff { // what lies between two neighbours goes to the nearer, ties to the even one
		a, b := float64(f32.Float16Value(uint16(h))), float64(f32.Float16Value(uint16(h+1)))
		even := uint16(h + h&1)
		for _, c := range []struct {
			x    float64
			want uint16
		}{{a + (b-a)*0.49, uint16(h)}, {(a + b) / 2, even}, {a + (b-a)*0.51, uint16(h + 1)}} {
			if got := f32.Float16Bits(float32(c.x)); got != c.want {
				t.Fatalf("F16 of %v: got %#04x, want %#04x", c.x, got, c.want)
			}
			if got := f32.Float16Bits(float32(-c.x)); got != c.want|0x8000 {
				t.Fatalf("F16 of %v: got %#04x, want %#04x", -c.x, got, c.want|0x8000)
			}
		}
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		x         float32
		half, b16 uint16
	}{{65519, 0x7bff, 0x4780}, {65520, 0x7c00, 0x4780}, {float32(math.Inf(-1)), 0xfc00, 0xff80}, {math.MaxFloat32, 0x7c00, 0x7f80},
		{1.00390625, 0x3c04, 0x3f80}, {1.01171875, 0x3c0c, 0x3f82}} {
		if got := f32.Float16Bits(c.x); got != c.half {
			t.Errorf("F16 of %v: got %#04x, want %#04x", c.x, got, c.half)
		}
		if got := f32.BFloat16Bits(c.x); got != c.b16 {
			t.Errorf("BF16 of %v: got %#04x, want %#04x", c.x, got, c.b16)
		}
	}
	if h, b := f32.Float16Value(f32.Float16Bits(nan)), f32.BFloat16Value(f32.BFloat16Bits(nan)); h == h || b == b {
		t.Errorf("NaN: got %v and %v", h, b)
	}
	f := decode(t, encode(t, nil, Float32sAs("h", F16, []int{2}, []float32{0.1, 3}), Float32sAs("b", BF16, []int{2}, []float32{0.1, 3}),
		Float64s("d", []int{1}, []float64{0.5})))
	for name, want := range map[string]string{"h": "[0.099975586 3]", "b": "[0.100097656 3]", "d": "[0.5]"} {
		info, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, info.Shape[0])
		if err := f.ReadFloat32s(name, dst); err != nil || fmt.Sprint(dst) != want {
			t.Errorf("%s: got %v (%v), want %s", name, dst, err, want)
		}
	}
}

func TestWritingWhatDoesNotFitIsAnErrorThatNamesTheTensor(t *testing.T) {
	three := func(w io.Writer) error { _, err := w.Write([]byte{1, 2, 3}); return err }
	own := errors.New("source is gone")
	for _, c := range []struct {
		tensors []Tensor
		want    string
	}{
		{[]Tensor{Float32s("w", []int{2, 2}, make([]float32, 3))}, `tensor "w": got 3 values for shape [2 2], want 4`},
		{[]Tensor{Float32s("w", []int{-1}, nil)}, "no dimension below 0"},
		{[]Tensor{Stream("w", F32, []int{1 << 30, 1 << 30, 1 << 30}, three)}, "fewer than 2⁶³"},
		{[]Tensor{Stream("w", F32, []int{1 << 30, 1 << 30}, three), Stream("v", F32, []int{1 << 30, 1 << 30}, three)}, "fewer than 2⁶³ in all"},
		{[]Tensor{Float32sAs("w", I64, []int{1}, []float32{1})}, "want F32, F16 or BF16"},
		{[]Tensor{Stream("w", "F8", nil, three)}, `got type "F8"`},
		{[]Tensor{Float32s("", nil, []float32{1})}, "an empty name"},
		{[]Tensor{Float32s(metadataName, nil, []float32{1})}, "which the format reserves"},
		{[]Tensor{Float32s("\xff", nil, []float32{1})}, "not UTF-8"},
		{[]Tensor{Float32s("w", nil, []float32{1}), Int64s("w", nil, []int64{1})}, "the name is used twice"},
		{[]Tensor{Stream("w", U8, []int{2}, three)}, "got 1 bytes more than its shape has"},
		{[]Tensor{Stream("w", U8, []int{4}, three)}, `tensor "w": got 3 bytes, want 4`},
		{[]Tensor{Stream("w", U8, []int{4}, func(io.Writer) error { return own })}, `tensor "w": after 0 of 4 bytes: source is gone`},
	} {
		err := Write(io.Discard, nil, c.tensors)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
	if err := Write(io.Discard, map[string]string{"k": "\xff"}, nil); err == nil {
		t.Error("metadata that is not UTF-8: got no error")
	}
}

func TestADamagedFileIsAnErrorThatSaysWhere(t *testing.T) {
	const w = `"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "got 0 bytes, want at least 8"},
		{"length", raw("{}", "")[:9], "got a length of 2 bytes in a file of 9, want at most 1"},
		{"huge", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "got a length of 18446744073709551615"},
		{"no object", raw("[] ", ""), "want a JSON object"},
		{"cut object", raw("{"+w, "12345678"), "header: byte"},
		{"more", raw("{}x", ""), "after the object"},
		{"twice", raw("{"+w+","+w+"}", "12345678"), "each key once"},
		{"unknown field", raw(`{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":1}}`, "1"), "unknown field"},
		{"no type", raw(`{"w":{"shape":[],"data_offsets":[0,1]}}`, "1"), `type "", want 2, a shape and a type`},
		{"type", raw(`{"w":{"dtype":null,"shape":[],"data_offsets":[0,1]}}`, "1"), `tensor "w": dtype: got <nil>, want a string`},
		{"other case", raw(`{"w":{"DType":"U8","shape":[],"data_offsets":[0,1]}}`, "1"), `unknown field "DType"`},
		{"type twice", raw(`{"w":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}}`, "1"), `key "dtype", want a string, each key once`},
		{"shape twice", raw(`{"w":{"dtype":"U8","shape":[1],"shape":[],"data_offsets":[0,1]}}`, "1"), `key "shape", want a string, each key once`},
		{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, ""), "each key once"},
		{"key of metadata twice", raw(`{"__metadata__":{"a":"1","a":"2"}}`, ""), "each key once"},
		{"not UTF-8", raw("{\"w\xff\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", "1"), "not UTF-8"},
		{"half a character", raw(`{"w\ud800":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "1"), "half a pair of surrogates"},
		{"half a character and another", raw(`{"w\ud800\u0041":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "1"), "half a pair of surrogates"},
		{"no name", raw(`{"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "1"), "empty name"},
		{"fraction", raw(`{"w":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, "1"), "want an integer"},
		{"no number", raw(`{"w":{"dtype":"U8","shape":[null],"data_offsets":[0,0]}}`, ""), "want an integer"},
		{"half a byte", raw(`{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, "12"), "want whole bytes"},
		{"no offsets", raw(`{"w":{"dtype":"U8","shape":[]}}`, "1"), "got 0 data_offsets"},
		{"three offsets", raw(`{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1,2]}}`, "1"), "got 3 data_offsets"},
		{"no shape", raw(`{"w":{"dtype":"U8","data_offsets":[0,1]}}`, "1"), "a shape and a type"},
		{"negative", raw(`{"w":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, "1"), "no dimension below 0"},
		{"overflow", raw(`{"w":{"dtype":"U8","shape":[2147483647,2147483647,4],"data_offsets":[0,1]}}`, "1"), "fewer than 2⁶³"},
		{"size", raw(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"), "got data from 0 to 4, want 8 bytes for shape [2] of F32"},
		{"backwards", raw(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, "12345678"), "got data from 8 to 0"},
		{"hole", raw(`{"w":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}`, "12"), `tensor "w": data begins at 1, want 0`},
		{"overlap", raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "123"),
			`tensor "b": data begins at 1, want 2`},
		{"short", raw("{"+w+"}", "1234567"), "bytes, want 70: header 62, data 8"},
		{"long", raw("{"+w+"}", "123456789"), "bytes, want 70"},
		{"no metadata", raw(`{"__metadata__":null}`, ""), "__metadata__"},
		{"metadata", raw(`{"__metadata__":{"a":1}}`, ""), "__metadata__"},
	} {
		_, err := NewFile(bytes.NewReader(c.b), int64(len(c.b)), "x.safetensors")
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.safetensors") {
			t.Errorf("%s: got error %v, want %v with %q", c.name, err, ErrDamaged, c.want)
		}
	}
}

// A file's header may have texts of any length: an error shows how they begin.
func TestErrorsShowTheBeginningOfALongText(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, header := range []string{
		`{"` + long + `":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`,
		`{"` + long + `":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}`,
		`{"w":{"` + long + `":"U8","shape":[],"data_offsets":[0,1]}}`,
		`{"w":{"dtype":"U8","shape":["` + long + `"],"data_offsets":[0,1]}}`,
		`{"w":{"dtype":"U8","shape":"` + long + `","data_offsets":[0,1]}}`,
		`{"w":"` + long + `"}`,
		`{"w":{"dtype":"U8","shape":[` + strings.Repeat("1", 1<<20) + `],"data_offsets":[0,1]}}`,
		`{"__metadata__":{"` + long + `":1}}`,
		`{"__metadata__":"` + long + `"}`,
		`"` + long + `"`,
		`{"` + long + `":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"` + long + `":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`,
		`{"` + long + "\xff" + `":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`,
	} {
		b := raw(header, "1")
		_, err := NewFile(bytes.NewReader(b), int64(len(b)), "x.safetensors")
		if !errors.Is(err, ErrDamaged) || len(err.Error()) > 1000 {
			t.Errorf("header %.60s: got error %.200v, want %v in a line", header, err, ErrDamaged)
		}
	}
}

func TestReadingWhatIsNotThereIsAnError(t *testing.T) {
	f := decode(t, encode(t, nil, Float32s("w", []int{2}, []float32{1, 2}), Int64s("n", nil, []int64{1})))
	if err := f.ReadFloat32s("v", nil); !errors.Is(err, ErrNoTensor) || !strings.Contains(err.Error(), `test.safetensors: tensor "v"`) {
		t.Errorf("tensor v: got %v, want %v", err, ErrNoTensor)
	}
	for want, err := range map[string]error{
		`tensor "w": got room for 3 values, want 2`:   f.ReadFloat32s("w", make([]float32, 3)),
		`tensor "n": got type I64, want one of [F32`:  f.ReadFloat32s("n", make([]float32, 1)),
		`tensor "w": got type F32, want one of [I64]`: f.ReadInt64s("w", make([]int64, 2)),
		`tensor "w": got room for 2 bytes, want 8`:    f.ReadBytes("w", make([]byte, 2)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	// A file that shrank after it was opened.
	b := encode(t, nil, Float32s("w", []int{2}, []float32{1, 2}))
	short, err := NewFile(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)-3)), int64(len(b)), "x.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if err := short.ReadFloat32s("w", make([]float32, 2)); err == nil || !strings.Contains(err.Error(), `tensor "w": read byte 5 of 8`) {
		t.Errorf("file that shrank: got error %v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(encode(f, map[string]string{"a": "b"}, Float32s("w", []int{2}, []float32{1, 2}), Uint8s("u", []int{1}, []uint8{1}), Float32s("none", []int{0}, nil)))
	f.Add(raw(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"v":{"dtype":"BOOL","shape":[],"data_offsets":[2,3]}}`, "123"))
	f.Add(raw(`{"__metadata__":{}}  `, ""))
	f.Add(raw(`{"f":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"x":{"dtype":"F9","shape":[7],"data_offsets":[1,3]}}`, "123"))
	f.Add(raw(`{"\ud83d\ude00":{"dtype":"C64","shape":[0,3],"data_offsets":[0,0]}}`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := NewFile(bytes.NewReader(b), int64(len(b)), "fuzz")
		if err != nil {
			return
		}
		total := int64(0)
		var tensors []Tensor
		for _, info := range file.Tensors() {
			data := make([]byte, info.Bytes)
			if err := file.ReadBytes(info.Name, data); err != nil {
				t.Fatal(err)
			}
			total += info.Bytes
			if info.DType.Bits() > 0 {
				tensors = append(tensors, Stream(info.Name, info.DType, info.Shape, func(w io.Writer) error { _, err := w.Write(data); return err }))
			}
		}
		if total > int64(len(b)) {
			t.Errorf("got %d bytes of tensors from a file of %d", total, len(b))
		}
		once := encode(t, file.Metadata(), tensors...)
		again := decode(t, once)
		var rewritten []Tensor
		for _, info := range again.Tensors() {
			rewritten = append(rewritten, Stream(info.Name, info.DType, info.Shape, func(w io.Writer) error {
				s, err := again.Section(info.Name)
				if err == nil {
					_, err = io.Copy(w, s)
				}
				return err
			}))
		}
		if twice := encode(t, again.Metadata(), rewritten...); !bytes.Equal(once, twice) {
			t.Errorf("written twice: got\n%q, want\n%q", twice, once)
		}
	})
}
