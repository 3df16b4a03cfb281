package datashow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
)

// A set has images of one colour, whose encoding is their size and their grey.
type set struct {
	classes []string
	errs    map[int]error
}

func (s set) Len() int          { return 10 }
func (s set) Classes() []string { return s.classes }

func (s set) ReadEncoded(_ context.Context, i int) (data.Encoded, error) {
	return data.Encoded{Image: []byte{20, 10, byte(10 * i)}, Labels: []float32{float32(i)}, Name: fmt.Sprint(i)}, s.errs[i]
}

func (s set) Decode(e []byte) (*transform.Image, error) {
	if e[2] == 90 {
		return nil, errors.New("cut")
	}
	return &transform.Image{Width: int(e[0]), Height: int(e[1]), Channels: 1, Pix: bytes.Repeat(e[2:3], int(e[0])*int(e[1]))}, nil
}

func TestASheetShowsEachImageInItsPlace(t *testing.T) {
	s := set{classes: []string{"ant", "bee"}, errs: map[int]error{7: &data.BadExampleError{Example: 7, Err: errors.New("damaged")}}}
	sheet, err := Sheet(t.Context(), s, Config{Images: []int{1, 3, 7, 9, 5}, Columns: 2, Size: 40, Goroutines: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := image.Rect(0, 0, 2*8+2*46-6, 2*8+3*74-6); sheet.Bounds() != want {
		t.Errorf("the sheet has %v, want %v", sheet.Bounds(), want)
	}
	for _, c := range []struct {
		x, y int
		want color.RGBA
		what string
	}{
		{8 + 20, 8 + 20, color.RGBA{10, 10, 10, 255}, "image 1"},
		{8 + 20, 8 + 5, paper, "above image 1, which is twice as wide as high"},
		{8 + 46 + 20, 8 + 20, color.RGBA{30, 30, 30, 255}, "image 3"},
		{8, 8 + 74, alarm, "the edge of image 7, which cannot be read"},
		{8 + 20, 8 + 74 + 20, paper, "the middle of image 7"},
		{8 + 46, 8 + 74, alarm, "the edge of image 9, which cannot be decoded"},
		{8 + 20, 8 + 2*74 + 20, color.RGBA{50, 50, 50, 255}, "image 5"},
	} {
		if got := sheet.RGBAAt(c.x, c.y); got != c.want {
			t.Errorf("%s is %v, want %v", c.what, got, c.want)
		}
	}
	// Captions are below the images.
	if dark := count(sheet, image.Rect(8, 48, 48, 62), ink); dark < 10 {
		t.Errorf("the caption of image 1 has %d dark pixels", dark)
	}
	if red := count(sheet, image.Rect(8, 48+74, 48, 62+74), alarm); red < 10 {
		t.Errorf("the caption of image 7 has %d red pixels", red)
	}
}

func count(m *image.RGBA, in image.Rectangle, c color.RGBA) (n int) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			if m.RGBAAt(x, y) == c {
				n++
			}
		}
	}
	return n
}

func TestTransformsAreShown(t *testing.T) {
	transforms, err := ParseTransforms("resize:30, center-crop:20,flip")
	if err != nil {
		t.Fatal(err)
	}
	sheet, err := Sheet(t.Context(), set{}, Config{Images: []int{4}, Columns: 3, Size: 40, Transforms: transforms})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sheet.RGBAAt(8, 8), (color.RGBA{40, 40, 40, 255}); got != want {
		t.Errorf("the corner of an image that was cut square is %v, want %v", got, want)
	}
}

func TestAStorageThatFailsIsAnError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Sheet(t.Context(), set{errs: map[int]error{2: broken}}, Config{Images: []int{1, 2}, Columns: 2, Size: 20}); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

func TestLabelsAreNamed(t *testing.T) {
	classes := []string{"ant", "bee"}
	for _, c := range []struct {
		labels []float32
		want   string
	}{{[]float32{1}, "bee"}, {[]float32{2}, "label 2"}, {[]float32{0.5}, "label 0.5"}, {[]float32{1, 0}, "label 1 0"}, {nil, "no label"}, {[]float32{-1}, "label -1"}} {
		if got := labels(c.labels, classes); got != c.want {
			t.Errorf("labels %v are %q, want %q", c.labels, got, c.want)
		}
	}
}

func TestChosenAreDifferentAndOfAll(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(200) {
		got := Choose(4, 10, seed)
		if len(got) != 4 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 4 || got[0] < 0 || got[3] > 9 {
			t.Errorf("seed %d chooses %v", seed, got)
		}
		for _, i := range got {
			seen[i] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("200 seeds choose %d of 10", len(seen))
	}
	if got, want := Choose(5, 3, 1), []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("5 of 3 are %v, want %v", got, want)
	}
}

func TestWrongTransformsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"resize":           `got the transform "resize", want resize:SIZE`,
		"resize:x":         `got "x" in the transform "resize:x", want resize:SIZE with numbers from 1 to 16384`,
		"resize:0":         `got "0" in the transform "resize:0", want resize:SIZE with numbers from 1 to 16384`,
		"resize:1.5":       `got "1.5" in the transform "resize:1.5", want resize:SIZE with numbers from 1 to 16384`,
		"flip,flip:3":      `got "3" in the transform "flip:3", want flip with numbers from 0 to 0`,
		"color-jitter:.1":  `got the transform "color-jitter:.1", want color-jitter:BRIGHTNESS:CONTRAST:SATURATION:HUE`,
		"random-erasing:2": `got "2" in the transform "random-erasing:2", want random-erasing:PROBABILITY with numbers from 0 to 1`,
		"rotate:3":         `got the transform "rotate:3", want some of resize:SIZE, center-crop:SIZE, `,
	} {
		if _, err := ParseTransforms(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	all := "resize:40,center-crop:30,random-resized-crop:20,random-crop:16:4,flip,grayscale,color-jitter:.4:.4:.4:.1,rand-augment:2:9,trivial-augment,random-erasing:.25"
	list, err := ParseTransforms(all)
	if err != nil || len(list) != len(kinds) {
		t.Errorf("%s are %d transforms and error %v, want %d", all, len(list), err, len(kinds))
	}
	if list, err := ParseTransforms(""); err != nil || list != nil {
		t.Errorf("nothing is %v and error %v", list, err)
	}
}
