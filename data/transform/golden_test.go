package transform

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A golden is what Pillow and torchvision make of a picture; testdata/golden.py writes it.
type golden struct {
	Of            [3]int
	Op            string
	Args          []float64
	Filter        string
	Augment, Name string
	Width, Height int
	SHA256        string
	At            [][]int
}

func goldens(t *testing.T) []golden {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []golden }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	return file.Rows
}

// made is the picture of golden.py: slopes with edges, which use all values.
func made(width, height, channels int) *Image {
	img := &Image{Width: width, Height: height, Channels: channels}
	for y := range height {
		for x := range width {
			for c := range channels {
				img.Pix = append(img.Pix, uint8(x*(5+2*c)+y*(3+c)+(x/5+y/3+c)%4*40+x*y*(c+1)%7))
			}
		}
	}
	return img
}

// want compares an image with the golden one.
func (g golden) want(t *testing.T, img *Image) {
	t.Helper()
	if img.Width != g.Width || img.Height != g.Height || img.Channels != g.Of[2] {
		t.Errorf("%s%v of %v: got %d×%d×%d, want %d×%d×%d", g.Op, g.Args, g.Of, img.Width, img.Height, img.Channels, g.Width, g.Height, g.Of[2])
		return
	}
	h := sha256.Sum256(img.Pix)
	if hex.EncodeToString(h[:8]) == g.SHA256 {
		return
	}
	t.Errorf("%s %s%s%s%v of %v: pixels are not Pillow's", g.Op, g.Filter, g.Augment, g.Name, g.Args, g.Of)
	for _, p := range g.At {
		got := img.Pix[(p[1]*img.Width+p[0])*img.Channels:][:img.Channels]
		for c, v := range p[2:] {
			if int(got[c]) != v {
				t.Errorf("    at (%d, %d) channel %d: got %d, want %d", p[0], p[1], c, got[c], v)
			}
		}
	}
}

// Resizing gives Pillow's pixels, bit for bit: to smaller and larger sizes, along one side or both,
// of images of one pixel and more.
func TestResizedPixelsArePillows(t *testing.T) {
	tried := 0
	for _, g := range goldens(t) {
		img := made(g.Of[0], g.Of[1], g.Of[2])
		filter, err := ParseFilter(cmp.Or(g.Filter, "bilinear"))
		if err != nil {
			t.Fatal(err)
		}
		switch g.Op {
		case "resize":
			out, err := must(ResizeConfig{Shorter: int(g.Args[0]), Filter: filter}.New()).Apply(img, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.want(t, out)
		case "resize_to":
			out, err := must(ResizeConfig{Width: int(g.Args[0]), Height: int(g.Args[1]), Filter: filter}.New()).Apply(img, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.want(t, out)
		case "center_crop":
			out, err := CenterCrop(int(g.Args[0])).Apply(img, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.want(t, out)
		case "resized_crop":
			img.resample(box{int(g.Args[0]), int(g.Args[1]), int(g.Args[2]), int(g.Args[3])}, 24, 24, filter)
			g.want(t, img)
		case "mirror":
			img.mirror()
			g.want(t, img)
		default:
			continue
		}
		tried++
	}
	if tried < 200 {
		t.Errorf("got %d rows, want at least 200", tried)
	}
}

// Changes of colour and place give Pillow's pixels, bit for bit, for every op of RandAugment and
// TrivialAugment in both directions.
func TestChangedPixelsArePillows(t *testing.T) {
	tried := 0
	for _, g := range goldens(t) {
		img := made(g.Of[0], g.Of[1], g.Of[2])
		switch g.Op {
		case "brightness":
			img.brightness(g.Args[0])
		case "contrast":
			img.contrast(g.Args[0])
		case "color":
			img.color(g.Args[0])
		case "sharpness":
			img.sharpness(g.Args[0])
		case "hue":
			img.hue(g.Args[0])
		case "grayscale":
			img.desaturate()
		case "augment":
			r := map[string]reach{"RandAugment": randReach, "TrivialAugment": trivialReach}[g.Augment]
			r.apply(img, op(slices.Index(opNames[:], g.Name)), int(g.Args[0]), g.Args[1])
		default:
			continue
		}
		g.want(t, img)
		tried++
	}
	if tried < 900 {
		t.Errorf("got %d rows, want at least 900", tried)
	}
}

// Rows of few pixels, whose weights can be checked by hand; from Pillow 9.4.
func TestRowsResizeToKnownPixels(t *testing.T) {
	slope := []uint8{0, 30, 60, 90, 120, 150, 180, 210}
	ends := []uint8{255, 0, 0, 0, 0, 0, 0, 0, 0, 255}
	for _, c := range []struct {
		row    []uint8
		filter Filter
		want   []uint8
	}{
		{slope, Bilinear, []uint8{33, 105, 177}},
		{slope, Bicubic, []uint8{27, 105, 183}},
		{slope, Box, []uint8{30, 105, 180}},
		{slope, Lanczos, []uint8{24, 105, 186}},
		{slope, Bilinear, []uint8{21, 75, 135, 189}},
		{slope, Bilinear, []uint8{12, 58, 105, 152, 198}},
		{slope, Bilinear, []uint8{0, 15, 35, 55, 75, 95, 115, 135, 155, 175, 195, 210}},
		{slope, Bicubic, []uint8{0, 12, 35, 55, 75, 95, 115, 135, 155, 175, 198, 212}},
		{ends, Bilinear, []uint8{56, 0, 56}},
		{ends, Bilinear, []uint8{81, 0, 0, 81}},
	} {
		for _, down := range []bool{false, true} {
			img := &Image{Width: len(c.row), Height: 1, Channels: 1, Pix: bytes.Clone(c.row)}
			size := ResizeConfig{Width: len(c.want), Height: 1, Filter: c.filter}
			if down {
				img.Width, img.Height, size.Width, size.Height = img.Height, img.Width, size.Height, size.Width
			}
			out, err := must(size.New()).Apply(img, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Pix, c.want) {
				t.Errorf("%v %v to %d, down %v: got %v, want %v", c.row, c.filter, len(c.want), down, out.Pix, c.want)
			}
		}
	}
}
