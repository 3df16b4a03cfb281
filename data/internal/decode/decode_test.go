package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/transform"
)

// raceEnabled says that the race detector runs.
var raceEnabled bool

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// corners is an image of 3×2 pixels: every corner has a colour of its own.
func corners() *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	m.SetNRGBA(0, 0, color.NRGBA{255, 0, 0, 255})
	m.SetNRGBA(2, 0, color.NRGBA{0, 255, 0, 10})
	m.SetNRGBA(0, 1, color.NRGBA{0, 0, 255, 0})
	return m
}

// The memory of the image before is used again, and the image before leaves no trace.
func TestImagesAreDecodedIntoTheSameMemory(t *testing.T) {
	dst := &transform.Image{Pix: make([]uint8, 0, 100)}
	room := &dst.Pix[:1][0]
	got, err := decode.Image(dst, encodePNG(t, corners()), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := []uint8{255, 0, 0, 255, 255, 255, 0, 255, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255}
	if got != dst || &got.Pix[0] != room || !bytes.Equal(got.Pix, want) || got.Width != 3 || got.Height != 2 {
		t.Errorf("got %+v in other memory: %v; want %v", got, &got.Pix[0] != room, want)
	}
}

func TestGreyIsWhatPillowMakesOfColors(t *testing.T) {
	got, err := decode.Image(nil, encodePNG(t, corners()), decode.Config{Channels: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint8{76, 255, 150, 29, 255, 255}; got.Channels != 1 || !bytes.Equal(got.Pix, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
}

func TestSamplesOf16BitsKeepTheirUpperEight(t *testing.T) {
	m := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
	m.SetNRGBA64(0, 0, color.NRGBA64{0x12ff, 0xfeff, 0x80, 0x1000})
	got, err := decode.Image(nil, encodePNG(t, m), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint8{0x12, 0xfe, 0}; !bytes.Equal(got.Pix, want) {
		t.Errorf("got %v, want %v", got.Pix, want)
	}
	got, err = decode.Image(nil, append([]byte("P5 # made\n2 1 1000\n"), 0, 0, 3, 232), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint8{0, 0, 0, 255, 255, 255}; !bytes.Equal(got.Pix, want) {
		t.Errorf("PGM of samples up to 1000: got %v, want %v", got.Pix, want)
	}
}

// An image that is too large is refused by its head: what follows is not read, and no memory is
// taken.
func TestTooManyPixelsAreRefusedBeforeDecoding(t *testing.T) {
	head := encodePNG(t, image.NewGray(image.Rect(0, 0, 3000, 2000)))[:40]
	for _, b := range [][]byte{head, []byte("P6 3000 2000 255\n")} {
		_, err := decode.Image(nil, b, decode.Config{MaxPixels: 5_999_999})
		if !errors.Is(err, decode.ErrTooLarge) || !strings.Contains(err.Error(), "got 3000×2000, want at most 5999999") {
			t.Errorf("got error %v, want ErrTooLarge with both numbers", err)
		}
	}
	_, err := decode.Image(nil, []byte("P6 16000000 16000000 255\n"), decode.Config{})
	if !errors.Is(err, decode.ErrTooLarge) {
		t.Errorf("got error %v, want ErrTooLarge", err)
	}
}

// Every image that is cut short is an error that says so with its length.
func TestImagesThatAreCutShortAreErrors(t *testing.T) {
	folder := goImages(t)
	for _, g := range goldens(t) {
		b := g.bytes(t, folder)
		for _, n := range []int{len(b) / 8, len(b) / 2, len(b) * 9 / 10} {
			img, err := decode.Image(nil, b[:n], decode.Config{})
			if err == nil || img != nil {
				t.Errorf("%s cut to %d of %d bytes: got no error", g.Name, n, len(b))
				continue
			}
			if want := fmt.Sprintf("of %d bytes is cut short", n); n > 8 && (!errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s cut to %d of %d bytes: got error %v, want one with %q", g.Name, n, len(b), err, want)
			}
		}
	}
}

func TestBytesThatAreNoImageAreNamed(t *testing.T) {
	for want, b := range map[string][]byte{
		"got no bytes":                      nil,
		"begin with 68 65 6c 6c 6f":         []byte("hello"),
		"webp of 14 bytes":                  []byte("RIFF\x00\x00\x00\x00WEBPVP"),
		"largest sample: got more than":     []byte("P5 1 1 99999\nx"),
		"width at byte 3: got no number":    []byte("P5 x 1 255\nx"),
		"pgm of 12 bytes is cut short":      []byte("P5 3 1 255\nx"),
		"sample 1 is above the largest one": []byte("P5 2 1 7\n\x07\x08"),
	} {
		_, err := decode.Image(nil, b, decode.Config{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "decode: ") {
			t.Errorf("%q: got error %v, want one with %q", b, err, want)
		}
	}
	if _, err := decode.Image(nil, []byte("P5 1 1 255\nx"), decode.Config{Channels: 2}); err == nil {
		t.Error("two channels: got no error")
	}
}

// exif is a JPEG with an EXIF orientation.
func exif(t testing.TB, m image.Image, orientation uint16, order binary.AppendByteOrder) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	segment := []byte("Exif\x00\x00II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		segment = []byte("Exif\x00\x00MM\x00*")
	}
	segment = order.AppendUint32(segment, 8)
	segment = order.AppendUint16(segment, 2)
	for _, tag := range [][2]uint16{{0x0100, 3}, {0x0112, orientation}} {
		segment = order.AppendUint16(segment, tag[0])
		segment = order.AppendUint16(segment, 3)
		segment = order.AppendUint32(segment, 1)
		segment = order.AppendUint16(segment, tag[1])
		segment = order.AppendUint16(segment, 0)
	}
	out := append([]byte{0xff, 0xd8, 0xff, 0xe1}, byte((len(segment)+2)>>8), byte(len(segment)+2))
	return append(append(out, segment...), b.Bytes()[2:]...)
}

// The eight orientations of EXIF turn an image whose left upper corner is dark and whose right
// upper one is grey.
func TestOrientationIsAppliedOnlyWhenAskedFor(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 16, 8))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	for y := range 4 {
		for x := range 8 {
			m.SetGray(x, y, color.Gray{0})
			m.SetGray(8+x, y, color.Gray{128})
		}
	}
	// Where dark and grey end up: 0 left above, 1 right above, 2 left below, 3 right below.
	want := [9][2]int{1: {0, 1}, 2: {1, 0}, 3: {3, 2}, 4: {2, 3}, 5: {0, 2}, 6: {1, 3}, 7: {3, 1}, 8: {2, 0}}
	for o := uint16(1); o <= 8; o++ {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			b := exif(t, m, o, order)
			img, err := decode.Image(nil, b, decode.Config{Orient: true, Channels: 1})
			if err != nil {
				t.Fatal(err)
			}
			if o >= 5 != (img.Height == 16) {
				t.Errorf("orientation %d: got %d×%d", o, img.Width, img.Height)
			}
			var got [2]int
			for place := range 4 {
				x, y := (place%2*2+1)*img.Width/4, (place/2*2+1)*img.Height/4
				switch v := img.Pix[y*img.Width+x]; {
				case v < 10:
					got[0] = place
				case v > 118 && v < 138:
					got[1] = place
				}
			}
			if got != want[o] {
				t.Errorf("orientation %d: dark and grey are at %v, want %v", o, got, want[o])
			}
			img, err = decode.Image(img, b, decode.Config{Channels: 1})
			if err != nil {
				t.Fatal(err)
			}
			if img.Width != 16 || img.Pix[17] > 10 {
				t.Errorf("orientation %d that is not asked for: got %d×%d with %d", o, img.Width, img.Height, img.Pix[17])
			}
		}
	}
}

func TestFingerprintNamesTheDecoder(t *testing.T) {
	if f := decode.Fingerprint(); f != "decode 2" {
		t.Errorf("got %q, want the number that goes up when pixels change", f)
	}
}

// Whatever the bytes are, an image comes back whole or an error does.
func FuzzImage(f *testing.F) {
	for _, g := range goldens(f) {
		if g.Data != nil {
			f.Add(g.Data, true)
		}
	}
	f.Add(exif(f, corners(), 6, binary.LittleEndian), true)
	f.Add([]byte("P6\n# c\n2 2\n255\n0123456789ab"), false)
	f.Fuzz(func(t *testing.T, b []byte, orient bool) {
		for _, channels := range []int{1, 3} {
			img, err := decode.Image(nil, b, decode.Config{Channels: channels, MaxPixels: 1 << 16, Orient: orient})
			if (err == nil) != (img != nil) {
				t.Fatalf("got image %v and error %v", img, err)
			}
			if err == nil && (img.Channels != channels || len(img.Pix) != img.Width*img.Height*channels || len(img.Pix) == 0) {
				t.Fatalf("got %d bytes for %d×%d×%d", len(img.Pix), img.Width, img.Height, img.Channels)
			}
		}
	})
}
