//go:build !amd64 && !arm64

package f32

func (u *Update) ascendWide(Path, []float32, []float32) int                     { return 0 }
func (u *Update) sgdWide(Path, []float32, []float32) int                        { return 0 }
func (u *Update) momentumWide(Path, []float32, []float32, []float32) int        { return 0 }
func (u *Update) nesterovWide(Path, []float32, []float32, []float32) int        { return 0 }
func (u *Update) adamWide(Path, []float32, []float32, []float32, []float32) int { return 0 }
func (u *Update) adagradWide(Path, []float32, []float32, []float32) int         { return 0 }
func (u *Update) ftrlWide(Path, []float32, []float32, []float32, []float32) int { return 0 }
func (u *Update) lambWide(Path, []float32, []float32, []float32, []float32) int { return 0 }
func (u *Update) squaresWide(Path, *[numSums]float64, []float32) int            { return 0 }

func (u *Update) rmspropWide(Path, []float32, []float32, []float32, []float32, []float32) int {
	return 0
}

func (u *Update) lambSquaresWide(Path, *[numSums]float64, []float32, []float32, []float32, []float32) int {
	return 0
}
