package decode_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/transform"
)

// made is a picture with slopes and edges.
func made(width, height int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetRGBA(x, y, color.RGBA{uint8(x * 5), uint8(y*7 + x/5*40), uint8(x * y), 255})
		}
	}
	return m
}

// Decoding only the part that a crop takes gives the pixels of a crop of the whole, in every format
// and orientation.
func TestPartsAreThoseOfTheWhole(t *testing.T) {
	folder := goImages(t)
	tiny := transform.RandomResizedCropConfig{Width: 5, Height: 7, Scale: [2]float64{0.001, 0.2}, Ratio: [2]float64{0.1, 10}}
	small, err := tiny.New()
	if err != nil {
		t.Fatal(err)
	}
	images := goldens(t)
	for o := range uint16(8) {
		turned := made(40+int(o), 29)
		images = append(images, golden{Name: fmt.Sprint("orientation ", o+1), Data: exif(t, turned, o+1, binary.LittleEndian)})
	}
	var decoded, part *transform.Image
	for _, g := range images {
		b := g.bytes(t, folder)
		for _, channels := range []int{1, 3} {
			cfg := decode.Config{Channels: channels, Orient: true}
			if decoded, err = decode.Image(decoded, b, cfg); err != nil {
				t.Fatalf("%s: %v", g.Name, err)
			}
			for _, crop := range []transform.Transform{transform.RandomResizedCrop(31), small, transform.CenterCrop(9)} {
				transforms := []transform.Transform{crop, transform.Flip()}
				for seed := range uint64(2) {
					whole := &transform.Image{Width: decoded.Width, Height: decoded.Height, Channels: channels, Pix: bytes.Clone(decoded.Pix)}
					draw := rand.New(rand.NewPCG(seed, 3))
					for _, tr := range transforms {
						if whole, err = tr.Apply(whole, draw); err != nil {
							t.Fatal(err)
						}
					}
					if part, err = decode.Transform(part, b, cfg, transforms, rand.New(rand.NewPCG(seed, 3))); err != nil {
						t.Fatalf("%s: %v", g.Name, err)
					}
					if whole.Width != part.Width || whole.Height != part.Height || !bytes.Equal(whole.Pix, part.Pix) {
						t.Fatalf("%s with %v, seed %d: pixels of the part differ from those of the whole", g.Name, crop, seed)
					}
				}
			}
		}
	}
}

func TestTransformsOfImagesMakeNoGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("skipped: under the race detector sync.Pool forgets")
	}
	folder := goImages(t)
	for _, g := range goldens(t)[:1] {
		b := g.bytes(t, folder)
		draw := rand.New(rand.NewPCG(1, 3))
		transforms := []transform.Transform{transform.RandomResizedCrop(31), transform.Flip()}
		img := new(transform.Image)
		n := testing.AllocsPerRun(100, func() {
			var err error
			if img, err = decode.Transform(img, b, decode.Config{}, transforms, draw); err != nil {
				t.Fatal(err)
			}
		})
		if n > 3 {
			t.Errorf("%s: got %v allocations for an image, want a few small ones", g.Name, n)
		}
	}
}
