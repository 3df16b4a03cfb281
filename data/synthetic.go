package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// SyntheticClasses are the names of the classes of Synthetic, by label.
var SyntheticClasses = []string{"disc", "square", "triangle", "ring", "cross",
	"rows", "columns", "checks", "star", "dots"}

// MaxSynthetic is how many images Synthetic draws at most: 3 GB of them.
const MaxSynthetic = 1_000_000

// Synthetic draws n images of 3×32×32 in ten classes, as many of each as
// possible. A class is a figure or a texture; its place, size, turn, colours,
// background and noise vary from image to image, and dark on light is as
// frequent as light on dark, so that a linear model learns little of it and a
// small convolutional network most. Colours lean a little to one hue for each
// class, as they do in photographs.
//
// Image i depends on (seed, i) alone: a longer set begins with the shorter
// one. Take another seed for the test set. More than MaxSynthetic images are the
// caller's bug.
func Synthetic(n int, seed uint64) *ImageSet {
	if n < 0 || n > MaxSynthetic {
		panic(fmt.Sprintf("data: Synthetic: got %d images, want 0 to %d", n, MaxSynthetic))
	}
	set := &ImageSet{cifarShape, SyntheticClasses, make([]uint8, n*cifarShape.Size()), make([]uint8, n)}
	workers := min(runtime.GOMAXPROCS(0), max(n, 1))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				// Each run of ten images has every class once, in an order of its
				// own.
				order := rand.New(rand.NewPCG(seed, mix(uint64(i/10), 1))).Perm(10)
				set.labels[i] = uint8(order[i%10])
				draw(set.Pixels(i), order[i%10], r)
			}
		})
	}
	group.Wait()
	return set
}

// draw paints one image.
func draw(pixels []uint8, class int, r *rand.Rand) {
	const side = 32
	front, back := colours(class, r)
	tiltX, tiltY := 0.25*r.NormFloat64(), 0.25*r.NormFloat64() // the background's gradient
	waveX, waveY, phase := r.Float64()*8-4, r.Float64()*8-4, r.Float64()*2*math.Pi

	radius := 7 + 6*r.Float64()
	centreX, centreY := 16+6*(2*r.Float64()-1), 16+6*(2*r.Float64()-1)
	angle := 0.5 * (2*r.Float64() - 1)
	if class == 5 || class == 6 {
		angle *= 0.6 // rows and columns must stay apart
	}
	sin, cos := math.Sincos(angle)
	stretch := 0.8 + 0.4*r.Float64()
	shift := r.Float64() * 2 * math.Pi
	noise := 8 + 14*r.Float64()

	for y := range side {
		for x := range side {
			dx, dy := (float64(x)-centreX)/radius, (float64(y)-centreY)/radius
			u, v := (cos*dx+sin*dy)*stretch, (cos*dy-sin*dx)/stretch
			// Half a pixel of soft edge on both sides.
			cover := max(0, min(1, 0.5-distance(class, u, v, shift)*radius))
			ground := 1 + tiltX*(float64(x)/side-0.5) + tiltY*(float64(y)/side-0.5) +
				0.15*math.Sin(waveX*float64(x)/side*2+waveY*float64(y)/side*2+phase)
			for c := range 3 {
				p := cover*front[c] + (1-cover)*back[c]*ground + noise*r.NormFloat64()
				pixels[(c*side+y)*side+x] = uint8(max(0, min(255, math.Round(p))))
			}
		}
	}
}

// distance is below zero inside the figure of the class and above it outside,
// in units of the figure's radius; (u, v) is the place, (0, 0) its centre.
func distance(class int, u, v, shift float64) float64 {
	rho := math.Sqrt(u*u + v*v)
	switch class {
	case 0: // disc
		return rho - 0.9
	case 1: // square
		return max(math.Abs(u), math.Abs(v)) - 0.8
	case 2: // triangle
		return max(v-0.6, 0.87*math.Abs(u)-0.5*v-0.5)
	case 3: // ring
		return math.Abs(rho-0.75) - 0.22
	case 4: // cross
		a, b := math.Abs(u), math.Abs(v)
		return min(max(a-0.28, b-1), max(a-1, b-0.28))
	case 5: // rows
		return max(rho-1.15, 0.2*math.Sin(7*v+shift))
	case 6: // columns
		return max(rho-1.15, 0.2*math.Sin(7*u+shift))
	case 7: // checks
		return max(rho-1.15, 0.25*math.Sin(5.5*u+shift)*math.Sin(5.5*v+shift))
	case 8: // star
		return rho - 0.68 - 0.32*math.Cos(5*math.Atan2(v, u)+shift)
	default: // dots
		return max(rho-1.15, 0.15*(0.9-math.Cos(7*u+shift)-math.Cos(7*v+shift)))
	}
}

// colours draws the figure's colour, near the hue of its class in most images,
// and a background that stands out from it.
func colours(class int, r *rand.Rand) (front, back [3]float64) {
	hue := 2*math.Pi*float64(class)/10 + 1.2*r.NormFloat64()
	light := 60 + 140*r.Float64()
	front = colour(hue, 20+50*r.Float64(), light)
	step := 55 + 45*r.Float64()
	if light+step > 235 || light-step > 20 && r.Uint64()>>63 == 1 {
		step = -step
	}
	back = colour(2*math.Pi*r.Float64(), 10+40*r.Float64(), light+step)
	return front, back
}

// colour is a point on the circle of hues around a grey.
func colour(hue, strength, light float64) (rgb [3]float64) {
	for c := range rgb {
		rgb[c] = light + strength*math.Cos(hue-2*math.Pi*float64(c)/3)
	}
	return rgb
}
