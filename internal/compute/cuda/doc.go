// Package cuda runs plans on NVIDIA GPUs.
//
//	gpu, err := cuda.Open(0, cuda.Options{})
//	e, err := cuda.New(plan, host, cuda.Config{GPU: gpu})
//	err = e.Run(ctx, false, plan.Hooks{Ready: push})
//
// Open finds the driver, the kernels (package internal/compute/cuda/kernels) and NVIDIA's libraries
// for convolutions and products. New lowers each operation of the plan to launches, takes all
// memory and cuts the plan into segments; Run then only launches.
//
// # Where numbers lie
//
// The host has float32 in the order of package nn: images (N,C,H,W), weights (K,C,R,S). On the
// device images are (N,H,W,C) in the type that is multiplied, channels of what goes into a
// convolution padded to 16 bytes, and parameters have a second form, (K,R,S,C) in that type.
// Statistics, biases, logits, the loss and gradients of parameters are float32. Parameters and
// gradients have the same place on the device as in the host's memory (mirror), which is pinned, so
// that neighbours are copied together.
//
// # A step
//
// There are three streams: up, compute and down. A segment's parameters go up and are brought to
// their second form; its operations follow on compute; its gradients go down. Events order the
// three, so that copies of one segment run beside the operations of others. The first run launches
// operation by operation; the second captures each segment into a CUDA graph, which later runs
// launch. Numbers that differ from step to step lie in device memory (numbers).
//
// Inspect shows what each operation of a step stored, for finding one that computes something else
// than it should.
//
// docs/design/0019-cuda.md says what was decided and why.
package cuda
