// Package nvrtc compiles CUDA C++ at run time with NVIDIA's library NVRTC. The other way to machine
// code is PTX that was compiled beforehand, which drv.Context.LoadModule takes.
//
//	c, err := nvrtc.Open(lib)
//	image, log, err := c.Compile(nvrtc.Program{Name: "kernels.cu", Source: text, Compute: ctx.Info().Compute})
//	m, err := ctx.LoadModule(image)
package nvrtc
