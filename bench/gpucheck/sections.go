package main

import "time"

// A section is checks that share a child process, or that a few test programs have.
type section struct {
	name  string
	about string

	// share is its part of the time for everything, as a weight.
	share time.Duration

	// gpu says that it needs one.
	gpu bool

	run func(c *checker) error

	// tests are the packages whose test TestGPU and the section's name are its checks.
	tests []string
}

// sections are all, in the order of what they are worth if the machine is taken away in the middle:
// whether it is right, how fast it is, what PyTorch does there, then what explains the answers.
var sections = []section{
	{"libraries", "libraries with paths and versions, the GPU, its clocks and memory", 20 * time.Second, false, checkLibraries, nil},
	{"headers", "constants of the bindings against header files of this machine", 8 * time.Second, false, checkHeaders, nil},
	{"kernels", "the PTX, and the same source through NVRTC, kernel by kernel", 40 * time.Second, true, nil, []string{"kernels"}},
	{"ops", "every kernel, convolution and product against the CPU, on random numbers, over poisoned memory", 45 * time.Second, true, nil, []string{"kernels", "cublaslt", "cudnn"}},
	{"gradients", "the whole gradient of ResNet18 against the reference", 50 * time.Second, true, nil, []string{"cuda"}},
	{"steps", "training steps of ResNet18, GPU only, by batch and precision, with graphs and without", 80 * time.Second, true, nil, []string{"cuda"}},
	{"endtoend", "launch with one worker and server, and with two of each, on the one GPU", 60 * time.Second, true, checkEndToEnd, nil},
	{"torch", "PyTorch on the same work, eager and compiled, in its ways to be fast", 150 * time.Second, true, checkTorch, nil},
	{"nets", "whole steps of small networks with every operation against the reference", 30 * time.Second, true, nil, []string{"cuda"}},
	{"facts", "what documentation leaves open, of cuDNN, cuBLASLt and the driver", 25 * time.Second, true, nil, []string{"cudnn", "cublaslt", "cuda"}},
	{"group", "two GPUs or more as one: gradients, ways between them, speed", 40 * time.Second, true, nil, []string{"cuda"}},
	{"accuracy", "a short real training, with -data", 80 * time.Second, true, checkAccuracy, nil},
	{"transfers", "copies to and from the host, alone and during training", 20 * time.Second, true, nil, []string{"cuda"}},
	{"curve", "the loss of 200 steps against the CPU from the same weights", 35 * time.Second, true, nil, []string{"cuda"}},
	{"ceilings", "copies in TB/s, products in TFLOP/s", 20 * time.Second, true, nil, []string{"kernels", "cublaslt"}},
	{"engines", "cuDNN's engines for each convolution of ResNet18, with times", 45 * time.Second, true, nil, []string{"cudnn"}},
}
