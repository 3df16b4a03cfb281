package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// bins is how many magnitudes there are, from nothing to the most.
const bins = 31

// An op is one of the changes that RandAugment and TrivialAugment choose from.
type op uint8

const (
	identity op = iota
	shearX
	shearY
	translateX
	translateY
	rotate
	brightness
	color
	contrast
	sharpness
	posterize
	solarize
	autoContrast
	equalize
	ops int = iota
)

var opNames = [ops]string{"Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
	"Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"}

// signed says that the op goes in two directions.
func (o op) signed() bool { return shearX <= o && o <= sharpness }

// A reach is the most that the ops do.
type reach struct {
	shear     float64
	translate func(side int) float64 // takes and returns pixels
	rotate    float64                // degrees
	enhance   float64

	// bits is how many posterize takes.
	bits float64
}

var (
	// randReach is that of RandAugment, trivialReach that of TrivialAugment's wide space.
	randReach = reach{0.3, func(side int) float64 { return 150. / 331. * float64(side) }, 30, 0.9, 4}

	trivialReach = reach{0.99, func(int) float64 { return 32 }, 135, 0.99, 6}
)

// step returns magnitude bin of those from one value to another, rounded to float32 once as
// torch.linspace does, and counted from the nearer end.
func step(from, to float64, bin int) float64 {
	a, b := float32(from), float32(to)
	width := float64((b - a) / (bins - 1))
	if bin < bins/2 {
		return float64(float32(float64(a) + float64(width*float64(bin))))
	}
	return float64(float32(float64(b) - float64(width*float64(bins-1-bin))))
}

// apply does the op with a magnitude of bin, in the direction of sign, 1 or −1.
func (r reach) apply(img *Image, o op, bin int, sign float64) {
	switch o {
	case shearX:
		img.affine(shear(sign*step(0, r.shear, bin), 0))
	case shearY:
		img.affine(shear(0, sign*step(0, r.shear, bin)))
	case translateX:
		img.translate(int(sign*step(0, r.translate(img.Width), bin)), 0)
	case translateY:
		img.translate(0, int(sign*step(0, r.translate(img.Height), bin)))
	case rotate:
		img.affine(rotation(sign*step(0, r.rotate, bin), img.Width, img.Height))
	case brightness:
		img.brightness(1 + sign*step(0, r.enhance, bin))
	case color:
		img.color(1 + sign*step(0, r.enhance, bin))
	case contrast:
		img.contrast(1 + sign*step(0, r.enhance, bin))
	case sharpness:
		img.sharpness(1 + sign*step(0, r.enhance, bin))
	case posterize:
		img.posterize(8 - int(math.RoundToEven(float64(bin)/((bins-1)/r.bits))))
	case solarize:
		img.solarize(step(255, 0, bin))
	case autoContrast:
		img.autoContrast()
	case equalize:
		img.equalize()
	}
}

// draw draws an op, and the direction of one that has two.
func (r reach) draw(img *Image, draw *rand.Rand, bin func() int) {
	o := op(below(draw, ops))
	magnitude := bin()
	sign := 1.0
	if o.signed() && below(draw, 2) == 1 {
		sign = -1
	}
	r.apply(img, o, magnitude, sign)
}

// RandAugment makes n changes, each one of 14 drawn at random: none, leaning, moving or turning the
// image, and changes of colour. All have the same magnitude, 0 to 30; 2 and 9 are usual. Pixels
// that come in are black.
func RandAugment(n, magnitude int) Transform {
	if n < 1 || n > 100 {
		panic(fmt.Sprintf("transform: RandAugment: got n %d, want 1 to 100", n))
	}
	if magnitude < 0 || magnitude >= bins {
		panic(fmt.Sprintf("transform: RandAugment: got magnitude %d, want 0 to %d", magnitude, bins-1))
	}
	return randAugment{n, magnitude}
}

type randAugment struct{ n, magnitude int }

func (a randAugment) String() string { return fmt.Sprintf("RandAugment(%d, %d)", a.n, a.magnitude) }

func (a randAugment) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("RandAugment", draw); err != nil {
		return nil, err
	}
	for range a.n {
		randReach.draw(img, draw, func() int { return a.magnitude })
	}
	return img, nil
}

// TrivialAugment makes one change, of those of RandAugment, with a magnitude that is drawn, too,
// and reaches further: the wide space of torchvision's TrivialAugmentWide. It has nothing to tune.
func TrivialAugment() Transform { return trivialAugment{} }

type trivialAugment struct{}

func (trivialAugment) String() string { return "TrivialAugment()" }

func (trivialAugment) Apply(img *Image, draw *rand.Rand) (*Image, error) {
	if err := img.checkDraw("TrivialAugment", draw); err != nil {
		return nil, err
	}
	trivialReach.draw(img, draw, func() int { return below(draw, bins) })
	return img, nil
}
