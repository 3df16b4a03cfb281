package datapack

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"

	"github.com/paragon-train/paragon/data/transform"
)

// convert makes the image anew.
func (c *Config) convert(img *transform.Image) (encoded []byte, err error) {
	if c.CenterCrop {
		if img, err = transform.CenterCrop(min(img.Width, img.Height)).Apply(img, nil); err != nil {
			return nil, err
		}
	}
	if c.Resize > 0 {
		if img, err = transform.Resize(c.Resize).Apply(img, nil); err != nil {
			return nil, err
		}
	}
	return c.encode(img)
}

// encode makes a file of an image.
func (c *Config) encode(img *transform.Image) ([]byte, error) {
	m, err := picture(img)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if c.Encoding == "jpg" {
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: c.Quality})
	} else {
		err = (&png.Encoder{CompressionLevel: compression(c.Quality)}).Encode(&b, m)
	}
	return b.Bytes(), err
}

// compression is what Go's encoder has for a level of zlib.
func compression(quality int) png.CompressionLevel {
	switch {
	case quality <= 3:
		return png.BestSpeed
	case quality >= 8:
		return png.BestCompression
	}
	return png.DefaultCompression
}

// picture is an image as package image has it.
func picture(img *transform.Image) (image.Image, error) {
	bounds := image.Rect(0, 0, img.Width, img.Height)
	switch img.Channels {
	case 1:
		return &image.Gray{Pix: img.Pix, Stride: img.Width, Rect: bounds}, nil
	case 3:
		m := image.NewRGBA(bounds)
		for i := range img.Width * img.Height {
			p := img.Pix[3*i:]
			m.Pix[4*i], m.Pix[4*i+1], m.Pix[4*i+2], m.Pix[4*i+3] = p[0], p[1], p[2], 255
		}
		return m, nil
	}
	return nil, fmt.Errorf("got an image of %d channels, want 1 or 3", img.Channels)
}
