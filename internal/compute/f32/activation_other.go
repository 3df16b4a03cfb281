//go:build !amd64 && !arm64

package f32

func activateWide(Path, Function, []float32, []float32, float32) int                 { return 0 }
func activateGradWide(Path, Function, []float32, []float32, []float32, float32) int  { return 0 }
func swigluWide(Path, []float32, []float32, []float32) int                           { return 0 }
func swigluGradWide(Path, []float32, []float32, []float32, []float32, []float32) int { return 0 }
func expSumWide(Path, []float32, []float32, float32) (float32, int)                  { return 0, 0 }
func sumExpWide(Path, []float32, float32) (float32, int)                             { return 0, 0 }
func scaledExpWide(Path, []float32, []float32, float32, float32, float32) int        { return 0 }

func widenWide(_ Path, dst []float32, x []uint16)  { fromBFloat16Portable(dst, x) }
func narrowWide(_ Path, dst []uint16, x []float32) { toBFloat16Portable(dst, x) }
