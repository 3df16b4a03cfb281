package main

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/data"
)

// Images of each part of a sample.
const sampleTrain, sampleVal = 2000, 400

// writeSample writes synthetic images as JPEG files, in a folder for each class, below train and
// val of a folder that is not there yet.
func writeSample(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("--sample: %s is there already, want a new folder", dir)
	}
	for _, part := range []struct {
		name string
		set  *data.ImageSet
	}{{"train", data.Synthetic(sampleTrain, 1)}, {"val", data.Synthetic(sampleVal, 2)}} {
		for _, class := range part.set.Classes() {
			if err := os.MkdirAll(filepath.Join(dir, part.name, class), 0o777); err != nil {
				return fmt.Errorf("--sample: %w", err)
			}
		}
		for i := range part.set.Len() {
			path := filepath.Join(dir, part.name, part.set.Classes()[part.set.Label(i)], fmt.Sprintf("%04d.jpg", i))
			if err := writeJPEG(path, part.set.Shape(), part.set.Pixels(i)); err != nil {
				return fmt.Errorf("--sample: %w", err)
			}
		}
	}
	fmt.Printf("Wrote %d images into %s and %d into %s\n", sampleTrain, filepath.Join(dir, "train"), sampleVal, filepath.Join(dir, "val"))
	return nil
}

// writeJPEG writes an image of planes of red, green and blue.
func writeJPEG(path string, shape data.Shape, pixels []uint8) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m, plane := image.NewRGBA(image.Rect(0, 0, shape.Width, shape.Height)), shape.Width*shape.Height
	for i := range plane {
		m.SetRGBA(i%shape.Width, i/shape.Width, color.RGBA{pixels[i], pixels[plane+i], pixels[2*plane+i], 255})
	}
	w := bufio.NewWriter(f)
	if err := jpeg.Encode(w, m, &jpeg.Options{Quality: 95}); err != nil {
		return err
	}
	return w.Flush()
}
