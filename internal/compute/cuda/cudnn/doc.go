// Package cudnn runs convolutions and batch normalisations of NVIDIA's library cuDNN 9 on tensors
// in device memory. It binds the library at run time; nothing of it is needed to build.
//
//	h, err := cudnn.Open(lib, ctx)                     // on the context's thread, as everything below
//	plans, err := h.Forward(cudnn.Conv{N: 128, C: 64, H: 32, W: 32, K: 64, R: 3, S: 3, Pad: [2]int{1, 1}, Stride: [2]int{1, 1},
//		In: cudnn.BFloat16, Weight: cudnn.BFloat16, Out: cudnn.BFloat16})
//	best, timings, err := cudnn.Tune(ctx, stream, plans, run, 5)
//	err = best.Run(stream, workspace, x, w, y)
//
// # Model
//
// A question (Conv, Norm, NormGrad) is turned into a graph of the library's operations. Its
// heuristics are asked for engines that can answer it, in their modes A, B and FALLBACK, and each
// engine becomes a Plan: compiled, with a known size of workspace. An engine that says "not
// supported" when it is compiled is left out; this is normal, and an error only if none is left.
// The older interface (cudnnConvolutionForward and its like) gives further plans for convolutions,
// under the names "legacy ...".
//
// Which plan is fastest only time tells: Tune measures, a Tuner remembers the choice in a file, so
// that the next start makes one plan for each question, without the heuristics. What a Tuner takes
// ran, gave the numbers that the host computes for some elements, and was captured into a graph;
// time for all of it is bounded. A choice made by time may differ between two machines and with it
// the last bits of results; Tuner.Repeat 0 takes the heuristics' first plan everywhere.
//
// # Layout and numbers
//
// Images are channel-last: x (N,H,W,C), y (N,P,Q,K), weights (K,R,S,C), all packed. Sums are made
// in float32 whatever the storage type. Convolution means cross-correlation, as usual and as in
// package nn:
//
//	y[n,p,q,k] = Σ_{r,s,c} x[n, p·stride−pad+r, q·stride−pad+s, c] · w[k,r,s,c]
//
// Engines that add in an order that differs from run to run are left out unless NonDeterministic
// asks for them, so a plan's results repeat bit for bit. Float32 uses float32 products unless TF32
// asks for the 10-bit mantissas of tensor cores.
//
// # Rules for callers
//
// All methods are called on the thread of the drv.Context given to Open (inside its Do), one at a
// time. Pointers are aligned to 16 bytes, those of convolutions to 32, the workspace to 256. Run
// only enqueues; it may be captured into a CUDA graph after the plan ran once outside of one with
// the same pointers. Close the handle after its plans' work is done, before the context.
package cudnn
