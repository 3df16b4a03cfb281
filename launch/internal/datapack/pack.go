package datapack

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/launch/internal/inorder"
)

// A result is what became of one image.
type result struct {
	example data.Encoded
	bad     *data.BadExampleError
}

// Pack packs all images of a source.
func Pack(ctx context.Context, src Source, cfg Config) (Summary, error) {
	if err := cfg.Validate(); err != nil {
		return Summary{}, err
	}
	parts, err := cfg.parts(src.Len())
	if err != nil {
		return Summary{}, err
	}
	out := &output{overwrite: cfg.Overwrite}
	for _, p := range parts {
		if err := out.check(p.prefix, cfg.tar()); err != nil {
			return Summary{}, err
		}
	}
	if err := cfg.checkClasses(); err != nil {
		return Summary{}, err
	}
	var sum Summary
	done := 0
	for _, p := range parts {
		if err == nil {
			err = cfg.pack(ctx, src, p, out, &sum, &done)
		}
	}
	if err == nil {
		err = cfg.writeClasses(out)
	}
	if err == nil && sum.Images == 0 {
		err = errors.New("none of the images can be read")
	}
	if err != nil {
		return sum, errors.Join(err, out.discard())
	}
	if err := out.commit(); err != nil {
		return sum, err
	}
	sum.Files = out.files
	return sum, nil
}

// pack packs one part.
func (c *Config) pack(ctx context.Context, src Source, p part, out *output, sum *Summary, done *int) error {
	w, err := c.newWriter(p, out)
	if err != nil {
		return err
	}
	work := func(ctx context.Context, k int) (result, error) {
		i := p.images[k]
		e, err := src.ReadEncoded(ctx, i)
		if err == nil && len(e.Labels) == 0 {
			err = &data.BadExampleError{Example: i, Name: e.Name, Err: errors.New("it has no label")}
		}
		if err == nil {
			e.Image, err = c.image(src, i, e)
		}
		if bad, ok := errors.AsType[*data.BadExampleError](err); ok {
			return result{bad: bad}, nil
		}
		return result{example: e}, err
	}
	use := func(k int, r result) error {
		*done++
		if c.Progress != nil {
			c.Progress(*done)
		}
		if r.bad != nil {
			sum.Bad++
			if c.Bad != nil {
				c.Bad(r.bad)
			}
			return nil
		}
		sum.Images++
		if err := w.write(k, p.images[k], r.example); err != nil {
			return fmt.Errorf("write %s: %w", r.example.Name, err)
		}
		return nil
	}
	if err := inorder.Run(ctx, len(p.images), c.Goroutines, work, use); err != nil {
		return err
	}
	return w.close()
}

// image is what is packed of an example: its image as it is or made anew. One of which that is not
// possible is damaged.
func (c *Config) image(src Source, i int, e data.Encoded) ([]byte, error) {
	var err error
	if c.Decode {
		var img *transform.Image
		if img, err = src.Decode(e.Image); err == nil {
			e.Image, err = c.convert(img)
		}
	} else {
		_, _, _, err = data.ImageSize(e.Image)
	}
	if err != nil {
		return nil, &data.BadExampleError{Example: i, Name: e.Name, Err: err}
	}
	return e.Image, nil
}
