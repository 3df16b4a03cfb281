// Package datashow draws images of a data set with their labels: a contact sheet.
package datashow

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/launch/internal/inorder"
)

// A Source has the images to show; *data.Images is one.
type Source interface {
	Len() int
	// Classes are the names of the classes by label; nil: they have none.
	Classes() []string
	// ReadEncoded reads an example as it is stored; it is damaged if the error is a
	// *data.BadExampleError.
	ReadEncoded(ctx context.Context, i int) (data.Encoded, error)
	// Decode decodes an image.
	Decode(encoded []byte) (*transform.Image, error)
}

// A Config says what a sheet shows.
type Config struct {
	// Images are the numbers of the examples. One may be there several times, to see what
	// transforms make of it.
	Images []int
	// Columns is how many images stand beside each other.
	Columns int
	// Size is the side in pixels of the square that an image is fitted into.
	Size int
	// Transforms are applied to each image, with random numbers from Seed.
	Transforms []transform.Transform
	Seed       uint64
	// Goroutines is how many images are worked on at once.
	Goroutines int
}

// Choose chooses n of all examples by a seed, in the order of their numbers; all if there are no
// more.
func Choose(n, all int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 1))
	chosen := map[int]bool{}
	// Floyd's way: each choice of n numbers is as likely, and no list of all is needed.
	for k := all - min(n, all); k < all; k++ {
		i := rng.IntN(k + 1)
		if chosen[i] {
			i = k
		}
		chosen[i] = true
	}
	list := make([]int, 0, len(chosen))
	for i := range chosen {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

const (
	// gap is between images, and margin around all, in pixels.
	gap    = 6
	margin = 8
	// lineHeight is that of a line of a caption, of which each image has two; glyph is the
	// width of a letter.
	lineHeight = 14
	glyph      = 7
)

var (
	paper = color.RGBA{255, 255, 255, 255}
	ink   = color.RGBA{30, 30, 30, 255}
	faint = color.RGBA{120, 120, 120, 255}
	alarm = color.RGBA{200, 30, 30, 255}
)

// A cell is one image of a sheet.
type cell struct {
	// picture is nil if the image is damaged.
	picture *transform.Image

	label, number string
}

// Sheet draws a contact sheet. A damaged image is an empty square that says so.
func Sheet(ctx context.Context, src Source, cfg Config) (*image.RGBA, error) {
	if cfg.Columns < 1 || cfg.Size < 8 || cfg.Size > 4096 {
		return nil, fmt.Errorf("got %d columns of %d pixels, want at least 1, of 8 to 4096", cfg.Columns, cfg.Size)
	}
	columns := min(cfg.Columns, max(1, len(cfg.Images)))
	rows := (len(cfg.Images) + columns - 1) / columns
	width, height := cfg.Size+gap, cfg.Size+2*lineHeight+gap
	sheet := image.NewRGBA(image.Rect(0, 0, 2*margin+columns*width-gap, 2*margin+rows*height-gap))
	draw.Draw(sheet, sheet.Bounds(), image.NewUniform(paper), image.Point{}, draw.Src)
	work := func(ctx context.Context, k int) (cell, error) { return cfg.cell(ctx, src, k) }
	err := inorder.Run(ctx, len(cfg.Images), cfg.Goroutines, work, func(k int, c cell) error {
		at := image.Pt(margin+k%columns*width, margin+k/columns*height)
		c.draw(sheet, at, cfg.Size)
		return nil
	})
	return sheet, err
}

// cell reads and transforms one image.
func (c *Config) cell(ctx context.Context, src Source, k int) (cell, error) {
	i := c.Images[k]
	out := cell{number: fmt.Sprintf("#%d", i)}
	e, err := src.ReadEncoded(ctx, i)
	if err == nil {
		out.label = labels(e.Labels, src.Classes())
		var decoded *transform.Image
		if decoded, err = src.Decode(e.Image); err != nil {
			err = &data.BadExampleError{Example: i, Name: e.Name, Err: err}
		} else if out.picture, err = c.transform(decoded, k); err != nil {
			err = fmt.Errorf("example %d (%s): %w", i, e.Name, err)
		}
	}
	if _, bad := errors.AsType[*data.BadExampleError](err); bad {
		out.picture, out.label = nil, "damaged"
		return out, nil
	}
	return out, err
}

// transform applies the transforms to the image of place k, and fits it into the square.
func (c *Config) transform(img *transform.Image, k int) (*transform.Image, error) {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(k)+2))
	var err error
	for _, t := range c.Transforms {
		if img, err = t.Apply(img, rng); err != nil {
			return nil, err
		}
	}
	long := max(img.Width, img.Height)
	w, h := max(1, img.Width*c.Size/long), max(1, img.Height*c.Size/long)
	return transform.ResizeTo(w, h).Apply(img, nil)
}

// labels are what a caption says of an example's labels.
func labels(labels []float32, classes []string) string {
	if len(labels) == 1 {
		v := labels[0]
		if i := int(v); float32(i) == v && i >= 0 && i < len(classes) {
			return classes[i]
		}
	}
	var text []string
	for _, v := range labels {
		text = append(text, fmt.Sprintf("%g", v))
	}
	if len(text) == 0 {
		return "no label"
	}
	return "label " + strings.Join(text, " ")
}

func (c *cell) draw(sheet *image.RGBA, at image.Point, size int) {
	labelInk := ink
	if c.picture == nil {
		labelInk = alarm
		box := image.Rectangle{at, at.Add(image.Pt(size, size))}
		draw.Draw(sheet, box, image.NewUniform(alarm), image.Point{}, draw.Src)
		draw.Draw(sheet, box.Inset(2), image.NewUniform(paper), image.Point{}, draw.Src)
	} else {
		c.paint(sheet, at.Add(image.Pt((size-c.picture.Width)/2, (size-c.picture.Height)/2)))
	}
	write(sheet, at.Add(image.Pt(0, size+lineHeight-3)), c.label, size, labelInk)
	write(sheet, at.Add(image.Pt(0, size+2*lineHeight-3)), c.number, size, faint)
}

// paint copies the picture onto the sheet.
func (c *cell) paint(sheet *image.RGBA, at image.Point) {
	img := c.picture
	for y := range img.Height {
		for x := range img.Width {
			p := img.Pix[(y*img.Width+x)*img.Channels:]
			r, g, b := p[0], p[0], p[0]
			if img.Channels == 3 {
				g, b = p[1], p[2]
			}
			sheet.SetRGBA(at.X+x, at.Y+y, color.RGBA{r, g, b, 255})
		}
	}
}

// write writes a line of text, cut to a width. The font has ASCII alone.
func write(sheet *image.RGBA, at image.Point, text string, width int, c color.Color) {
	letters := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text))
	if most := width / glyph; len(letters) > most {
		letters = append(letters[:max(0, most-2)], '.', '.')
	}
	d := font.Drawer{Dst: sheet, Src: image.NewUniform(c), Face: basicfont.Face7x13, Dot: fixed.P(at.X, at.Y)}
	d.DrawString(string(letters))
}
