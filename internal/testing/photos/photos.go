// Package photos makes folders of JPEG images for tests, and packs them as .rec, tar, MDS and
// TFRecord files without encoding them again.
//
//	err := photos.Make(folder, photos.Config{Images: 100, Classes: 4, Seed: 1})
//	err = photos.Record(filepath.Join(dir, "set.rec"), folder)
//	err = photos.Tars(dir, folder, 3)
//
// A made image is like a photograph to a decoder and to a network: of one of several sizes, with
// slopes, shapes, noise and fine lines, in colours that tell its class; one in sixteen is grey.
// What is packed has the images in the order in which a folder is read: that of torchvision's
// ImageFolder. The packers follow the formats' descriptions and share no code with what reads them.
package photos

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Config says what Make makes.
type Config struct {
	Images, Classes int
	Seed            uint64
	// Largest is the longest side of an image; 0: 160. The shortest one is half of it.
	Largest int
	// Real is a folder of photographs, JPEG files, of which each is in the set once, in place
	// of a made one. Empty: there are none.
	Real string
}

// Make makes a folder with a directory for each class. Image i is of class i mod Classes; the same
// config makes the same bytes.
func Make(folder string, cfg Config) error {
	if cfg.Images < cfg.Classes || cfg.Classes < 1 {
		return fmt.Errorf("photos: got %d images of %d classes, want at least one of each", cfg.Images, cfg.Classes)
	}
	if cfg.Largest == 0 {
		cfg.Largest = 160
	}
	found, err := Real(cfg.Real)
	if err != nil {
		return err
	}
	for c := range cfg.Classes {
		if err := os.MkdirAll(filepath.Join(folder, class(c)), 0o755); err != nil {
			return err
		}
	}
	// Photographs are spread over the set.
	step := max(1, cfg.Images/(len(found)+1))
	errs := make([]error, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			for i := w; i < cfg.Images && errs[w] == nil; i += len(errs) {
				var content []byte
				if k := i/step - 1; i%step == 0 && k >= 0 && k < len(found) {
					content, errs[w] = os.ReadFile(found[k])
				} else {
					content = Draw(i, cfg)
				}
				if errs[w] == nil {
					errs[w] = os.WriteFile(filepath.Join(folder, class(i%cfg.Classes), fmt.Sprintf("%07d.jpg", i)), content, 0o644)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func class(c int) string { return fmt.Sprintf("class%03d", c) }

// Real lists the JPEG files in a folder and below, in the order of their paths.
func Real(folder string) (files []string, err error) {
	if folder == "" {
		return nil, nil
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(path))) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// Draw makes the JPEG file of image i of a set.
func Draw(i int, cfg Config) []byte {
	r := rand.New(rand.NewPCG(cfg.Seed, uint64(i)))
	side := func() int { return cfg.Largest/2 + r.IntN(max(1, cfg.Largest/2+1)) }
	c := canvas{width: side(), height: side()}
	c.values = make([][3]float64, c.width*c.height)
	hue := float64(i%cfg.Classes) / float64(cfg.Classes)
	c.slope(r)
	for range 3 + r.IntN(5) {
		c.shape(r, colour(hue+0.06*r.NormFloat64()))
	}
	var b bytes.Buffer
	// An error of a bytes.Buffer or of an image of these sizes there is none.
	_ = jpeg.Encode(&b, c.picture(r, i%16 == 15), &jpeg.Options{Quality: 70 + r.IntN(26)})
	return b.Bytes()
}

// A canvas has colours of 0 to 255.
type canvas struct {
	width, height int
	values        [][3]float64
}

// slope fills the canvas with light that changes slowly.
func (c *canvas) slope(r *rand.Rand) {
	a, b := colour(r.Float64()), colour(r.Float64())
	angle := r.Float64() * 2 * math.Pi
	for y := range c.height {
		for x := range c.width {
			s := 0.5 + 0.5*math.Sin(angle+3*float64(x)/float64(c.width)+2*float64(y)/float64(c.height))
			for k := range 3 {
				c.values[y*c.width+x][k] = 0.6*(s*a[k]+(1-s)*b[k]) + 40
			}
		}
	}
}

// shape draws a striped ellipse or rectangle.
func (c *canvas) shape(r *rand.Rand, colour [3]float64) {
	cx, cy := r.Float64()*float64(c.width), r.Float64()*float64(c.height)
	rx, ry := (0.1+0.3*r.Float64())*float64(c.width), (0.1+0.3*r.Float64())*float64(c.height)
	round, stripes := r.IntN(2) == 0, 0.3+2*r.Float64()
	for y := max(0, int(cy-ry)); y < min(c.height, int(cy+ry)); y++ {
		for x := max(0, int(cx-rx)); x < min(c.width, int(cx+rx)); x++ {
			dx, dy := (float64(x)-cx)/rx, (float64(y)-cy)/ry
			if round && dx*dx+dy*dy > 1 {
				continue
			}
			light := 0.8 + 0.2*math.Sin(stripes*float64(x+y))
			for k := range 3 {
				c.values[y*c.width+x][k] = light * colour[k]
			}
		}
	}
}

// picture adds noise.
func (c *canvas) picture(r *rand.Rand, grey bool) image.Image {
	coloured, plain := image.NewRGBA(image.Rect(0, 0, c.width, c.height)), image.NewGray(image.Rect(0, 0, c.width, c.height))
	for i, v := range c.values {
		noise := 6 * r.NormFloat64()
		var p [3]uint8
		for k := range 3 {
			p[k] = uint8(min(max(v[k]+noise, 0), 255))
		}
		coloured.SetRGBA(i%c.width, i/c.width, color.RGBA{p[0], p[1], p[2], 255})
		plain.SetGray(i%c.width, i/c.width, color.Gray{p[1]})
	}
	if grey {
		return plain
	}
	return coloured
}

// colour is a bright colour of a hue; whole numbers are the same one.
func colour(hue float64) (c [3]float64) {
	for k := range c {
		c[k] = 127 + 110*math.Cos(2*math.Pi*(hue-float64(k)/3))
	}
	return c
}
