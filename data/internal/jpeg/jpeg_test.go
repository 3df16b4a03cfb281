package jpeg_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/jpeg"
)

// picture has slopes and noise.
func picture(width, height int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	r := rand.New(rand.NewPCG(1, 2))
	for y := range height {
		for x := range width {
			m.SetRGBA(x, y, color.RGBA{uint8(x*5 + r.IntN(30)), uint8(y*7 + x), uint8(x*y + r.IntN(9)), 255})
		}
	}
	return m
}

func encode(t testing.TB, m image.Image, quality int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: quality}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func all(h jpeg.Header) jpeg.Part { return jpeg.Part{Width: h.Width, Height: h.Height} }

func decode(d *jpeg.Decoder, b []byte) error {
	h, err := d.ReadHeader(b)
	if err != nil {
		return err
	}
	return d.Decode(all(h))
}

// The standard library decodes to nearly the same planes: its DCT rounds otherwise.
func TestPlanesAreNearThoseOfTheStandardLibrary(t *testing.T) {
	var d jpeg.Decoder
	for _, size := range []image.Point{{1, 1}, {7, 9}, {16, 16}, {61, 33}, {100, 75}} {
		for _, quality := range []int{5, 50, 90, 100} {
			b := encode(t, picture(size.X, size.Y), quality)
			if err := decode(&d, b); err != nil {
				t.Fatal(err)
			}
			m, err := stdjpeg.Decode(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			want := m.(*image.YCbCr)
			for i, plane := range [][]uint8{want.Y, want.Cb, want.Cr} {
				p, stride := d.Planes[i], want.YStride
				if i > 0 {
					stride = want.CStride
				}
				total := 0
				for y := range p.Height {
					for x := range p.Width {
						diff := int(p.Pix[y*p.Stride+x]) - int(plane[y*stride+x])
						if total += max(diff, -diff); diff > 2 || diff < -2 {
							t.Fatalf("%v at quality %d, plane %d at (%d, %d): differs by %d, want 2 at most", size, quality, i, x, y, diff)
						}
					}
				}
				if mean := float64(total) / float64(p.Width*p.Height); mean > 0.1 {
					t.Errorf("%v at quality %d, plane %d: differs by %.3f in the mean, want 0.1 at most", size, quality, i, mean)
				}
			}
		}
	}
}

// An image that is cut short anywhere is an error, but for one whose last byte or two are gone,
// which hold no sample.
func TestEveryCutIsAnError(t *testing.T) {
	b := encode(t, picture(40, 24), 80)
	var d jpeg.Decoder
	for n := range len(b) - 4 {
		if err := decode(&d, b[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: got error %v, want that it is cut short", n, len(b), err)
		}
	}
	if err := decode(&d, b[:len(b)-2]); err != nil {
		t.Errorf("without its end: got error %v, want none as with libjpeg", err)
	}
	if err := decode(&d, append(bytes.Clone(b), "more"...)); err != nil {
		t.Errorf("with more after its end: got error %v", err)
	}
}

// A part that does not reach down to the cut would hide it.
func TestPartsSeeThatTheImageIsCutShort(t *testing.T) {
	b := encode(t, picture(80, 240), 80)
	var d jpeg.Decoder
	if _, err := d.ReadHeader(b[:len(b)*3/4]); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(jpeg.Part{Width: 3, Height: 3}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got error %v, want that the image is cut short", err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	whole := encode(t, picture(40, 24), 80)
	frame := bytes.Index(whole, []byte{0xff, 0xc0})
	scan := bytes.Index(whole, []byte{0xff, 0xda})
	tables := bytes.Index(whole, []byte{0xff, 0xc4})
	for want, change := range map[string]func(b []byte){
		"ff d8":                           func(b []byte) { b[0] = 'x' },
		"12 bits a sample":                func(b []byte) { b[frame+4] = 12 },
		"lossless":                        func(b []byte) { b[frame+1] = 0xc3 },
		"hierarchical":                    func(b []byte) { b[frame+1] = 0xc5 },
		"arithmetic":                      func(b []byte) { b[frame+1] = 0xc9 },
		"width of 0":                      func(b []byte) { b[frame+7], b[frame+8] = 0, 0 },
		"lines after the scan":            func(b []byte) { b[frame+5], b[frame+6] = 0, 0 },
		"2 components":                    func(b []byte) { b[frame+9], b[frame+3] = 2, 14 },
		"two components have":             func(b []byte) { b[frame+13] = 1 },
		"3×2 of":                          func(b []byte) { b[frame+11] = 0x32; b[frame+14] = 0x42 },
		"want 1 to 4":                     func(b []byte) { b[frame+11] = 0x50 },
		"are those of no Huffman":         func(b []byte) { b[tables+5] = 3 },
		"component 9, which the frame":    func(b []byte) { b[scan+5] = 9 },
		"has component 1 twice":           func(b []byte) { b[scan+7] = 1 },
		"Huffman tables 3 and 0":          func(b []byte) { b[scan+6] = 0x30 },
		"no frame (SOF) before marker da": func(b []byte) { b[frame+1] = 0xe9 },
	} {
		b := bytes.Clone(whole)
		change(b)
		var d jpeg.Decoder
		if err := decode(&d, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// A decoder that has failed decodes the next image as a new one does.
func TestFailuresLeaveNoTrace(t *testing.T) {
	b := encode(t, picture(48, 40), 85)
	var fresh, used jpeg.Decoder
	if err := decode(&fresh, b); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		bad := bytes.Clone(b)
		for range 3 {
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		}

		// The image is damaged in some way, or not at all.
		_ = decode(&used, bad)
		if err := decode(&used, b); err != nil {
			t.Fatal(err)
		}
		for i, p := range fresh.Planes {
			for y := range p.Height {
				if !bytes.Equal(p.Pix[y*p.Stride:][:p.Width], used.Planes[i].Pix[y*p.Stride:][:p.Width]) {
					t.Fatalf("plane %d, row %d: differs from that of a new decoder", i, y)
				}
			}
		}
	}
}

// A component without a scan would have the samples of the image before.
func TestEveryComponentNeedsAScan(t *testing.T) {
	b := encode(t, picture(40, 24), 80)
	scan := bytes.Index(b, []byte{0xff, 0xda})
	// The head of the scan names luminance alone.
	alone := append(bytes.Clone(b[:scan]), 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0)
	alone = append(append(alone, b[scan+14:len(b)-2]...), bytes.Repeat([]byte{0x55}, 200)...)
	var d jpeg.Decoder
	if err := decode(&d, append(alone, 0xff, 0xd9)); err == nil || !strings.Contains(err.Error(), "component 1 has no scan") {
		t.Errorf("got error %v, want one of a component without a scan", err)
	}
}

// A few bytes that promise a large image take no memory for it.
func TestPromisesTakeNoMemory(t *testing.T) {
	b := encode(t, picture(16, 16), 80)
	frame := bytes.Index(b, []byte{0xff, 0xc0})
	b[frame+5], b[frame+6], b[frame+7], b[frame+8] = 0x80, 0, 0x80, 0
	var d jpeg.Decoder
	if err := decode(&d, b); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got error %v, want that the image is cut short", err)
	}
	for i, p := range d.Planes {
		if cap(p.Pix) > 0 {
			t.Errorf("plane %d: got %d bytes, want none", i, cap(p.Pix))
		}
	}
}

// Whatever the bytes are, Decode returns.
func FuzzDecode(f *testing.F) {
	for _, quality := range []int{10, 95} {
		f.Add(encode(f, picture(33, 17), quality))
	}
	grey := image.NewGray(image.Rect(0, 0, 9, 20))
	f.Add(encode(f, grey, 50))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d jpeg.Decoder
		h, err := d.ReadHeader(b)
		if err != nil || h.Width*h.Height > 1<<16 {
			return
		}
		if err := d.Decode(all(h)); err == nil {
			for i, p := range d.Planes {
				if len(p.Pix) < p.Stride*p.Height || p.Stride < p.Width {
					t.Fatalf("plane %d of %+v: got %d bytes in rows of %d for %d×%d", i, h, len(p.Pix), p.Stride, p.Width, p.Height)
				}
			}
		}
	})
}
