// Package gputest is for tests of a GPU itself. They have the build tag gpu, begin with TestGPU,
// and are skipped on a machine without a GPU:
//
//	go test -tags gpu -run ^TestGPU ./internal/compute/cuda/... ./internal/compute/cuda
//
// Most run the checks of other tests, with their tables and references: between Begin and the
// test's end a fake.Machine is the machine itself. Under -short their sizes are those of stand-ins,
// which a process finds by PARAGON_CUDA_PATH and the like.
//
//	func TestGPUOps(t *testing.T) {
//		gputest.Begin(t)
//		gputest.Check(t, "products", TestProductsEqualPlainLoops)
//	}
//
// Command gpucheck runs them on machines without Go. It reads from their output what Report wrote:
// a row for each check and measurement.
package gputest
