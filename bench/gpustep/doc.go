// Package gpustep measures how much of a GPU's speed a whole job keeps, on a machine without one: one worker with one server on this
// host, CIFAR-stem ResNet18, batches of 512.
//
//	go test ./bench/gpustep -bench . -benchtime 1x
//
// The GPU is a stand-in that computes and copies nothing and takes a given time for each kernel (package fake, settings idle and
// node_ns), so that all of the host's part of a step is real but the traffic that a GPU's own copies make. Each line has
//
//	alone-ms/step   the device by itself, without a store
//	job-ms/step     the job, its best epoch of 25 steps
//	exposed-ms/step the difference: what the device waits for
//	share-%         of the device's speed that the job has
//	cpu-ms/step     CPU time of all processes of the job
//
// The first line is of a device that takes no time: there job-ms/step is the host's own limit. No job is faster than cpu-ms/step divided by
// the cores; where these are enough, what is exposed is the way of the first layers' gradients and values through the store. A loaded machine shows
// in all but cpu-ms/step.
package gpustep
