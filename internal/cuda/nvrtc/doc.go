// Package nvrtc compiles CUDA C++ while the program runs, by NVIDIA's library NVRTC. It is the second way to machine code: the
// first is PTX that was compiled beforehand, which drv.Context.LoadModule takes.
//
//	c, err := nvrtc.Open(lib)
//	image, log, err := c.Compile(nvrtc.Program{Name: "kernels.cu", Source: text, Compute: ctx.Info().Compute})
//	m, err := ctx.LoadModule(image)
package nvrtc
